//! The samples of the last hour, in two rings of fixed size: the last minutes second by second, the hour in
//! coarser steps. A coarse sample is measured over its own step, so that its quantiles are exact.

use std::collections::VecDeque;

use super::sample::{Moment, Sample};
use crate::limits::{CONSOLE_HISTORY_BYTES, CONSOLE_STEPS};

/// Samples of one step.
#[derive(Debug)]
pub(super) struct Ring {
    /// Seconds from one sample to the next.
    pub step_s: u32,
    samples: VecDeque<Sample>,
    samples_max: usize,
    /// Number of the last sample; the first one has 1.
    last: u64,
    /// Counters at the last sample.
    before: Option<Moment>,
    ticks: u32,
}

/// Both rings.
#[derive(Debug)]
pub(super) struct History {
    pub rings: [Ring; CONSOLE_STEPS.len()],
}

const _: () = {
    let (mut ring, mut samples) = (0, 0);
    while ring < CONSOLE_STEPS.len() {
        samples += CONSOLE_STEPS[ring].1;
        ring += 1;
    }
    assert!(samples * size_of::<Sample>() <= CONSOLE_HISTORY_BYTES);
};

impl History {
    pub fn new() -> Self {
        Self { rings: CONSOLE_STEPS.map(|(step_s, samples_max)| Ring::new(step_s, samples_max)) }
    }

    /// Takes a sample, one second after the last.
    pub fn tick(&mut self, moment: impl Fn() -> Moment, at_s: u32) {
        for ring in &mut self.rings {
            ring.tick(&moment, at_s);
        }
    }

    /// Returns the ring of this step.
    pub fn ring(&self, step_s: u32) -> Option<&Ring> {
        self.rings.iter().find(|ring| ring.step_s == step_s)
    }
}

impl Ring {
    fn new(step_s: u32, samples_max: usize) -> Self {
        let samples = VecDeque::with_capacity(samples_max);
        Self { step_s, samples, samples_max, last: 0, before: None, ticks: 0 }
    }

    fn tick(&mut self, moment: impl Fn() -> Moment, at_s: u32) {
        self.ticks += 1;
        let Some(before) = &self.before else {
            self.before = Some(moment());
            self.ticks = 0;
            return;
        };
        if self.ticks < self.step_s {
            return;
        }
        let now = moment();
        let sample = now.sample(before, at_s);
        self.push(sample);
        self.before = Some(now);
        self.ticks = 0;
    }

    /// Goes on after samples that the previous program took, up to this number.
    pub fn go_on(&mut self, last: u64, samples: impl Iterator<Item = Sample>) {
        samples.for_each(|sample| self.push(sample));
        self.last = last;
    }

    fn push(&mut self, sample: Sample) {
        if self.samples.len() == self.samples_max {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
        self.last += 1;
    }

    /// Returns the number of the last sample, 0 if there is none.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Returns the samples after the one of this number, and the number of the first of them.
    pub fn since(&self, number: u64) -> (u64, impl ExactSizeIterator<Item = &Sample>) {
        let oldest = self.last + 1 - self.samples.len() as u64;
        let first = number.saturating_add(1).clamp(oldest, self.last + 1);
        (first, self.samples.range((first - oldest) as usize..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::admin::feed::sample::FIELDS;
    use crate::testing::{Bench, NOW_S};

    fn times(ring: &Ring, number: u64) -> (u64, Vec<u32>) {
        let (first, samples) = ring.since(number);
        (first, samples.map(|sample| sample.at_s).collect())
    }

    #[test]
    fn a_ring_forgets_the_oldest() {
        let mut ring = Ring::new(1, 3);
        assert_eq!(times(&ring, 0), (1, vec![]));
        for at_s in 1..=5 {
            ring.push(Sample { at_s, values: [0.0; FIELDS] });
        }
        assert_eq!(ring.last(), 5);
        assert_eq!(times(&ring, 0), (3, vec![3, 4, 5]));
        assert_eq!(times(&ring, 4), (5, vec![5]));
        assert_eq!(times(&ring, 5), (6, vec![]));
        // A number that nobody was told.
        assert_eq!(times(&ring, u64::MAX), (6, vec![]));
    }

    #[test]
    fn coarse_samples_come_at_their_step() {
        let bench = Bench::new("");
        let mut history = History::new();
        for second in 0..=40 {
            history.tick(|| Moment::of(&bench.server, 0), NOW_S + second);
        }
        assert_eq!(history.rings.each_ref().map(Ring::last), [40, 4]);
        assert_eq!(times(&history.rings[1], 0).1, [10, 20, 30, 40].map(|second| NOW_S + second));
        assert!(history.ring(10).is_some() && history.ring(3).is_none());
    }

    #[test]
    fn an_hour_fits() {
        for ring in History::new().rings {
            assert!(ring.samples_max as u32 * ring.step_s >= 300, "{}", ring.step_s);
        }
        let (step_s, samples_max) = CONSOLE_STEPS[1];
        assert_eq!(step_s as usize * samples_max, 3600);
    }
}
