//! Readers on the same host: nothing where `--local` lets none in.

use super::super::exposition::{Exposition, Type};
use crate::shared::Shared;

pub(super) fn write(shared: &Shared, to: &mut Exposition) {
    let Some(local) = &shared.local else {
        return;
    };
    let clients = |count| {
        let help = "Processes on this host that read for themselves.";
        to.one("micanite_local_clients", Type::Gauge, help, count);
    };
    let mut counts = Vec::new();
    local.each(|name, count| counts.push((name, count)));
    let is_level = |(name, _): &(&str, u64)| *name == "clients";
    counts.iter().filter(|it| is_level(it)).map(|(_, count)| *count).for_each(clients);
    to.family(
        "micanite_local_events_total",
        Type::Counter,
        "What those processes have done, as they say, by the names of `stats local`.",
    );
    for (event, count) in counts.iter().filter(|it| !is_level(it)) {
        to.sample(&[("event", event)], *count);
    }
}
