//! Readers on the same host: nothing where `--local` lets none in.

use super::super::exposition::Exposition;
use super::families;
use crate::shared::Shared;

pub(super) fn write(shared: &Shared, to: &mut Exposition) {
    let Some(local) = &shared.local else {
        return;
    };
    let clients = |count| {
        to.one(&families::LOCAL_CLIENTS, count);
    };
    let mut counts = Vec::new();
    local.each(|name, count| counts.push((name, count)));
    let is_level = |(name, _): &(&str, u64)| *name == "clients";
    counts.iter().filter(|it| is_level(it)).map(|(_, count)| *count).for_each(clients);
    to.family(&families::LOCAL_EVENTS);
    for (event, count) in counts.iter().filter(|it| !is_level(it)) {
        to.sample(&[("event", event)], *count);
    }
}
