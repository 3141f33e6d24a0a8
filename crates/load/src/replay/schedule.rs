//! Times at which requests are due.

use super::step::{Batch, Step};

/// Requests of one time that are kept until the next time is known, at most.
const GROUP_MAX: usize = 1 << 18;
const SECOND_MS: u64 = 1_000;

/// Gives steps their times. Traces that tell whole seconds only would be bursts: their requests are
/// spread evenly over each second.
pub(super) struct Schedule {
    /// Divisor of the trace's times; none means as fast as possible.
    speed: Option<f64>,
    first_ms: Option<u64>,
    /// Time of the requests in `group`.
    time_ms: u64,
    group: Batch,
    has_whole_seconds: bool,
}

impl Schedule {
    pub fn new(speed: Option<f64>) -> Self {
        Self { speed, first_ms: None, time_ms: 0, group: Batch::default(), has_whole_seconds: true }
    }

    /// Takes a step; hands those over whose time is known, in their order.
    pub fn push(&mut self, step: Step, key: &[u8], time_ms: u64, mut to: impl FnMut(Step, &[u8])) {
        if self.speed.is_none() {
            to(step, key);
            return;
        }
        self.first_ms.get_or_insert(time_ms);
        self.has_whole_seconds &= time_ms.is_multiple_of(SECOND_MS);
        if time_ms != self.time_ms || self.group.steps.len() >= GROUP_MAX {
            self.release(time_ms, &mut to);
            self.time_ms = time_ms;
        }
        self.group.push(step, key);
    }

    /// Hands over what is left.
    pub fn finish(&mut self, mut to: impl FnMut(Step, &[u8])) {
        self.release(self.time_ms + SECOND_MS, &mut to);
    }

    fn release(&mut self, next_ms: u64, to: &mut impl FnMut(Step, &[u8])) {
        let since_ms = self.time_ms - self.first_ms.unwrap_or(0).min(self.time_ms);
        let spread_ms = match self.has_whole_seconds {
            true => (next_ms - self.time_ms).min(SECOND_MS),
            false => 0,
        };
        let steps = self.group.steps.len();
        let speed = self.speed.unwrap_or(f64::INFINITY);
        for (at, step) in self.group.steps.iter().enumerate() {
            let ms = since_ms as f64 + spread_ms as f64 * at as f64 / steps as f64;
            let due_ns = (ms * 1e6 / speed) as u64;
            to(Step { due_ns, ..*step }, self.group.key(step));
        }
        self.group.steps.clear();
        self.group.keys.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::super::step::Fill;
    use super::*;
    use micanite_workload::trace::Operation;

    fn due_ms(speed: f64, times_ms: &[u64]) -> Vec<u64> {
        let step = Step {
            due_ns: 0,
            key_hash: 0,
            key_start: 0,
            key_bytes: 1,
            operation: Operation::Get,
            value_bytes: None,
            expiry_s: 0,
            fill: Fill::No,
        };
        let mut schedule = Schedule::new(Some(speed));
        let mut due = Vec::new();
        let mut take = |step: Step, key: &[u8]| {
            assert_eq!(key, b"k");
            due.push(step.due_ns / 1_000_000);
        };
        for time_ms in times_ms {
            schedule.push(step, b"k", *time_ms, &mut take);
        }
        schedule.finish(&mut take);
        due
    }

    #[test]
    fn milliseconds_are_kept() {
        let times_ms = [5_000, 5_001, 5_001, 9_000];
        assert_eq!(due_ms(1.0, &times_ms), [0, 1, 1, 4_000]);
        assert_eq!(due_ms(0.5, &times_ms), [0, 2, 2, 8_000]);
    }

    #[test]
    fn whole_seconds_are_spread() {
        let times_ms = [1_000, 1_000, 2_000, 2_000, 2_000, 2_000, 9_000];
        let due = [0, 500, 1_000, 1_250, 1_500, 1_750, 8_000];
        assert_eq!(due_ms(1.0, &times_ms), due);
        assert_eq!(due_ms(10.0, &times_ms), due.map(|ms| ms / 10));
    }
}
