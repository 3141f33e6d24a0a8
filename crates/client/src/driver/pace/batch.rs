//! Number of requests to gather for a datagram: equation 1 of Li et al. (TOCS 2016), evaluated live.
//!
//! A client with `rate` requests per second for `destinations` server cores makes one for the same
//! core every `destinations / rate` seconds. In a datagram of `b` requests the first waits for
//! `b - 1` others and the last for none: `(b - 1) / 2` such intervals on average.

use crate::options::Batch;

/// Delay that gathering may add, as a share of the round trip.
const DELAY_SHARE: f64 = 0.1;
/// Shortest interval of a rate measurement.
const INTERVAL_NS: u64 = 1_000_000;
/// Longest interval of a measurement that is averaged with earlier ones.
const FRESH_NS: u64 = 20_000_000;

/// Requests per destination of a measurement: with fewer, destinations that had none would be missed.
const REQUESTS_PER_DESTINATION: u32 = 8;

/// Returns the mean delay of the requests of a datagram with so many of them, which come `spacing_ns` apart
/// (equation 1).
pub fn delay_of_batch_ns(batch: f64, spacing_ns: f64) -> f64 {
    (batch - 1.0).max(0.0) / 2.0 * spacing_ns
}

/// Returns the largest number of requests per datagram whose delay by equation 1 is at most a tenth of the
/// round trip.
pub fn batch_that_pays(rtt_ns: f64, spacing_ns: f64) -> f64 {
    1.0 + (2.0 * DELAY_SHARE * rtt_ns / spacing_ns).floor()
}

/// Measures the rate of requests and the number of their destinations.
#[derive(Clone, Debug)]
pub struct Gathering {
    batch: Batch,
    linger_ns_max: u64,
    since_ns: u64,
    submitted: u32,
    destinations: u32,
    /// Number of the current interval. Each destination counts once per interval.
    interval: u32,
    /// Destinations of the last complete interval.
    destinations_before: u32,
    /// Mean time between two requests for the same destination; infinite if unknown.
    spacing_ns: f64,
}

impl Gathering {
    pub fn new(batch: Batch, linger_ns_max: u64) -> Self {
        Self {
            batch,
            linger_ns_max,
            since_ns: 0,
            submitted: 0,
            destinations: 0,
            interval: 1,
            destinations_before: 0,
            spacing_ns: f64::INFINITY,
        }
    }

    /// Counts a request for a destination. `seen` holds the interval of that destination's last
    /// request.
    pub fn count(&mut self, now_ns: u64, seen: &mut u32) {
        if *seen != self.interval {
            *seen = self.interval;
            self.destinations += 1;
        }
        self.submitted += 1;
        let elapsed_ns = now_ns.saturating_sub(self.since_ns);
        let is_enough = self.submitted >= self.destinations.saturating_mul(REQUESTS_PER_DESTINATION);
        if elapsed_ns < INTERVAL_NS || elapsed_ns <= FRESH_NS && !is_enough {
            return;
        }
        let now_spacing_ns = elapsed_ns as f64 * f64::from(self.destinations) / f64::from(self.submitted);
        if elapsed_ns > FRESH_NS || self.spacing_ns.is_infinite() {
            self.spacing_ns = now_spacing_ns;
        } else {
            self.spacing_ns += (now_spacing_ns - self.spacing_ns) / 4.0;
        }
        self.since_ns = now_ns;
        self.destinations_before = self.destinations;
        self.submitted = 0;
        self.destinations = 0;
        self.interval = self.interval.wrapping_add(1);
    }

    /// Returns how many requests a datagram should have, and how long to wait for them, for a given
    /// round trip.
    pub fn size(&self, rtt_ns: u64) -> (u16, u64) {
        match self.batch {
            Batch::Fixed(requests) => (requests.max(1), self.linger_ns_max),
            Batch::Full => (u16::MAX, self.linger_ns_max),
            Batch::Adaptive => {
                let more = batch_that_pays(rtt_ns as f64, self.spacing_ns) - 1.0;
                let wait_ns = (more * self.spacing_ns) as u64;
                if more < 1.0 {
                    (1, 0)
                } else {
                    (more.min(65_534.0) as u16 + 1, wait_ns.min(self.linger_ns_max))
                }
            }
        }
    }

    /// Returns the number of destinations of late.
    pub fn destinations_lately(&self) -> u32 {
        self.destinations_before
    }

    /// Returns whether the number is a limit even for a datagram that cannot leave yet.
    pub fn is_fixed(&self) -> bool {
        matches!(self.batch, Batch::Fixed(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Returns the result for a client with this rate, number of destinations and round trip.
    fn size(rate_per_s: u64, destinations: usize, rtt_ns: u64) -> (u16, u64) {
        let mut gathering = Gathering::new(Batch::Adaptive, u64::MAX);
        let mut seen = vec![0; destinations];
        for request in 0..20_000_u64 {
            let now_ns = request * 1_000_000_000 / rate_per_s;
            gathering.count(now_ns, &mut seen[request as usize % destinations]);
        }
        gathering.size(rtt_ns)
    }

    /// Computes equation 1 as in the paper.
    fn delay_ns(batch: u16, destinations: usize, rate_per_s: u64) -> f64 {
        let interval_ns = destinations as f64 * 1e9 / rate_per_s as f64;
        let sum: f64 = (1..=batch).map(|i| f64::from(batch - i) * interval_ns).sum();
        sum / f64::from(batch)
    }

    #[test]
    fn the_largest_batch_whose_delay_is_a_tenth_of_the_round_trip() {
        for (rate, destinations, rtt_ns) in [
            (1_000_000, 1, 100_000),
            (3_000_000, 4, 250_000),
            (500_000, 8, 1_000_000),
            (10_000_000, 16, 50_000),
        ] {
            let (batch, _) = size(rate, destinations, rtt_ns);
            let bound = 0.1 * rtt_ns as f64;
            assert!(batch > 1);
            assert!(delay_ns(batch, destinations, rate) <= bound * 1.02);
            assert!(delay_ns(batch + 1, destinations, rate) > bound * 0.98);
        }
    }

    /// With 50 requests per millisecond for 64 destinations, 29 of these have none in a millisecond.
    #[test]
    fn destinations_without_a_request_for_a_while_count() {
        let mut gathering = Gathering::new(Batch::Adaptive, u64::MAX);
        let (mut seen, mut random) = (vec![0; 64], Random::new(7));
        for request in 0..20_000_u64 {
            gathering.count(request * 20_000, &mut seen[(random.next() >> 58) as usize]);
        }
        let spacing_ns = gathering.spacing_ns;
        assert!((spacing_ns / (64.0 * 20_000.0) - 1.0).abs() < 0.05, "{spacing_ns}");
        assert!(gathering.destinations_lately() > 60);
    }

    #[test]
    fn the_equation_is_that_of_the_paper() {
        for batch in 1..=90 {
            let delay = delay_of_batch_ns(f64::from(batch), 4.0 * 1e9 / 3e6);
            assert!((delay - delay_ns(batch, 4, 3_000_000)).abs() < 1e-6 * delay.max(1.0));
        }
        assert_eq!((batch_that_pays(81_000.0, 17_000.0), batch_that_pays(81_000.0, 8_000.0)), (1.0, 3.0));
    }

    #[test]
    fn one_at_low_rate_and_at_high_fan_out() {
        assert_eq!(size(5_000, 1, 100_000), (1, 0));
        assert_eq!(size(1_000_000, 400, 100_000), (1, 0));
        assert_eq!(Gathering::new(Batch::Adaptive, 0).size(100_000), (1, 0));
    }
}
