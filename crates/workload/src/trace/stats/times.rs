//! Rates over time, and windows of it.

/// Bins of a rate, at most; beyond that each gets twice as wide.
const BINS_MAX: usize = 512;
/// Windows that are listed one by one; of more only the mean and the most are known.
const WINDOWS_MAX: usize = 1 << 16;

/// Requests over time, in bins of equal width.
#[derive(Clone, Debug)]
pub(super) struct Rate {
    pub width_ms: u64,
    pub counts: Vec<u64>,
}

impl Default for Rate {
    fn default() -> Self {
        Self { width_ms: 1000, counts: Vec::new() }
    }
}

impl Rate {
    /// Counts one; the time is since the beginning of the trace.
    pub fn add(&mut self, time_ms: u64) {
        while time_ms / self.width_ms >= BINS_MAX as u64 {
            self.width_ms *= 2;
            self.counts = self.counts.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
        let bin = (time_ms / self.width_ms) as usize;
        if bin >= self.counts.len() {
            self.counts.resize(bin + 1, 0);
        }
        self.counts[bin] += 1;
    }
}

/// Keys and bytes that were touched in a window of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Window {
    /// The window's number since the beginning of the trace.
    pub number: u64,
    pub keys: f64,
    pub bytes: f64,
}

/// Windows of equal width; those in which nothing happened are left out.
#[derive(Clone, Debug)]
pub(super) struct Windows {
    pub width_ms: u64,
    pub listed: Vec<Window>,
    current: Window,
    windows: u64,
    keys: f64,
    bytes: f64,
}

impl Windows {
    pub const fn new(width_ms: u64) -> Self {
        Self {
            width_ms,
            listed: Vec::new(),
            current: Window { number: 0, keys: 0.0, bytes: 0.0 },
            windows: 0,
            keys: 0.0,
            bytes: 0.0,
        }
    }

    /// A request of a key whose item has so many bytes; of a key that was asked for before, the time and
    /// the bytes as they were known then.
    pub fn touch(&mut self, time_ms: u64, last: Option<(u64, u32)>, bytes: u32, weight: f64) {
        let number = time_ms / self.width_ms;
        if let Some((last_ms, before)) = last
            && last_ms / self.width_ms == number
        {
            // A read that misses does not tell the size; what is stored then does.
            let grown = (f64::from(bytes) - f64::from(before)) * weight;
            self.current.bytes = (self.current.bytes + grown).max(0.0);
            return;
        }
        if number != self.current.number {
            self.close();
            self.current.number = number;
        }
        self.current.keys += weight;
        self.current.bytes += f64::from(bytes) * weight;
    }

    /// Ends the current window.
    pub fn close(&mut self) {
        let ended = std::mem::take(&mut self.current);
        if ended.keys > 0.0 {
            self.windows += 1;
            self.keys += ended.keys;
            self.bytes += ended.bytes;
            if self.listed.len() < WINDOWS_MAX {
                self.listed.push(ended);
            }
        }
    }

    /// Mean of the keys and the bytes of a window in which anything happened.
    pub fn mean(&self) -> (f64, f64) {
        let windows = self.windows.max(1) as f64;
        (self.keys / windows, self.bytes / windows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_widen() {
        let mut rate = Rate::default();
        for time_s in 0..100_000 {
            rate.add(time_s * 1000);
        }
        assert!(rate.counts.len() <= BINS_MAX && rate.counts.iter().sum::<u64>() == 100_000);
        assert_eq!(rate.counts[0], rate.width_ms / 1000);
        rate.add(u64::MAX);
        assert!(rate.counts.len() <= BINS_MAX);
    }

    #[test]
    fn a_key_counts_once_in_a_window() {
        let mut windows = Windows::new(60_000);
        for (time_ms, last) in [
            (0, None),
            (1, Some((0, 10))),
            (60_000, Some((1, 10))),
            (60_000, None),
            (600_000, Some((60_000, 10))),
            // It was not known how long it was.
            (600_001, Some((600_000, 5))),
        ] {
            windows.touch(time_ms, last, 10, 2.0);
        }
        windows.close();
        windows.close();
        let listed: Vec<_> =
            windows.listed.iter().map(|window| (window.number, window.keys, window.bytes)).collect();
        assert_eq!(listed, [(0, 2.0, 20.0), (1, 4.0, 40.0), (10, 2.0, 30.0)]);
        assert!((windows.mean().0 - 8.0 / 3.0).abs() < 1e-9);
    }
}
