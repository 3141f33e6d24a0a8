//! Part of a report about a fabric.

use std::collections::BTreeMap;

use micanite_client::{FabricCounters, REFUSALS};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::plan::Reads;
use crate::report::Latency;
use crate::run::latencies::{Class, Latencies};
use crate::run::recorder::Counts;

/// A counter of the client library by its name in the report.
type Counter = (&'static str, fn(&FabricCounters) -> u64);

const COUNTERS: [Counter; 17] = [
    ("gets_one_sided", |counters| counters.gets_one_sided),
    ("gets_two_sided", |counters| counters.gets_two_sided),
    ("retries", |counters| counters.retries),
    ("reads_given_up", |counters| counters.reads_given_up),
    ("second_headers", |counters| counters.second_headers),
    ("entries_replied", |counters| counters.entries_replied),
    ("entries_pushed", |counters| counters.entries_pushed),
    ("push_bytes", |counters| counters.push_bytes),
    ("entries_bogus", |counters| counters.entries_bogus),
    ("histories", |counters| counters.histories),
    ("history_records", |counters| counters.history_records),
    ("messages", |counters| counters.messages),
    ("requests", |counters| counters.requests),
    ("reconnects", |counters| counters.reconnects),
    ("slow_downs", |counters| counters.slow_downs),
    ("no_room", |counters| counters.no_room),
    ("pushed_back", |counters| counters.pushed_back),
];
const ALL: usize = COUNTERS.len() + REFUSALS.len();

/// Counts of clients over a fabric.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FabricTally([u64; ALL]);

impl Default for FabricTally {
    fn default() -> Self {
        Self([0; ALL])
    }
}

impl FabricTally {
    pub fn of(counters: &FabricCounters) -> Self {
        let mut all = [0; ALL];
        for (to, (_, read)) in all.iter_mut().zip(COUNTERS) {
            *to = read(counters);
        }
        all[COUNTERS.len()..].copy_from_slice(&counters.refused);
        Self(all)
    }

    /// The difference to an earlier tally.
    pub fn since(&self, earlier: &Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] - earlier.0[at]))
    }

    pub fn add(&mut self, other: &Self) {
        for (to, from) in self.0.iter_mut().zip(other.0) {
            *to += from;
        }
    }

    fn get(&self, name: &str) -> u64 {
        let place = COUNTERS.iter().position(|(known, _)| *known == name);
        place.map_or(0, |place| self.0[place])
    }

    fn refused(&self) -> &[u64] {
        &self.0[COUNTERS.len()..]
    }
}

/// Counts of the clients over a fabric in the whole run, warm-up included, what comes before left out.
#[derive(Clone, Debug, Serialize)]
pub struct FabricReport {
    pub reads: Reads,
    /// Reading operations of the measured part whose values were read one-sided.
    pub one_sided_ratio: Option<f64>,
    /// Latencies of GETs that were read one-sided, and of those that the server answered.
    pub one_sided_latency_us: Option<Latency>,
    pub two_sided_latency_us: Option<Latency>,
    /// The counters by their names, and refused one-sided reads by reason.
    #[serde(flatten)]
    pub(crate) tally: FabricTally,
}

impl Serialize for FabricTally {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let refused: BTreeMap<_, _> = REFUSALS.iter().zip(self.refused()).collect();
        let mut map = to.serialize_map(Some(COUNTERS.len() + 1))?;
        for ((name, _), counter) in COUNTERS.iter().zip(&self.0) {
            map.serialize_entry(name, counter)?;
        }
        map.serialize_entry("refused", &refused)?;
        map.end()
    }
}

impl FabricReport {
    pub(crate) fn new(reads: Reads, tally: &FabricTally, counts: &Counts, latencies: &Latencies) -> Self {
        let operations = counts.read_operations;
        Self {
            reads,
            one_sided_ratio: (operations > 0).then(|| counts.one_sided as f64 / operations as f64),
            one_sided_latency_us: Latency::of_some(latencies.of(Class::GetOneSided)),
            two_sided_latency_us: Latency::of_some(latencies.of(Class::Get)),
            tally: *tally,
        }
    }

    /// Names and values of rows of the table.
    pub(crate) fn rows(&self) -> Vec<(&'static str, String)> {
        let tally = |name| self.tally.get(name);
        let mut rows = Vec::new();
        if let Some(ratio) = self.one_sided_ratio {
            rows.push(("one-sided", format!("{:.2} % of the GETs", ratio * 100.0)));
        }
        if let (Some(one), Some(two)) = (&self.one_sided_latency_us, &self.two_sided_latency_us) {
            rows.push(("one-sided us", one.line()));
            rows.push(("two-sided us", two.line()));
        }
        let reasons: Vec<_> = REFUSALS
            .iter()
            .zip(self.tally.refused())
            .filter(|(_, count)| **count > 0)
            .map(|(reason, count)| format!("{count} {}", reason.replace('_', " ")))
            .collect();
        if !reasons.is_empty() {
            rows.push(("refused reads", reasons.join(", ")));
        }
        let (replied, pushed, bytes) =
            (tally("entries_replied"), tally("entries_pushed"), tally("push_bytes"));
        rows.push(("entries", format!("{replied} replied, {pushed} pushed in {bytes} bytes")));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each counter stands under its own name, and only what was counted since counts.
    #[test]
    fn counters_have_their_names() {
        let before = FabricCounters { gets_one_sided: 5, ..FabricCounters::default() };
        let mut refused = [0; REFUSALS.len()];
        refused[REFUSALS.len() - 1] = 4;
        let after =
            FabricCounters { gets_one_sided: 12, push_bytes: 96, pushed_back: 3, refused, ..before.clone() };
        let mut tally = FabricTally::of(&after).since(&FabricTally::of(&before));
        tally.add(&FabricTally::default());
        assert_eq!(
            (tally.get("gets_one_sided"), tally.get("push_bytes"), tally.get("pushed_back")),
            (7, 96, 3)
        );
        let counts = Counts { read_operations: 10, one_sided: 7, ..Counts::default() };
        let report = FabricReport::new(Reads::InnerCache, &tally, &counts, &Latencies::new());
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["reads"], "innercache");
        assert_eq!((json["gets_one_sided"].as_u64(), json["one_sided_ratio"].as_f64()), (Some(7), Some(0.7)));
        assert_eq!(json["refused"]["second_header"], 4);
        assert!(json["one_sided_latency_us"].is_null());
        let rows = report.rows();
        assert!(rows.contains(&("refused reads", "4 second header".to_owned())), "{rows:?}");
        assert!(rows.contains(&("entries", "0 replied, 0 pushed in 96 bytes".to_owned())), "{rows:?}");
    }
}
