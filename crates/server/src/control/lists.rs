//! Lists of `ctl`, as text and as one JSON object.

use std::fmt::Write;

use micanite_control::Format;
use micanite_engine::Route;
use serde_json::{Map, Value, json};

use super::execute::Executor;
use crate::limits::STATS_REPLY_BYTES_MAX;
use crate::output::Output;
use crate::shared::clock::seconds;
use crate::telemetry::hot::{self, HotKey};
use crate::telemetry::stats;

/// A partition as it is listed. A single worker counts nothing by partition.
struct Listed {
    partition: usize,
    route: Route,
    requests_per_s: Option<u64>,
    requests: Option<u64>,
    /// Time that its requests took of a second.
    busy_ns: Option<u64>,
}

impl Executor {
    /// The partitions.
    pub(super) fn routes(&self, format: Format) -> String {
        let partitions = self.listed();
        if format.json {
            let rows: Vec<_> = partitions.iter().map(Listed::json).collect();
            return object(&json!({ "partitions": rows }));
        }
        let mut text = format!(
            "{:>9}  {:<4}  {:>5}  {:>12}  {:>15}  {:>6}\n",
            "partition", "mode", "owner", "requests/s", "requests", "busy"
        );
        let number = |number: Option<u64>| number.map_or_else(|| "-".into(), |number| number.to_string());
        for one in partitions {
            let (mode, owner) = (one.route.access.name(), one.route.owner);
            let (rate, sum) = (number(one.requests_per_s), number(one.requests));
            let busy = one.busy_ns.map_or_else(|| "-".into(), |ns| format!("{:.2}%", ns as f64 / 1e7));
            let partition = one.partition;
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{partition:>9}  {mode:<4}  {owner:>5}  {rate:>12}  {sum:>15}  {busy:>6}");
        }
        text
    }

    fn listed(&self) -> Vec<Listed> {
        let counts = self.server.shared.loads.now(&self.server.shared.cache);
        let (rates, costs) = (self.server.balance.rates(), self.server.balance.costs());
        let several = self.several_workers().is_ok();
        let listed = |partition: usize| {
            let sum = counts.iter().map(|of_worker| of_worker[partition]).sum();
            Some(Listed {
                partition,
                route: self.server.shared.cache.route(partition)?,
                requests_per_s: rates.get(partition).copied().filter(|_| several),
                requests: Some(sum).filter(|_| several),
                busy_ns: costs.get(partition).copied(),
            })
        };
        (0..self.partitions()).filter_map(listed).collect()
    }

    /// The hottest keys. Workers are not asked: each writes a sketch of its own.
    pub(super) fn hot_keys(&self, format: Format) -> String {
        let now_s = seconds(self.clock.now_ms());
        let hottest = hot::hottest(&self.server.shared.hot, now_s, hot::KEYS_MAX);
        if format.json {
            return hottest.json();
        }
        let mut text = format!("{:>8}  key\n", "share");
        for HotKey { key, share } in &hottest.keys {
            let (percent, key) = (100.0 * share, hot::printed(key));
            let _ = writeln!(text, "{percent:>7.3}%  {key}");
        }
        text
    }

    /// The statistics, under the names of the memcached command.
    pub(super) fn stats(&self, format: Format) -> String {
        let mut bytes = vec![0; STATS_REPLY_BYTES_MAX];
        let mut output = Output::new(&mut bytes, 0);
        stats::general(&self.server, seconds(self.clock.now_ms()), &mut output);
        let filled = output.filled();
        let text = String::from_utf8_lossy(&bytes[..filled]).replace('\r', "");
        if !format.json {
            return text;
        }
        let pairs = text.lines().filter_map(|line| line.strip_prefix("STAT ")?.split_once(' '));
        object(&pairs.map(|(name, text)| (name.to_owned(), value(text))).collect::<Map<_, _>>().into())
    }
}

impl Listed {
    fn json(&self) -> Value {
        json!({
            "partition": self.partition,
            "mode": self.route.access.name(),
            "owner": self.route.owner,
            "requests_per_second": self.requests_per_s,
            "requests": self.requests,
            "busy_percent": self.busy_ns.map(|ns| ns as f64 / 1e7),
        })
    }
}

fn object(value: &Value) -> String {
    format!("{value}\n")
}

/// A number where a text is one.
fn value(text: &str) -> Value {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match (text.parse::<u64>(), text.parse::<f64>()) {
        (Ok(number), _) => number.into(),
        (_, Ok(number)) if is_number => number.into(),
        _ => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_numbers() {
        for (text, expected) in [
            ("18446744073709551615", json!(u64::MAX)),
            ("0.25", json!(0.25)),
            ("0.1.0", json!("0.1.0")),
            ("inf", json!("inf")),
            ("1e3", json!("1e3")),
            ("", json!("")),
        ] {
            assert_eq!(value(text), expected, "{text}");
        }
    }
}
