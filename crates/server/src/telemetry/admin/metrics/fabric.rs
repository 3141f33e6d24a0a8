//! Clients over libfabric: nothing where there is no fabric.

use super::super::exposition::Exposition;
use super::families;
use crate::shared::Server;
use crate::telemetry::stats::{CHUNK_EVENTS, CHUNK_USE};

pub(super) fn write(server: &Server, to: &mut Exposition) {
    let (Some(fabric), Some(settings)) = (&server.shared.fabric, &server.settings.fabric) else {
        return;
    };
    let sum = |name: &str| fabric.totals().into_iter().find(|(of, _)| *of == name).map_or(0, |(_, sum)| sum);
    to.one(&families::FABRIC_CLIENTS, sum("clients"));
    to.one(&families::FABRIC_FROZEN, sum("buffers_frozen"));
    to.one(&families::FABRIC_CLIENTS_MAX, settings.clients_max as u64);
    to.family(&families::FABRIC_EVENTS);
    for (worker, of) in fabric.counters.iter().enumerate() {
        of.each(|event, count| {
            if !matches!(event, "clients" | "buffers_frozen") {
                to.sample(&[("worker", &worker), ("event", &event)], count);
            }
        });
    }
    for (worker, of) in fabric.native.counters.iter().enumerate() {
        to.sample(&[("worker", &worker), ("event", &"requests")], of.requests.get());
    }
    let Some(cache) = &settings.cache else {
        return;
    };
    to.one(&families::FABRIC_CACHE, cache.geometry.bytes() as u64);
    let stats = server.shared.cache.chunk_stats();
    to.family(&families::FABRIC_CHUNK_EVENTS);
    for (event, _, count) in CHUNK_EVENTS {
        to.sample(&[("event", &event)], count(&stats));
    }
    to.family(&families::FABRIC_CHUNKS);
    for (state, _, count) in CHUNK_USE {
        to.sample(&[("use", &state)], count(&stats));
    }
}
