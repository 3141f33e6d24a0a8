//! The fate of a datagram: decided by a seeded generator, not by time.

use std::time::Duration;

use clap::Args;

use crate::Result;

/// Probabilities are independent of each other and hold for each direction.
#[derive(Args, Clone, Debug)]
#[group(skip)]
pub(super) struct Options {
    /// Seed of all decisions
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Share of datagrams that are lost, 0 to 1
    #[arg(long, default_value_t = 0.0)]
    pub loss: f64,
    /// Share of datagrams that arrive twice
    #[arg(long, default_value_t = 0.0)]
    pub duplicate: f64,
    /// Share of datagrams that wait for --reorder-ms, so that later ones pass them
    #[arg(long, default_value_t = 0.0)]
    pub reorder: f64,
    /// How long those wait beyond the others
    #[arg(long, default_value_t = 3.0)]
    pub reorder_ms: f64,
    /// How long every datagram waits
    #[arg(long, default_value_t = 0.0)]
    pub delay_ms: f64,
}

/// Delays of each copy of a datagram; a lost one has no copies.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Decision {
    delays: [Duration; 2],
    copies: usize,
    /// One of the copies waits for longer than usual.
    pub reordered: bool,
}

impl Decision {
    /// One delay for each copy.
    pub fn copies(&self) -> &[Duration] {
        &self.delays[..self.copies]
    }
}

/// Decides, one datagram after the other.
#[derive(Clone, Debug)]
pub(super) struct Faults {
    options: Options,
    state: u64,
}

impl Faults {
    pub fn new(options: &Options) -> Result<Self> {
        let shares = [options.loss, options.duplicate, options.reorder];
        if !shares.iter().all(|share| (0.0..=1.0).contains(share)) {
            return Err("--loss, --duplicate and --reorder lie between 0 and 1".into());
        }
        let times = [options.reorder_ms, options.delay_ms];
        if !times.iter().all(|time| (0.0..=60_000.0).contains(time)) {
            return Err("--reorder-ms and --delay-ms lie between 0 and 60000".into());
        }
        Ok(Self { options: options.clone(), state: options.seed })
    }

    /// Decides about the next datagram. Always draws as many numbers, so that one probability
    /// does not change what the others do.
    pub fn decide(&mut self) -> Decision {
        let [lost, duplicated, first, second] =
            [self.options.loss, self.options.duplicate, self.options.reorder, self.options.reorder]
                .map(|share| self.unit() < share);
        let copies = match (lost, duplicated) {
            (true, _) => 0,
            (false, false) => 1,
            (false, true) => 2,
        };
        let delay = |late| {
            let late_ms = if late { self.options.reorder_ms } else { 0.0 };
            Duration::from_secs_f64((self.options.delay_ms + late_ms) / 1e3)
        };
        let delays = [delay(first), delay(second)];
        let reordered = copies > 0 && first || copies > 1 && second;
        Decision { delays, copies, reordered }
    }

    /// Uniform in `[0, 1)`, by splitmix64.
    fn unit(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options { seed: 7, loss: 0.3, duplicate: 0.2, reorder: 0.1, reorder_ms: 3.0, delay_ms: 1.0 }
    }

    fn decisions(options: &Options, count: usize) -> Vec<Decision> {
        let mut faults = Faults::new(options).unwrap();
        (0..count).map(|_| faults.decide()).collect()
    }

    #[test]
    fn a_seed_means_the_same_faults() {
        let options = options();
        assert_eq!(decisions(&options, 1000), decisions(&options, 1000));
        let other = Options { seed: 8, ..options };
        assert_ne!(decisions(&options, 1000), decisions(&other, 1000));
    }

    #[test]
    fn shares_are_as_asked() {
        let all = decisions(&options(), 100_000);
        let share = |condition: fn(&Decision) -> bool| {
            all.iter().filter(|one| condition(one)).count() as f64 / all.len() as f64
        };
        let close = |measured: f64, expected: f64| {
            assert!((measured - expected).abs() < 0.01, "{measured} for {expected}");
        };
        close(share(|one| one.copies().is_empty()), 0.3);
        close(share(|one| one.copies().len() == 2), 0.7 * 0.2);
        close(share(|one| one.reordered), 0.7 * (0.1 + 0.2 * 0.1 * 0.9));
        let (usual, late) = (Duration::from_millis(1), Duration::from_millis(4));
        let mut delays = all.iter().flat_map(Decision::copies);
        assert!(delays.all(|delay| [usual, late].contains(delay)));
    }

    #[test]
    fn faults_are_drawn_independently() {
        let options = options();
        let without_loss = Options { loss: 0.0, ..options.clone() };
        let pairs = decisions(&options, 1000).into_iter().zip(decisions(&without_loss, 1000));
        let kept: Vec<_> = pairs.filter(|(one, _)| !one.copies().is_empty()).collect();
        assert!(kept.len() > 500);
        assert!(kept.iter().all(|(one, other)| one == other));
    }

    #[test]
    fn no_faults_by_default() {
        let (loss, duplicate, reorder, delay_ms) = (0.0, 0.0, 0.0, 0.0);
        let options = Options { loss, duplicate, reorder, delay_ms, ..options() };
        let all = decisions(&options, 1000);
        assert!(all.iter().all(|one| one.copies() == [Duration::ZERO] && !one.reordered));
        let certain = Options { loss: 1.0, ..options };
        assert!(decisions(&certain, 1000).iter().all(|one| one.copies().is_empty()));
    }

    #[test]
    fn shares_and_times_that_make_no_sense_are_refused() {
        for bad in [
            Options { loss: 1.1, ..options() },
            Options { duplicate: -0.1, ..options() },
            Options { reorder: f64::NAN, ..options() },
            Options { delay_ms: -1.0, ..options() },
            Options { reorder_ms: f64::INFINITY, ..options() },
        ] {
            assert!(Faults::new(&bad).is_err(), "{bad:?}");
        }
    }
}
