//! Counters of a server at one time. Servers differ: what is missing is absent.

use std::collections::BTreeMap;
use std::time::Instant;

/// Requests of one command.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Requests {
    pub all: f64,
    pub hits: f64,
    pub misses: f64,
}

/// Counts of requests by the upper bound of their time: bound in seconds, requests up to it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Times(pub Vec<(f64, f64)>);

impl Times {
    /// Returns the bound that such a part of the requests since `before` kept.
    pub fn quantile(&self, before: Option<&Self>, part: f64) -> Option<f64> {
        let since: Vec<(f64, f64)> = self
            .0
            .iter()
            .enumerate()
            .map(|(number, (bound_s, count))| {
                let before = before.and_then(|times| times.0.get(number));
                (*bound_s, count - before.map_or(0.0, |(_, count)| *count))
            })
            .collect();
        let all = since.last()?.1;
        if all <= 0.0 {
            return None;
        }
        let (found_s, _) = since.iter().find(|(_, count)| *count >= all * part)?;
        // Beyond the last bound nothing more is known.
        let last_s = || since.iter().rev().map(|(bound_s, _)| *bound_s).find(|bound_s| bound_s.is_finite());
        if found_s.is_finite() { Some(*found_s) } else { last_s() }
    }
}

/// A thread of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Worker {
    pub requests: f64,
    pub cpu_s: f64,
    pub connections: f64,
    pub partitions: f64,
}

/// A server's counters.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub at: Instant,
    pub version: Option<String>,
    pub uptime_s: Option<f64>,
    /// By name, in the order of their names.
    pub commands: BTreeMap<String, Requests>,
    pub times: BTreeMap<String, Times>,
    /// By number.
    pub workers: BTreeMap<u64, Worker>,
    /// Share in percent, and key.
    pub hot_keys: Option<Vec<(f64, String)>>,
    pub evictions: Option<f64>,
    pub expired: Option<f64>,
    pub refused: Option<f64>,
    pub items: Option<f64>,
    pub memory_bytes_max: Option<f64>,
    /// Bytes by use.
    pub memory: Vec<(String, f64)>,
    pub connections: Option<f64>,
    pub connections_max: Option<f64>,
    pub accepted: Option<f64>,
    pub received_bytes: Option<f64>,
    pub sent_bytes: Option<f64>,
    pub cpu_s: Option<f64>,
}

impl Sample {
    /// Nothing yet.
    pub fn new(at: Instant) -> Self {
        Self {
            at,
            version: None,
            uptime_s: None,
            commands: BTreeMap::new(),
            times: BTreeMap::new(),
            workers: BTreeMap::new(),
            hot_keys: None,
            evictions: None,
            expired: None,
            refused: None,
            items: None,
            memory_bytes_max: None,
            memory: Vec::new(),
            connections: None,
            connections_max: None,
            accepted: None,
            received_bytes: None,
            sent_bytes: None,
            cpu_s: None,
        }
    }

    /// Returns whether the server is another one, or was started anew, since `before`: counters begin again.
    pub fn is_restart_of(&self, before: &Self) -> bool {
        let all = |sample: &Self| sample.commands.values().map(|of| of.all).sum::<f64>();
        all(self) < all(before)
            || matches!((self.uptime_s, before.uptime_s), (Some(now), Some(then)) if now < then)
    }
}

/// Adds to a sum that may not have begun.
pub(super) fn add(sum: &mut Option<f64>, value: f64) {
    *sum = Some(sum.unwrap_or(0.0) + value);
}
