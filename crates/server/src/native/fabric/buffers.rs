//! The buffer area: registered buffers of clients. That of a client that went stays registered for a while,
//! and goes to whoever connects meanwhile, because to register memory takes as long as to copy some KiB.
//!
//! This knows neither the fabric nor the memory: a buffer is whatever the caller keeps in it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Number of buffers that all workers have together, and its limit.
#[derive(Debug)]
pub struct BufferLimit {
    count: AtomicUsize,
    count_max: usize,
    /// A worker has found the limit reached while others have frozen buffers.
    is_wanted: AtomicBool,
}

impl BufferLimit {
    pub fn new(count_max: usize) -> Self {
        Self { count: AtomicUsize::new(0), count_max, is_wanted: AtomicBool::new(false) }
    }

    /// Counts one more, if there may be one.
    fn begin(&self) -> bool {
        let add = |count: usize| (count < self.count_max).then_some(count + 1);
        self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    fn end(&self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Result of asking for a buffer.
#[derive(Debug, PartialEq, Eq)]
pub enum Grant<T> {
    /// The frozen one of a client that went: a registration was saved.
    Reused(T),
    /// The caller registers one. It counts already.
    Register,
    /// There are as many as there may be.
    Full,
}

#[derive(Debug)]
struct Frozen<T> {
    buffer: T,
    /// Time of the last message through it.
    used_ms: u64,
}

/// One worker's buffers without a client.
#[derive(Debug)]
pub struct BufferArea<T> {
    frozen: VecDeque<Frozen<T>>,
    frozen_ms: u64,
}

impl<T> BufferArea<T> {
    /// An area that keeps a buffer for so long after its last message.
    pub fn new(frozen_ms: u64) -> Self {
        Self { frozen: VecDeque::new(), frozen_ms }
    }

    /// Finds a buffer for a client.
    pub fn take(&mut self, limit: &BufferLimit) -> Grant<T> {
        if let Some(Frozen { buffer, .. }) = self.frozen.pop_back() {
            return Grant::Reused(buffer);
        }
        if limit.begin() {
            return Grant::Register;
        }
        limit.is_wanted.store(true, Ordering::Relaxed);
        Grant::Full
    }

    /// Takes back the buffer of a client that went.
    pub fn freeze(&mut self, buffer: T, used_ms: u64) {
        self.frozen.push_back(Frozen { buffer, used_ms });
    }

    /// Notes that a buffer that was granted does not exist any more, or could not be registered.
    pub fn lose(&self, limit: &BufferLimit) {
        limit.end();
    }

    /// Returns a buffer whose frozen time is over. The caller ends its registration. The oldest goes before
    /// its time if a client of another worker finds no buffer.
    pub fn release(&mut self, limit: &BufferLimit, now_ms: u64) -> Option<T> {
        let is_over = |frozen: &Frozen<T>| now_ms.saturating_sub(frozen.used_ms) >= self.frozen_ms;
        let place = match self.frozen.iter().position(is_over) {
            Some(place) => place,
            None if !self.frozen.is_empty() && limit.is_wanted.swap(false, Ordering::Relaxed) => 0,
            None => return None,
        };
        let released = self.frozen.remove(place)?;
        limit.end();
        Some(released.buffer)
    }

    /// Returns the number of frozen buffers.
    pub fn frozen(&self) -> usize {
        self.frozen.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROZEN_MS: u64 = 1000;

    fn registered(area: &mut BufferArea<u32>, limit: &BufferLimit, number: u32) -> u32 {
        assert_eq!(area.take(limit), Grant::Register);
        number
    }

    #[test]
    fn a_frozen_buffer_goes_to_the_next_client() {
        let (limit, mut area) = (BufferLimit::new(2), BufferArea::new(FROZEN_MS));
        let first = registered(&mut area, &limit, 1);
        area.freeze(first, 100);
        assert_eq!(area.release(&limit, 100 + FROZEN_MS - 1), None);
        assert_eq!(area.take(&limit), Grant::Reused(1));
        // It has no timestamp while a client has it.
        assert_eq!(area.release(&limit, u64::MAX), None);
    }

    #[test]
    fn a_buffer_is_released_after_the_frozen_time_and_not_before() {
        let (limit, mut area) = (BufferLimit::new(2), BufferArea::new(FROZEN_MS));
        let buffers = [1, 2].map(|number| registered(&mut area, &limit, number));
        for (buffer, used_ms) in buffers.into_iter().zip([300, 100]) {
            area.freeze(buffer, used_ms);
        }
        assert_eq!(area.release(&limit, 99 + FROZEN_MS), None);
        // The order of the last messages counts, not that of the ends.
        assert_eq!(area.release(&limit, 100 + FROZEN_MS), Some(2));
        assert_eq!(area.release(&limit, 100 + FROZEN_MS), None);
        assert_eq!(area.release(&limit, 300 + FROZEN_MS), Some(1));
        assert_eq!(area.frozen(), 0);
        assert_eq!(area.take(&limit), Grant::Register);
    }

    #[test]
    fn the_limit_counts_frozen_buffers_and_those_of_all_workers() {
        let limit = BufferLimit::new(2);
        let (mut here, mut there) = (BufferArea::new(FROZEN_MS), BufferArea::new(FROZEN_MS));
        let first = registered(&mut here, &limit, 1);
        let second = registered(&mut there, &limit, 2);
        assert_eq!(here.take(&limit), Grant::Full);
        there.freeze(second, 5000);
        // The other worker gives it up before its time, because a client was turned away.
        assert_eq!(there.release(&limit, 5000), Some(2));
        assert_eq!(there.release(&limit, 5000), None);
        assert_eq!(here.take(&limit), Grant::Register);
        assert_eq!(here.take(&limit), Grant::Full);
        here.lose(&limit);
        assert_eq!(here.take(&limit), Grant::Register);
        here.freeze(first, 0);
        assert_eq!(here.take(&limit), Grant::Reused(1));
    }
}
