//! The seconds of a run while it runs.

use std::collections::VecDeque;
use std::fmt::Write as _;

use micanite_workload::trace::StatusLine;

use crate::report::Second;
use crate::run::recorder::Interval;

/// Puts together what the threads report of each second.
pub(crate) struct Seconds {
    threads: usize,
    /// Seconds that some thread has reported and others have not: the number of threads.
    open: VecDeque<(u64, usize, Interval)>,
    /// Complete ones.
    pub all: Vec<Second>,
}

impl Seconds {
    pub fn new(threads: usize) -> Self {
        Self { threads, open: VecDeque::new(), all: Vec::new() }
    }

    /// Adds a thread's second; returns the second if it is complete.
    pub fn add(&mut self, at_s: u64, measured: bool, interval: &Interval) -> Option<Second> {
        let place = match self.open.iter().position(|open| open.0 == at_s) {
            Some(place) => place,
            None => {
                self.open.push_back((at_s, 0, Interval::new()));
                self.open.len() - 1
            }
        };
        let (_, reported, sum) = &mut self.open[place];
        *reported += 1;
        sum.add(interval);
        if *reported < self.threads {
            return None;
        }
        let (_, _, sum) = self.open.remove(place)?;
        let second = Second::new(at_s, measured, &sum);
        self.all.push(second);
        Some(second)
    }
}

/// Shows a line per second on standard error.
pub(crate) struct Progress {
    line: StatusLine,
    /// Text before each line.
    label: String,
}

impl Progress {
    pub fn new(label: &str) -> Self {
        Self { line: StatusLine::new(), label: label.to_owned() }
    }

    pub fn show(&mut self, second: &Second) {
        let mut line = format!(
            "{}{:>4} s  {:>12.0} ops/s  p50 {:>8.1} us  p99 {:>8.1} us",
            self.label, second.at_s, second.throughput_ops, second.p50_us, second.p99_us
        );
        if second.lost > 0 {
            let _ = write!(line, "  lost {}", second.lost);
        }
        if second.wrong_values > 0 {
            let _ = write!(line, "  WRONG VALUES {}", second.wrong_values);
        }
        if !second.measured {
            line.push_str("  (not measured)");
        }
        self.line.show(&line);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.line.keep();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_complete_when_all_threads_have_reported() {
        let mut seconds = Seconds::new(2);
        let interval = |operations| Interval { operations, ..Interval::new() };
        assert!(seconds.add(1, false, &interval(5)).is_none());
        assert!(seconds.add(2, true, &interval(7)).is_none());
        let first = seconds.add(1, false, &interval(6)).unwrap();
        assert_eq!((first.at_s, first.throughput_ops), (1, 11));
        let second = seconds.add(2, true, &interval(8)).unwrap();
        assert_eq!((second.at_s, second.throughput_ops), (2, 15));
        assert_eq!(seconds.all.len(), 2);
    }
}
