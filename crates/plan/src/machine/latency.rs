//! Latency beside the queue of a core.

use serde::{Deserialize, Serialize};

/// Waits of a request beside the queue of its core.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// Equally likely round trips without any load, in microseconds.
    pub round_trip_us: Vec<f64>,
    /// Round trips under load less the queue and the service that are simulated, by batch and then by load,
    /// each from the least to the greatest: on one machine the generator's and the kernel's work is in them.
    #[serde(default)]
    pub loaded: Vec<LoadedTrips>,
    /// Most datagrams of one receive.
    pub receive_max: usize,
    /// Length of housekeeping of a core in microseconds.
    #[serde(default)]
    pub pause_us: f64,
    /// Seconds from one to the next.
    #[serde(default = "one_s")]
    pub pause_every_s: f64,
}

/// Round trips at a load.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LoadedTrips {
    /// Requests per datagram, or of a pipeline.
    pub batch: u32,
    /// Share of the throughput with this batch.
    pub load: f64,
    /// Equally likely round trips in microseconds, rising; as many as [`Latency::round_trip_us`] has.
    pub round_trip_us: Vec<f64>,
}

const fn one_s() -> f64 {
    1.0
}

/// Returns the position of `at` between the neighbours of a rising list: both, and the part of the way.
/// Beyond the ends, the end.
fn between(list: &[f64], at: f64) -> (usize, usize, f64) {
    match list.iter().position(|value| *value >= at) {
        None => (list.len() - 1, list.len() - 1, 0.0),
        Some(0) => (0, 0, 0.0),
        Some(after) => {
            let (from, to) = (list[after - 1], list[after]);
            (after - 1, after, (at - from) / (to - from))
        }
    }
}

fn mixed(first: &[f64], second: &[f64], part: f64) -> Vec<f64> {
    first.iter().zip(second).map(|(one, other)| one + (other - one) * part).collect()
}

impl Latency {
    /// Returns equally likely round trips in microseconds: on straight lines between the batches and the
    /// loads that were measured, and beyond them as at the last one.
    pub fn round_trips_us(&self, batch: u32, load: f64) -> Vec<f64> {
        let mut batches: Vec<u32> = self.loaded.iter().map(|trips| trips.batch).collect();
        batches.dedup();
        if batches.is_empty() {
            return self.round_trip_us.clone();
        }
        let of = |batch: u32| {
            let trips: Vec<&LoadedTrips> = self.loaded.iter().filter(|trips| trips.batch == batch).collect();
            let loads: Vec<f64> = trips.iter().map(|trips| trips.load).collect();
            let (before, after, part) = between(&loads, load);
            mixed(&trips[before].round_trip_us, &trips[after].round_trip_us, part)
        };
        let sizes: Vec<f64> = batches.iter().copied().map(f64::from).collect();
        let (before, after, part) = between(&sizes, f64::from(batch));
        mixed(&of(batches[before]), &of(batches[after]), part)
    }

    /// Refuses times that cannot be, with a sentence.
    pub(super) fn check(&self) -> Result<(), String> {
        let is_wrong =
            |times: &[f64]| times.is_empty() || times.iter().any(|us| !(us.is_finite() && *us >= 0.0));
        if is_wrong(&self.round_trip_us) {
            return Err("latency.round_trip_us must list one time or more, each 0 or more".to_owned());
        }
        let mut before = (0, 0.0);
        for trips in &self.loaded {
            let rises = (trips.batch, trips.load) > before && trips.load > 0.0 && trips.load <= 1.0;
            let count = trips.round_trip_us.len();
            if !rises || is_wrong(&trips.round_trip_us) || count != self.round_trip_us.len() {
                return Err(
                    "latency.loaded must rise by batch and by load up to 1, each with as many times \
                     as latency.round_trip_us"
                        .to_owned(),
                );
            }
            before = (trips.batch, trips.load);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Round trips lie between those of the batches and loads that were measured.
    #[test]
    fn round_trips_lie_between_measured_ones() {
        let of = |batch: u32, load: f64, us: f64| LoadedTrips { batch, load, round_trip_us: vec![us] };
        let mut latency = Latency {
            round_trip_us: vec![10.0],
            loaded: Vec::new(),
            receive_max: 32,
            pause_us: 0.0,
            pause_every_s: 1.0,
        };
        assert_eq!(latency.round_trips_us(1, 0.7), [10.0]);
        latency.loaded = vec![of(2, 0.2, 20.0), of(2, 0.5, 50.0), of(4, 0.2, 40.0), of(4, 0.4, 80.0)];
        for (batch, load, us) in
            [(1, 0.1, 20.0), (2, 0.3, 30.0), (3, 0.3, 45.0), (4, 0.9, 80.0), (9, 0.3, 60.0)]
        {
            let found = latency.round_trips_us(batch, load)[0];
            assert!((found - us).abs() < 1e-9, "{batch} {load}: {found}");
        }
        latency.check().unwrap();
        latency.loaded.reverse();
        assert!(latency.check().unwrap_err().contains("rise"));
    }
}
