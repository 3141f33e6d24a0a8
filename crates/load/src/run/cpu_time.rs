//! CPU time of a server, or of a thread of the generator, during the measured part of a run.

use std::ops::Range;

/// Taken at both ends of the measured part, by a thread that sends and receives: it has a CPU then.
/// One that only watches may have to wait for a CPU for tenths of a second where both client and
/// server spin with a real-time priority.
#[derive(Clone, Debug)]
pub(crate) struct CpuTime {
    window_ns: Range<u64>,
    begin_s: Option<f64>,
    end_s: Option<f64>,
}

impl CpuTime {
    pub fn new(window_ns: Range<u64>) -> Self {
        Self { window_ns, begin_s: None, end_s: None }
    }

    /// Reads the time if it is due. To be called often.
    pub fn look(&mut self, now_ns: u64, read: impl FnOnce() -> Option<f64>) {
        if now_ns < self.window_ns.start || self.end_s.is_some() {
            return;
        }
        if self.begin_s.is_none() {
            self.begin_s = read();
        } else if now_ns >= self.window_ns.end {
            self.end_s = read();
        }
    }

    /// Reads the time where the measured part ends before its window.
    pub fn end(&mut self, read: impl FnOnce() -> Option<f64>) {
        if self.end_s.is_none() {
            self.end_s = read();
        }
    }

    /// CPU time of the measured part, if the run came to its end.
    pub fn used_s(&self) -> Option<f64> {
        Some(self.end_s? - self.begin_s?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_read_at_both_ends_of_the_window() {
        let mut time = CpuTime::new(10..20);
        for (now_ns, used_s) in [(9, 1.0), (10, 2.0), (15, 3.0), (19, 4.0)] {
            time.look(now_ns, || Some(used_s));
            assert_eq!(time.used_s(), None, "at {now_ns}");
        }
        time.look(21, || Some(5.5));
        time.look(30, || Some(9.0));
        time.end(|| Some(10.0));
        assert_eq!(time.used_s(), Some(3.5));
        let mut early = CpuTime::new(10..20);
        early.look(12, || Some(2.0));
        early.end(|| Some(2.5));
        assert_eq!(early.used_s(), Some(0.5));
    }
}
