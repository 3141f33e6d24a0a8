//! Requests by worker, command and result. Each sample is one counter: a difference of counters
//! that others write meanwhile might go back, and what reads it would see a restart.

use super::super::exposition::{Exposition, Type};
use crate::shared::Shared;
use crate::telemetry::stats::{Counter, Counters};

/// Labels, and where the counter is.
type Row = (&'static str, &'static str, fn(&Counters) -> &Counter);

/// `any` where results are not told apart.
const COMMANDS: [Row; 13] = [
    ("get", "hit", |of| &of.get_hits),
    ("get", "miss", |of| &of.get_misses),
    ("set", "any", |of| &of.cmd_set),
    ("touch", "hit", |of| &of.touch_hits),
    ("touch", "miss", |of| &of.touch_misses),
    ("delete", "hit", |of| &of.delete_hits),
    ("delete", "miss", |of| &of.delete_misses),
    ("incr", "hit", |of| &of.incr_hits),
    ("incr", "miss", |of| &of.incr_misses),
    ("decr", "hit", |of| &of.decr_hits),
    ("decr", "miss", |of| &of.decr_misses),
    ("flush_all", "any", |of| &of.cmd_flush),
    ("flush_namespace", "any", |of| &of.cmd_flush_namespace),
];

/// Results of stores, by family.
const STORES: [Row; 5] = [
    ("micanite_cas_total", "stored", |of| &of.cas_hits),
    ("micanite_cas_total", "changed", |of| &of.cas_badval),
    ("micanite_cas_total", "missing", |of| &of.cas_misses),
    ("micanite_stores_refused_total", "too_large", |of| &of.store_too_large),
    ("micanite_stores_refused_total", "no_memory", |of| &of.store_no_memory),
];

pub(super) fn write(shared: &Shared, to: &mut Exposition) {
    to.family(
        "micanite_commands_total",
        Type::Counter,
        "Requests by command and result; each key of a multi-get is one, gat counts as touch.",
    );
    for (worker, of) in shared.counters.iter().enumerate() {
        for (command, result, counter) in COMMANDS {
            to.sample(&[("worker", &worker), ("command", &command), ("result", &result)], counter(of).get());
        }
    }
    stores(
        shared,
        to,
        ("micanite_cas_total", "result"),
        "Stores under a CAS value, which commands_total counts as set, by result.",
    );
    stores(
        shared,
        to,
        ("micanite_stores_refused_total", "reason"),
        "Stores that commands_total counts as set and that were refused, by reason.",
    );
}

fn stores(shared: &Shared, to: &mut Exposition, of: (&'static str, &str), help: &str) {
    let (family, label) = of;
    to.family(family, Type::Counter, help);
    for (worker, counters) in shared.counters.iter().enumerate() {
        for (_, value, counter) in STORES.iter().filter(|row| row.0 == family) {
            to.sample(&[("worker", &worker), (label, value)], counter(counters).get());
        }
    }
}
