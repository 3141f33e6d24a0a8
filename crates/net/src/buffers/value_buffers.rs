//! Buffers of any length within a budget of bytes, for values that fit no block.

/// Returned buffers that are kept for reuse.
const SPARE_MAX: usize = 8;

/// A budget of bytes, and the buffers that were taken from it.
///
/// The budget counts lent buffers and those kept for reuse. A reused buffer may be up to twice as long
/// as requested.
#[derive(Debug)]
pub struct ValueBuffers {
    budget_bytes: usize,
    lent_bytes: usize,
    reserved_bytes: usize,
    spare_bytes: usize,
    spare: Vec<Box<[u8]>>,
}

/// A lent buffer. [`ValueBuffers::give_back`] returns it.
#[derive(Debug)]
#[must_use = "a buffer that is dropped stays in the budget for ever"]
pub struct ValueBuffer {
    memory: Box<[u8]>,
    bytes: usize,
}

impl ValueBuffer {
    /// Returns the requested number of bytes, with arbitrary contents.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[..self.bytes]
    }

    /// Returns the bytes for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[..self.bytes]
    }
}

impl ValueBuffers {
    pub fn new(budget_bytes: usize) -> Self {
        Self {
            budget_bytes,
            lent_bytes: 0,
            reserved_bytes: 0,
            spare_bytes: 0,
            spare: Vec::with_capacity(SPARE_MAX),
        }
    }

    pub fn lent_bytes(&self) -> usize {
        self.lent_bytes
    }

    /// Returns whether a buffer of `bytes` is available now. More than the whole budget is lent
    /// only when nothing else is, so that every request can succeed eventually.
    pub fn can_take(&self, bytes: usize) -> bool {
        self.lent_bytes + bytes <= self.budget_bytes || self.lent_bytes == 0
    }

    /// Reserves bytes for a waiting request. Until this is called with 0, others get only buffers
    /// that leave room for them.
    pub fn reserve(&mut self, bytes: usize) {
        self.reserved_bytes = bytes;
    }

    /// Takes a buffer of `bytes` if one is available now.
    pub fn take(&mut self, bytes: usize) -> Option<ValueBuffer> {
        let fits_beside = self.lent_bytes + self.reserved_bytes + bytes <= self.budget_bytes;
        if !fits_beside && (self.reserved_bytes > 0 || !self.can_take(bytes)) {
            return None;
        }
        let memory = self.take_spare(bytes).unwrap_or_else(|| vec![0; bytes].into());
        self.lent_bytes += memory.len();
        Some(ValueBuffer { memory, bytes })
    }

    /// Takes a kept buffer that is long enough, and neither far too long nor beyond the budget.
    /// Otherwise drops kept ones until a new buffer fits beside them.
    fn take_spare(&mut self, bytes: usize) -> Option<Box<[u8]>> {
        let longest = (2 * bytes).min(self.budget_bytes.saturating_sub(self.lent_bytes));
        let mut lengths = self.spare.iter().map(|memory| memory.len());
        if let Some(found) = lengths.position(|length| (bytes..=longest).contains(&length)) {
            let memory = self.spare.swap_remove(found);
            self.spare_bytes -= memory.len();
            return Some(memory);
        }
        while self.lent_bytes + self.spare_bytes + bytes > self.budget_bytes {
            let dropped = self.spare.pop()?;
            self.spare_bytes -= dropped.len();
        }
        None
    }

    pub fn give_back(&mut self, buffer: ValueBuffer) {
        let bytes = buffer.memory.len();
        self.lent_bytes -= bytes;
        let fits = self.lent_bytes + self.spare_bytes + bytes <= self.budget_bytes;
        if self.spare.len() < SPARE_MAX && fits {
            self.spare_bytes += bytes;
            self.spare.push(buffer.memory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_holds() {
        let mut buffers = ValueBuffers::new(1000);
        let first = buffers.take(600).unwrap();
        assert_eq!(first.bytes().len(), 600);
        assert!(buffers.take(401).is_none());
        let second = buffers.take(400).unwrap();
        buffers.give_back(first);
        assert_eq!(buffers.lent_bytes(), 400);
        let third = buffers.take(500).unwrap();
        assert_eq!(third.bytes().len(), 500);
        buffers.give_back(second);
        buffers.give_back(third);
        assert_eq!(buffers.lent_bytes(), 0);
    }

    #[test]
    fn more_than_the_budget_is_lent_exclusively() {
        let mut buffers = ValueBuffers::new(1000);
        let small = buffers.take(1).unwrap();
        assert!(buffers.take(5000).is_none());
        buffers.give_back(small);
        let large = buffers.take(5000).unwrap();
        assert!(buffers.take(1).is_none());
        buffers.give_back(large);
        assert_eq!(buffers.lent_bytes(), 0);
    }

    /// Later requests for less cannot delay a waiting one for ever.
    #[test]
    fn reserved_bytes_are_not_lent_to_others() {
        let mut buffers = ValueBuffers::new(1000);
        let (first, second) = (buffers.take(300).unwrap(), buffers.take(300).unwrap());
        assert!(buffers.take(900).is_none());
        buffers.reserve(900);
        assert!(buffers.take(100).is_none(), "there are 400, and all are kept");
        buffers.give_back(first);
        assert!(buffers.take(100).is_none());
        buffers.give_back(second);
        let beside = buffers.take(100).unwrap();
        buffers.reserve(0);
        let waited_for = buffers.take(900).unwrap();
        for buffer in [beside, waited_for] {
            buffers.give_back(buffer);
        }
        buffers.reserve(5000);
        assert!(buffers.take(1).is_none(), "it is more than there is");
    }

    #[test]
    fn kept_buffers_count_and_are_dropped_when_needed() {
        let mut buffers = ValueBuffers::new(1000);
        for bytes in [300, 1000, 40, 700, 90, 1000] {
            let buffer = buffers.take(bytes).unwrap();
            assert_eq!(buffer.bytes().len(), bytes);
            assert!(buffers.lent_bytes + buffers.spare_bytes <= 1000);
            buffers.give_back(buffer);
            assert!(buffers.spare_bytes <= 1000);
        }
    }

    #[test]
    fn many_small_ones_never_exceed_the_budget() {
        let mut buffers = ValueBuffers::new(1000);
        let mut lent = Vec::new();
        for round in 0..100 {
            while let Some(buffer) = buffers.take(37 + round) {
                lent.push(buffer);
            }
            assert!(buffers.lent_bytes + buffers.spare_bytes <= 1000);
            lent.drain(..).for_each(|buffer| buffers.give_back(buffer));
        }
    }
}
