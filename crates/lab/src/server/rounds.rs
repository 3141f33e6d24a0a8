//! Slices of load on one server, and what they gave.

use std::time::Duration;

use super::peers::Peer;
use crate::client::Client;
use crate::{Common, Result, system};

/// How long one server is loaded before it is another's turn.
pub(crate) fn slice_duration(common: &Common) -> Duration {
    Duration::from_millis(if common.quick { 500 } else { 1500 })
}

/// Rates of the rounds of one server.
#[derive(Default)]
pub(crate) struct Rounds {
    pub per_second: Vec<f64>,
    pub per_core_second: Vec<f64>,
    pub p50_us: Vec<f64>,
    pub p99_us: Vec<f64>,
    misses: u64,
    operations: u64,
}

impl Rounds {
    /// One slice of load.
    pub fn add(&mut self, peer: &Peer, client: &mut Client, duration: Duration) -> Result<()> {
        let before_ns = system::cpu_time_ns(peer.pid())?;
        let mut tally = client.run(duration)?;
        let cpu_s = (system::cpu_time_ns(peer.pid())? - before_ns) as f64 / 1e9;
        let operations = tally.operations as f64;
        self.per_second
            .push(operations / tally.elapsed.as_secs_f64());
        self.per_core_second.push(operations / cpu_s);
        self.p50_us.push(tally.latency_us(0.5));
        self.p99_us.push(tally.latency_us(0.99));
        self.misses += tally.misses;
        self.operations += tally.operations;
        Ok(())
    }

    /// Operations that were not misses, in percent; fails when more than a tenth were: a miss
    /// costs something else than a hit.
    pub fn found_percent(&self, peer: &Peer) -> Result<f64> {
        let (misses, operations) = (self.misses, self.operations);
        if misses * 10 > operations {
            return Err(format!("{}: {misses} of {operations} missing", peer.name).into());
        }
        Ok((operations - misses) as f64 / operations.max(1) as f64 * 100.0)
    }
}
