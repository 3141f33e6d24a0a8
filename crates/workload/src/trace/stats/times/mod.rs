//! Rates and hits over time, windows of it, bursts.

mod bursts;

use std::ops::AddAssign;

#[cfg(test)]
pub(super) use bursts::Count;
pub(super) use bursts::{Burst, Bursts};

/// Bins of a rate, at most; beyond that each gets twice as wide.
const BINS_MAX: usize = 512;
/// Windows that are listed one by one; of more only the mean and the most are known.
const WINDOWS_MAX: usize = 1 << 16;

/// Counts over time, in bins of equal width.
#[derive(Clone, Debug)]
pub(super) struct Bins<T> {
    pub width_ms: u64,
    pub counts: Vec<T>,
}

/// Requests over time.
pub(super) type Rate = Bins<u64>;

impl<T> Default for Bins<T> {
    fn default() -> Self {
        Self { width_ms: 1000, counts: Vec::new() }
    }
}

impl<T: Copy + Default + AddAssign> Bins<T> {
    /// Adds a count; the time is since the beginning of the trace.
    pub fn add(&mut self, time_ms: u64, count: T) {
        while time_ms / self.width_ms >= BINS_MAX as u64 {
            self.width_ms *= 2;
            let sum = |pair: &[T]| {
                let mut sum = T::default();
                pair.iter().for_each(|count| sum += *count);
                sum
            };
            self.counts = self.counts.chunks(2).map(sum).collect();
        }
        let bin = (time_ms / self.width_ms) as usize;
        if bin >= self.counts.len() {
            self.counts.resize(bin + 1, T::default());
        }
        self.counts[bin] += count;
    }
}

/// Reads and hits: as the trace tells them, and in a simulated cache.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Hits {
    /// Reads whose end the trace tells, and those of them that hit.
    pub told: [f64; 2],
    /// Reads of the simulated cache, and hits.
    pub simulated: [f64; 2],
}

impl Hits {
    pub fn told(hit: bool) -> Self {
        Self { told: [1.0, f64::from(u8::from(hit))], ..Self::default() }
    }

    pub fn simulated(hit: bool, weight: f64) -> Self {
        Self { simulated: [weight, f64::from(u8::from(hit)) * weight], ..Self::default() }
    }

    /// Hit ratios: what the trace tells, and that of the simulated cache; none of no reads.
    pub fn ratios(&self) -> [Option<f64>; 2] {
        [self.told, self.simulated].map(|[reads, hits]| (reads > 0.0).then(|| hits / reads))
    }
}

impl AddAssign for Hits {
    fn add_assign(&mut self, other: Self) {
        for (to, from) in [(&mut self.told, other.told), (&mut self.simulated, other.simulated)] {
            to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
        }
    }
}

/// Keys and bytes that were touched in a window of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Window {
    /// The window's number since the beginning of the trace.
    pub number: u64,
    pub keys: f64,
    pub bytes: f64,
    /// Keys that were read in it, and those of them that were read once.
    pub read_keys: f64,
    pub read_once: f64,
}

/// A request of a key in the sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct Touch {
    /// Time since the beginning of the trace.
    pub time_ms: u64,
    /// Time of the key's last request, and the bytes of its item as they were known then.
    pub last: Option<(u64, u32)>,
    /// Bytes of the item now.
    pub bytes: u32,
    pub reads: bool,
    /// Number of keys that this one stands for.
    pub weight: f64,
}

/// Windows of equal width; those in which nothing happened are left out.
#[derive(Clone, Debug)]
pub(super) struct Windows {
    pub width_ms: u64,
    pub listed: Vec<Window>,
    current: Window,
    windows: u64,
    sum: Window,
}

impl Windows {
    pub fn new(width_ms: u64) -> Self {
        let empty = Window::default();
        Self { width_ms, listed: Vec::new(), current: empty, windows: 0, sum: empty }
    }

    /// A request; `reads` are those of the key in the window of its last request, of which two stand for
    /// more. Returns the reads in the current window.
    pub fn touch(&mut self, touch: &Touch, reads: u8) -> u8 {
        let Touch { weight, .. } = *touch;
        let number = touch.time_ms / self.width_ms;
        let of_window = touch.last.filter(|(last_ms, _)| last_ms / self.width_ms == number);
        if number != self.current.number {
            self.close();
            self.current.number = number;
        }
        let current = &mut self.current;
        match of_window {
            // A read that misses does not tell the size; what is stored then does.
            Some((_, before)) => {
                let grown = (f64::from(touch.bytes) - f64::from(before)) * weight;
                current.bytes = (current.bytes + grown).max(0.0);
            }
            None => {
                current.keys += weight;
                current.bytes += f64::from(touch.bytes) * weight;
            }
        }
        let reads = if of_window.is_some() { reads } else { 0 };
        match (touch.reads, reads) {
            (false, _) | (true, 2..) => return reads,
            (true, 0) => {
                current.read_keys += weight;
                current.read_once += weight;
            }
            // Fewer keys may be remembered by now, each of which stands for more.
            (true, 1) => current.read_once = (current.read_once - weight).max(0.0),
        }
        reads + 1
    }

    /// Ends the current window.
    pub fn close(&mut self) {
        let ended = std::mem::take(&mut self.current);
        if ended.keys > 0.0 {
            self.windows += 1;
            self.sum.keys += ended.keys;
            self.sum.bytes += ended.bytes;
            self.sum.read_keys += ended.read_keys;
            self.sum.read_once += ended.read_once;
            if self.listed.len() < WINDOWS_MAX {
                self.listed.push(ended);
            }
        }
    }

    /// Mean of the keys and the bytes of a window in which anything happened.
    pub fn mean(&self) -> (f64, f64) {
        let windows = self.windows.max(1) as f64;
        (self.sum.keys / windows, self.sum.bytes / windows)
    }

    /// Share of the keys that are read in a window that are read once in it; none of no reads.
    pub fn read_once(&self) -> Option<f64> {
        let Window { read_keys, read_once, .. } = self.sum;
        (read_keys > 0.0).then(|| read_once / read_keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_widen() {
        let mut rate = Rate::default();
        for time_s in 0..100_000 {
            rate.add(time_s * 1000, 1);
        }
        assert!(rate.counts.len() <= BINS_MAX && rate.counts.iter().sum::<u64>() == 100_000);
        assert_eq!(rate.counts[0], rate.width_ms / 1000);
        rate.add(u64::MAX, 1);
        assert!(rate.counts.len() <= BINS_MAX);
    }

    #[test]
    fn a_key_counts_once_in_a_window() {
        let mut windows = Windows::new(60_000);
        let mut reads = 0;
        for (time_ms, last) in [
            (0, None),
            (1, Some((0, 10))),
            (60_000, Some((1, 10))),
            (60_000, None),
            (600_000, Some((60_000, 10))),
            // It was not known how long it was.
            (600_001, Some((600_000, 5))),
        ] {
            let touch = Touch { time_ms, last, bytes: 10, reads: time_ms < 600_000, weight: 2.0 };
            reads = windows.touch(&touch, reads);
        }
        windows.close();
        windows.close();
        let listed: Vec<_> =
            windows.listed.iter().map(|window| (window.number, window.keys, window.bytes)).collect();
        assert_eq!(listed, [(0, 2.0, 20.0), (1, 4.0, 40.0), (10, 2.0, 30.0)]);
        assert!((windows.mean().0 - 8.0 / 3.0).abs() < 1e-9);
        let read: Vec<_> = windows.listed.iter().map(|at| (at.read_keys, at.read_once)).collect();
        assert_eq!(read, [(2.0, 0.0), (4.0, 4.0), (0.0, 0.0)]);
        assert_eq!(windows.read_once(), Some(4.0 / 6.0));
    }

    #[test]
    fn hits_add_up() {
        let mut bins = Bins::default();
        for time_s in 0..2000 {
            bins.add(time_s * 1000, Hits::told(time_s % 4 > 0));
            bins.add(time_s * 1000, Hits::simulated(time_s % 2 > 0, 3.0));
        }
        assert!(bins.counts.len() <= BINS_MAX);
        assert_eq!(bins.counts[0].ratios(), [Some(0.75), Some(0.5)]);
        assert_eq!(Hits::default().ratios(), [None, None]);
    }
}
