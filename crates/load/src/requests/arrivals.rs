//! Times at which requests of the open loop are due.

use micanite_workload::{EtcModel, Random};

use crate::plan::Spacing;
use crate::plan::rate_profile::RateProfile;

/// Within this time the rate of a profile is taken as constant.
const SLICE_NS: f64 = 1e6;

/// The schedule of one thread. It depends on the seed alone, never on how the server does.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    random: Random,
    /// Gap between two requests where the factor is 1.
    gap_ns: f64,
    spacing: Spacing,
    /// Requests that are due at once, and those of them that are still to come.
    together: u32,
    left: u32,
    profile: Option<RateProfile>,
    run_s: f64,
    next_ns: f64,
}

/// The common part of all threads' schedules.
#[derive(Clone, Debug)]
pub(crate) struct Rate {
    /// Requests (not operations) per second of all threads.
    pub requests_per_s: f64,
    pub spacing: Spacing,
    /// Requests of a batch, which are due at once with [`Spacing::Batches`].
    pub batch: usize,
    pub profile: Option<RateProfile>,
    /// Length of the run: warm-up and measured part.
    pub run_s: f64,
}

impl Arrivals {
    /// The share of thread `thread` of `threads`.
    pub fn new(rate: &Rate, seed: u64, (thread, threads): (usize, usize)) -> Self {
        let together = if rate.spacing == Spacing::Batches { rate.batch as u32 } else { 1 };
        let mut arrivals = Self {
            random: Random::of_stream(seed ^ 0x00a2_1e55, thread as u64),
            gap_ns: 1e9 * threads as f64 / rate.requests_per_s,
            spacing: rate.spacing,
            together,
            left: together - 1,
            profile: rate.profile.clone(),
            run_s: rate.run_s,
            next_ns: 0.0,
        };
        let phase = match rate.spacing {
            Spacing::Even => thread as f64 / threads as f64,
            Spacing::Poisson | Spacing::Batches | Spacing::EtcModel => arrivals.gaps(),
        };
        arrivals.pass(phase);
        arrivals
    }

    #[inline]
    pub fn next_ns(&self) -> u64 {
        self.next_ns as u64
    }

    /// Goes on to the one after it.
    #[inline]
    pub fn advance(&mut self) {
        if self.left > 0 {
            self.left -= 1;
            return;
        }
        self.left = self.together - 1;
        let gaps = self.gaps();
        if self.profile.is_none() {
            self.next_ns += gaps * self.gap_ns;
        } else {
            self.pass(gaps);
        }
    }

    /// The time to the next request, where it is 1 on average.
    #[inline]
    fn gaps(&mut self) -> f64 {
        match self.spacing {
            Spacing::Even => 1.0,
            Spacing::Poisson => self.random.exponential(1.0),
            Spacing::Batches => self.random.exponential(f64::from(self.together)),
            Spacing::EtcModel => EtcModel.gap(&mut self.random),
        }
    }

    /// Lets time pass until `gaps` requests would have come on average.
    fn pass(&mut self, mut gaps: f64) {
        let Some(profile) = &self.profile else {
            self.next_ns += gaps * self.gap_ns;
            return;
        };
        let end_ns = self.run_s * 1e9;
        while self.next_ns < end_ns {
            let factor = profile.factor(self.next_ns / 1e9, self.run_s);
            let slice_ns = SLICE_NS - self.next_ns % SLICE_NS;
            let gaps_in_slice = slice_ns * factor / self.gap_ns;
            if factor > 0.0 && gaps <= gaps_in_slice {
                self.next_ns += gaps * self.gap_ns / factor;
                return;
            }
            gaps -= gaps_in_slice;
            self.next_ns += slice_ns;
        }
        // Nothing more is due.
        self.next_ns = f64::INFINITY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(rate: &Rate, thread: usize, threads: usize) -> Vec<u64> {
        let mut arrivals = Arrivals::new(rate, 7, (thread, threads));
        let end_ns = (rate.run_s * 1e9) as u64;
        std::iter::from_fn(|| {
            let next_ns = arrivals.next_ns();
            arrivals.advance();
            (next_ns < end_ns).then_some(next_ns)
        })
        .collect()
    }

    fn rate(spacing: Spacing, profile: Option<&str>) -> Rate {
        Rate {
            requests_per_s: 10_000.0,
            spacing,
            batch: 16,
            profile: profile.map(|text| text.parse().unwrap()),
            run_s: 10.0,
        }
    }

    #[test]
    fn even_requests_of_two_threads_alternate() {
        let all = [due(&rate(Spacing::Even, None), 0, 2), due(&rate(Spacing::Even, None), 1, 2)];
        assert_eq!(all[0].len() + all[1].len(), 100_000);
        assert_eq!(&all[0][..3], [0, 200_000, 400_000]);
        assert_eq!(&all[1][..3], [100_000, 300_000, 500_000]);
    }

    /// All requests of a batch are due at once, and the rate is that of the requests.
    #[test]
    fn requests_of_a_batch_are_due_together() {
        let due = due(&rate(Spacing::Batches, None), 0, 1);
        assert!((due.len() as f64 - 1e5).abs() < 5.0 * (16.0 * 1e5f64).sqrt(), "{}", due.len());
        assert!(due.chunks_exact(16).all(|batch| batch[0] == batch[15]));
        let apart = due.chunks_exact(16).zip(due.chunks_exact(16).skip(1));
        assert!(apart.filter(|(one, other)| one[0] == other[0]).count() < 3);
    }

    #[test]
    fn random_requests_have_their_rate_and_spread() {
        let due = due(&rate(Spacing::Poisson, None), 0, 1);
        assert!((due.len() as f64 - 1e5).abs() < 5.0 * 1e5f64.sqrt(), "{}", due.len());
        // A share of 1/e of exponential gaps is longer than the mean.
        let long = due.windows(2).filter(|pair| pair[1] - pair[0] > 100_000).count();
        assert!((long as f64 / 1e5 - 0.3679).abs() < 0.01, "{long}");
    }

    /// The model has fewer gaps that are longer than the mean, and those are longer.
    #[test]
    fn requests_of_the_model_have_their_rate_and_spread() {
        let due = due(&rate(Spacing::EtcModel, None), 0, 1);
        assert!((due.len() as f64 - 1e5).abs() < 2000.0, "{}", due.len());
        let gaps = due.windows(2).map(|pair| pair[1] - pair[0]);
        let long = gaps.filter(|gap| *gap > 100_000).count() as f64 / due.len() as f64;
        assert!((long - 0.3374).abs() < 0.01, "{long}");
    }

    #[test]
    fn nothing_is_due_while_the_factor_is_nothing() {
        for spacing in [Spacing::Even, Spacing::Poisson, Spacing::EtcModel] {
            let due = due(&rate(spacing, Some("steps:0@1s,1@1s,0@8s")), 0, 1);
            assert!((due.len() as f64 - 10_000.0).abs() < 500.0, "{}", due.len());
            assert!(due[0] >= 999_000_000);
        }
    }

    #[test]
    fn a_profile_changes_the_rate() {
        for spacing in [Spacing::Even, Spacing::Poisson, Spacing::EtcModel] {
            let due = due(&rate(spacing, Some("steps:1@2s,0@3s,3@5s")), 0, 1);
            let count = |from: u64, to: u64| {
                let range = from * 1_000_000_000..to * 1_000_000_000;
                due.iter().filter(|due| range.contains(due)).count() as f64
            };
            assert!((count(0, 2) - 20_000.0).abs() < 800.0);
            assert!(count(2, 5) <= 1.0);
            assert!((count(5, 10) - 150_000.0).abs() < 2000.0);
        }
    }
}
