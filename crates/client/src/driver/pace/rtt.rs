//! Measures the round trip, and derives timeouts (RFC 6298).

use crate::options::Options;

/// Round trip to one server core.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rtt {
    /// Zero before the first measurement.
    smoothed_ns: u64,
    variation_ns: u64,
}

impl Rtt {
    /// Records the round trip of a datagram that was sent once.
    pub fn measure(&mut self, rtt_ns: u64) {
        if self.smoothed_ns == 0 {
            self.smoothed_ns = rtt_ns.max(1);
            self.variation_ns = rtt_ns / 2;
            return;
        }
        let error_ns = rtt_ns.abs_diff(self.smoothed_ns);
        self.variation_ns = (3 * self.variation_ns + error_ns) / 4;
        self.smoothed_ns = ((7 * self.smoothed_ns + rtt_ns) / 8).max(1);
    }

    /// Returns the smoothed round trip; 0 before the first measurement.
    pub fn smoothed_ns(&self) -> u64 {
        self.smoothed_ns
    }

    /// Returns the timeout after so many failures. It doubles with every second one. (If it doubled
    /// with every failure, one unlucky datagram would hold up the window of ids behind it.)
    pub fn resend_after_ns(&self, failures: u8, options: &Options) -> u64 {
        let once = match self.smoothed_ns {
            0 => options.resend_ns_first,
            smoothed => smoothed + 4 * self.variation_ns,
        };
        let once = once.max(options.resend_ns_min);
        once.saturating_mul(1 << (failures / 2).min(32)).min(options.resend_ns_max.max(options.resend_ns_min))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_follow_the_measured_round_trip_and_double() {
        let options = Options::default();
        let mut rtt = Rtt::default();
        assert_eq!(rtt.resend_after_ns(0, &options), options.resend_ns_first);
        rtt.measure(4_000_000);
        assert_eq!(rtt.resend_after_ns(0, &options), 12_000_000);
        assert_eq!(rtt.resend_after_ns(1, &options), 12_000_000);
        assert_eq!(rtt.resend_after_ns(3, &options), 24_000_000);
        assert_eq!(rtt.resend_after_ns(200, &options), options.resend_ns_max);
        for _ in 0..100 {
            rtt.measure(100_000);
        }
        assert_eq!(rtt.smoothed_ns() / 1000, 100);
        assert_eq!(rtt.resend_after_ns(0, &options), options.resend_ns_min);
    }
}
