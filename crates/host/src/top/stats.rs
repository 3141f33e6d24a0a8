//! Samples from memcached's `stats`.

use std::time::Instant;

use super::sample::{Requests, Sample, add};
use super::text::harmless;

/// Reads the lines `STAT name value`.
pub(super) fn sample(at: Instant, text: &str) -> Sample {
    let mut sample = Sample::new(at);
    for line in text.lines() {
        let mut words = line.splitn(3, ' ');
        if let (Some("STAT"), Some(name), Some(value)) = (words.next(), words.next(), words.next()) {
            take(&mut sample, name, value);
        }
    }
    // A server of another kind counts other commands, or none of these.
    sample.commands.retain(|_, requests| requests.all > 0.0);
    sample
}

fn take(sample: &mut Sample, name: &str, text: &str) {
    if name == "version" {
        sample.version = Some(harmless(text));
        return;
    }
    let Ok(value) = text.trim().parse::<f64>() else {
        return;
    };
    match name {
        "uptime" => sample.uptime_s = Some(value),
        "curr_items" => sample.items = Some(value),
        "curr_connections" => sample.connections = Some(value),
        "max_connections" => sample.connections_max = Some(value),
        "total_connections" => sample.accepted = Some(value),
        "evictions" => sample.evictions = Some(value),
        "reclaimed" => sample.expired = Some(value),
        "store_too_large" | "store_no_memory" => add(&mut sample.refused, value),
        "bytes_read" => sample.received_bytes = Some(value),
        "bytes_written" => sample.sent_bytes = Some(value),
        "rusage_user" | "rusage_system" => add(&mut sample.cpu_s, value),
        "limit_maxbytes" => sample.memory_bytes_max = Some(value),
        "bytes" => sample.memory.push(("items".to_owned(), value)),
        "cmd_set" | "cmd_flush" | "cmd_meta" => of(sample, &name["cmd_".len()..]).all = value,
        _ => hits_or_misses(sample, name, value),
    }
}

fn of<'a>(sample: &'a mut Sample, command: &str) -> &'a mut Requests {
    sample.commands.entry(command.to_owned()).or_default()
}

fn hits_or_misses(sample: &mut Sample, name: &str, value: f64) {
    let Some((command, result)) = name.rsplit_once('_') else {
        return;
    };
    if !["get", "delete", "incr", "decr", "touch"].contains(&command) {
        return;
    }
    let requests = of(sample, command);
    match result {
        "hits" => requests.hits = value,
        "misses" => requests.misses = value,
        _ => return,
    }
    requests.all = requests.hits + requests.misses;
}
