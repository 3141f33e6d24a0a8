//! Delay of requests that a client holds back until a datagram is full: equation 1 of the paper.

/// Returns the mean delay in microseconds: a client makes `rate` requests per second to `fan_out` servers of
/// so many partitions, and sends `batch` requests of a partition together.
pub fn delay_us(rate: f64, fan_out: f64, partitions: f64, batch: u32) -> f64 {
    // The mean of b - i over i = 1 .. b.
    let ahead = f64::from(batch.max(1) - 1) / 2.0;
    ahead * partitions * fan_out / rate * 1e6
}

/// Batches of figure 13: powers of two, then what fits an Ethernet frame.
pub const BATCHES: [u32; 7] = [2, 4, 8, 16, 32, 64, 90];

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of section 5.5: 1 M/s, fan-out 10,000, two requests: 5,000 us.
    #[test]
    fn a_slow_client_of_ten_thousand_servers() {
        assert_eq!(delay_us(1e6, 10_000.0, 1.0, 2), 5000.0);
        assert_eq!(delay_us(1e6, 10_000.0, 1.0, 1), 0.0);
    }

    /// The formula equals the sum of equation 1.
    #[test]
    fn the_formula_is_the_sum() {
        for batch in BATCHES {
            let sum: f64 = (1..=batch).map(|i| f64::from(batch - i) * 24.0 * 3.0 / 250.0).sum();
            let mean = sum / f64::from(batch);
            assert!((delay_us(250e6, 3.0, 24.0, batch) - mean).abs() < 1e-9 * mean.max(1.0));
        }
    }

    /// The lab of section 5.5: the formula gives 0.048 to 1.488 us where the paper prints 0.1 to 1.6.
    #[test]
    fn the_lab_of_the_paper() {
        assert!((delay_us(250e6, 1.0, 24.0, 2) / 0.048 - 1.0).abs() < 1e-9);
        assert!((delay_us(250e6, 1.0, 24.0, 32) / 1.488 - 1.0).abs() < 1e-9);
    }

    /// Section 5.5: at 1 M/s and a fan-out above 10 no batch stays within 10 % of the round trip.
    #[test]
    fn slow_clients_of_many_servers_should_not_batch() {
        let round_trip_us = 81.0;
        assert!(delay_us(1e6, 17.0, 1.0, 2) > 0.1 * round_trip_us);
        assert!(delay_us(1e6, 10.0, 1.0, 2) < 0.1 * round_trip_us);
    }
}
