//! The table of statistics. Each counter and each level is declared once, with its names in `stats`, its
//! metric and its meaning: `stats`, `/metrics` and the page `docs/reference/statistics.md` derive from it.
//!
//! | file | holds |
//! |---|---|
//! | `workers.rs` | counters of a worker, which are fields of [`Counters`] at the same time |
//! | `engine.rs` | items and memory |
//! | `process.rs` | the process, its connections, routes and recordings |
//! | `group.rs` | counters of a part that a server may lack (`stats native`) |
//! | `view.rs` | the numbers at one moment |

mod engine;
pub(crate) mod group;
mod process;
mod view;
mod workers;

pub(crate) use view::View;
pub use workers::{Counter, Counters, Totals};

use micanite_engine::Stats;

use crate::shared::{AcceptorNumbers, Server};

/// All statistics, in the order of `stats`.
const TABLE: [&[Statistic]; 4] = [engine::SLABS, process::PROCESS, workers::WORKERS, engine::ENGINE];

/// Type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Counts by upper bound.
    Histogram,
}

impl Kind {
    /// Returns Prometheus' name of the type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// Metrics of one name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Family {
    pub name: &'static str,
    pub kind: Kind,
    /// Names of the labels.
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

/// Source of a number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value {
    /// A counter that each worker has, and the sum over workers, readers and the kernel.
    Worker(fn(&Counters) -> &Counter, fn(&Totals) -> u64),
    Engine(fn(&Stats) -> u64),
    Acceptor(fn(&AcceptorNumbers) -> u64),
    Server(fn(&View<'_>) -> u64),
    /// A word, which is no metric.
    Text(fn(&View<'_>) -> String),
}

/// Metric of a statistic.
#[derive(Clone, Copy, Debug)]
enum Metric {
    /// The statistic is all there is of its family.
    Own(&'static str),
    /// One of a family, with these labels.
    Part(&'static Family, &'static [(&'static str, &'static str)]),
}

/// Declaration of a statistic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Statistic {
    pub kind: Kind,
    help: &'static str,
    value: Value,
    /// Names in `stats`: memcached's where it has the number.
    pub general: &'static [&'static str],
    /// Name in `stats items`, behind `items:1:`.
    pub item: Option<&'static str>,
    /// Name in `stats slabs`, behind `1:`.
    pub slab: Option<&'static str>,
    metric: Option<Metric>,
    /// The value is in nanoseconds, the metric in seconds.
    is_ns: bool,
    /// Servers in whose `stats` it is.
    when: fn(&Server) -> bool,
}

impl Statistic {
    const fn new(kind: Kind, help: &'static str, value: Value) -> Self {
        Self {
            kind,
            help,
            value,
            general: &[],
            item: None,
            slab: None,
            metric: None,
            is_ns: false,
            when: |_| true,
        }
    }

    const fn counter(help: &'static str, value: Value) -> Self {
        Self::new(Kind::Counter, help, value)
    }

    const fn gauge(help: &'static str, value: Value) -> Self {
        Self::new(Kind::Gauge, help, value)
    }

    const fn stat(mut self, names: &'static [&'static str]) -> Self {
        self.general = names;
        self
    }

    const fn unlisted(mut self) -> Self {
        self.general = &[];
        self
    }

    const fn item(mut self, name: &'static str) -> Self {
        self.item = Some(name);
        self
    }

    const fn slab(mut self, name: &'static str) -> Self {
        self.slab = Some(name);
        self
    }

    const fn metric(mut self, name: &'static str) -> Self {
        self.metric = Some(Metric::Own(name));
        self
    }

    const fn part(mut self, of: &'static Family, labels: &'static [(&'static str, &'static str)]) -> Self {
        self.metric = Some(Metric::Part(of, labels));
        self
    }

    const fn seconds(mut self, name: &'static str) -> Self {
        self.is_ns = true;
        self.metric(name)
    }

    const fn when(mut self, is_shown: fn(&Server) -> bool) -> Self {
        self.when = is_shown;
        self
    }

    /// Returns the meaning, as a sentence.
    pub fn help(&self) -> &'static str {
        self.help.trim_ascii_start()
    }

    /// Returns the labels that tell the metric from others of its family.
    pub fn metric_labels(&self) -> &'static [(&'static str, &'static str)] {
        match self.metric {
            Some(Metric::Part(_, labels)) => labels,
            _ => &[],
        }
    }

    /// Returns the metric's family, if there is a metric.
    fn family(&self) -> Option<Family> {
        let labels: &[&str] = if self.is_of_workers() { &["worker"] } else { &[] };
        self.metric.map(|metric| match metric {
            Metric::Own(name) => Family { name, kind: self.kind, labels, help: self.help() },
            Metric::Part(family, _) => *family,
        })
    }

    /// Returns whether `stats reset` lets the counter begin at 0.
    pub fn begins_anew(&self) -> bool {
        self.kind == Kind::Counter && !matches!(self.value, Value::Server(_))
    }

    /// Returns whether the value is a word.
    pub fn is_text(&self) -> bool {
        matches!(self.value, Value::Text(_))
    }

    /// Returns whether each worker has a number of its own.
    pub fn is_of_workers(&self) -> bool {
        matches!(self.value, Value::Worker(..))
    }

    /// Returns the metric's number of a worker.
    pub fn of_worker(&self, counters: &Counters) -> f64 {
        match self.value {
            Value::Worker(of, _) => self.scaled(of(counters).get()),
            _ => 0.0,
        }
    }

    /// Returns the metric's number of the server, since its start.
    pub fn of_server(&self, view: &View<'_>) -> f64 {
        self.scaled(view.now(self.value))
    }

    fn scaled(&self, number: u64) -> f64 {
        if self.is_ns { number as f64 / 1e9 } else { number as f64 }
    }
}

/// Returns each family of metrics with its statistics, in the table's order.
pub(crate) fn families() -> Vec<(Family, Vec<&'static Statistic>)> {
    let mut families: Vec<(Family, Vec<&'static Statistic>)> = Vec::new();
    for statistic in all() {
        let Some(family) = statistic.family() else {
            continue;
        };
        match families.iter_mut().find(|(known, _)| known.name == family.name) {
            Some((_, parts)) => parts.push(statistic),
            None => families.push((family, vec![statistic])),
        }
    }
    families
}

/// Returns each statistic.
pub(crate) fn all() -> impl Iterator<Item = &'static Statistic> {
    TABLE.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn each_name_is_declared_once() {
        for names in [
            all().flat_map(|it| it.general.iter().copied()).collect::<Vec<_>>(),
            all().filter_map(|it| it.item).collect(),
            all().filter_map(|it| it.slab).collect(),
        ] {
            let mut counts = BTreeMap::new();
            names.iter().for_each(|name| *counts.entry(name).or_insert(0) += 1);
            assert!(!names.is_empty() && counts.values().all(|count| *count == 1), "{counts:?}");
        }
        let metrics = all().filter_map(|it| Some((it.family()?.name, it.metric_labels())));
        let mut metrics: Vec<_> = metrics.collect();
        let count = metrics.len();
        metrics.sort_unstable();
        metrics.dedup();
        assert_eq!(metrics.len(), count);
    }

    /// Names tell the type and the unit, as Prometheus' users expect.
    #[test]
    fn metrics_have_names_of_their_kinds() {
        for (Family { name, kind, labels, help }, parts) in families() {
            assert_eq!(kind == Kind::Counter, name.ends_with("_total"), "{name}");
            assert!(help.ends_with('.'), "{name}");
            for part in parts {
                let worker = part.is_of_workers().then_some("worker");
                let all: Vec<_> =
                    worker.into_iter().chain(part.metric_labels().iter().map(|it| it.0)).collect();
                assert_eq!(all, labels, "{name}");
                assert!(!part.is_text() && (!part.is_ns || name.contains("_seconds")), "{name}");
            }
        }
    }

    #[test]
    fn every_statistic_is_shown_somewhere() {
        for statistic in all() {
            let is_named = !statistic.general.is_empty() || statistic.item.or(statistic.slab).is_some();
            assert!(is_named || statistic.metric.is_some(), "{}", statistic.help());
        }
    }
}
