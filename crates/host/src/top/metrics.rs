//! Samples from Prometheus' text format, as Micanite writes it (docs/metrics.md).

use std::time::Instant;

use micanite_control::metrics;

use super::sample::{Sample, add};
use super::text::harmless;

/// Labels of a line.
struct Labels<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Labels<'a> {
    fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

/// Reads the metrics, and hot keys as `micanite ctl hotkeys` lists them.
pub(super) fn sample(at: Instant, metrics: &str, hot_keys: &str) -> Sample {
    let mut sample = Sample::new(at);
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        if let Some((name, labels, value)) = parse(line) {
            take(&mut sample, name, &labels, value);
        }
    }
    let hot = hot_keys.lines().filter_map(|line| {
        let (share, key) = line.trim_start().split_once("%  ")?;
        Some((share.parse().ok()?, harmless(key)))
    });
    sample.hot_keys = Some(hot.collect());
    sample
}

/// Splits `name{label="value",...} number`.
fn parse(line: &str) -> Option<(&str, Labels<'_>, f64)> {
    let (what, number) = line.rsplit_once(' ')?;
    let value = if number == "+Inf" { f64::INFINITY } else { number.parse().ok()? };
    let Some((name, labels)) = what.split_once('{') else {
        return Some((what, Labels(Vec::new()), value));
    };
    let labels = labels.strip_suffix("\"}")?.split("\",");
    let labels = labels.filter_map(|label| label.split_once("=\""));
    Some((name, Labels(labels.collect()), value))
}

fn take(sample: &mut Sample, name: &str, labels: &Labels<'_>, value: f64) {
    let worker = labels.get("worker").and_then(|number| number.parse().ok());
    let is_bucket = name.strip_suffix("_bucket") == Some(metrics::REQUEST_DURATION);
    match (name, worker) {
        _ if is_bucket => time(sample, labels, value),
        (metrics::BUILD_INFO, _) => {
            sample.version = labels.get("version").map(|version| format!("micanite {}", harmless(version)));
        }
        (metrics::UPTIME, _) => sample.uptime_s = Some(value),
        (metrics::CONNECTIONS, _) => sample.connections = Some(value),
        (metrics::CONNECTIONS_MAX, _) => sample.connections_max = Some(value),
        (metrics::CONNECTIONS_ACCEPTED, _) => sample.accepted = Some(value),
        (metrics::ITEMS, _) => sample.items = Some(value),
        (metrics::EVICTIONS, _) => add(&mut sample.evictions, value),
        (metrics::ITEMS_EXPIRED, _) => sample.expired = Some(value),
        (metrics::STORES_REFUSED, _) => add(&mut sample.refused, value),
        (metrics::RECEIVED_BYTES, _) => add(&mut sample.received_bytes, value),
        (metrics::SENT_BYTES, _) => add(&mut sample.sent_bytes, value),
        (metrics::PROCESS_CPU, _) => sample.cpu_s = Some(value),
        (metrics::MEMORY_LIMIT, _) => sample.memory_bytes_max = Some(value),
        (metrics::MEMORY, _) => {
            sample.memory.extend(labels.get("use").map(|word| (harmless(word).replace('_', " "), value)));
        }
        (metrics::WORKER_CPU, Some(worker)) => of(sample, worker).cpu_s = value,
        (metrics::WORKER_CONNECTIONS, Some(worker)) => of(sample, worker).connections = value,
        (metrics::WORKER_PARTITIONS, Some(worker)) => of(sample, worker).partitions = value,
        (metrics::COMMANDS, _) => command(sample, labels, worker, value),
        _ => {}
    }
}

fn of(sample: &mut Sample, worker: u64) -> &mut super::sample::Worker {
    sample.workers.entry(worker).or_default()
}

fn command(sample: &mut Sample, labels: &Labels<'_>, worker: Option<u64>, value: f64) {
    let (Some(command), Some(result)) = (labels.get("command"), labels.get("result")) else {
        return;
    };
    if let Some(worker) = worker {
        of(sample, worker).requests += value;
    }
    let requests = sample.commands.entry(harmless(command)).or_default();
    requests.all += value;
    match result {
        "hit" => requests.hits += value,
        "miss" => requests.misses += value,
        _ => {}
    }
}

/// Adds a bucket; those of other transports have the same bounds.
fn time(sample: &mut Sample, labels: &Labels<'_>, value: f64) {
    let (Some(command), Some(bound)) = (labels.get("command"), labels.get("le")) else {
        return;
    };
    let bound_s = if bound == "+Inf" { Some(f64::INFINITY) } else { bound.parse::<f64>().ok() };
    let Some(bound_s) = bound_s else {
        return;
    };
    let times = &mut sample.times.entry(harmless(command)).or_default().0;
    match times.binary_search_by(|(known_s, _)| known_s.total_cmp(&bound_s)) {
        Ok(place) => times[place].1 += value,
        Err(place) => times.insert(place, (bound_s, value)),
    }
}
