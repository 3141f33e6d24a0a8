//! Clients over libfabric: nothing where there is no fabric.

use super::super::exposition::{Exposition, Type};
use crate::shared::Server;
use crate::telemetry::stats;

pub(super) fn write(server: &Server, to: &mut Exposition) {
    let (Some(fabric), Some(settings)) = (&server.shared.fabric, &server.settings.fabric) else {
        return;
    };
    let sum = |name: &str| fabric.totals().into_iter().find(|(of, _)| *of == name).map_or(0, |(_, sum)| sum);
    to.one("micanite_fabric_clients", Type::Gauge, "Clients over libfabric.", sum("clients"));
    to.one(
        "micanite_fabric_buffers_frozen",
        Type::Gauge,
        "Registered buffers whose clients have gone.",
        sum("buffers_frozen"),
    );
    to.one(
        "micanite_fabric_clients_max",
        Type::Gauge,
        "Clients at the same time (--fabric-clients).",
        settings.clients_max as u64,
    );
    to.family(
        "micanite_fabric_events_total",
        Type::Counter,
        "What the fabric has seen, by the names of `stats fabric`.",
    );
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
    to.one(
        "micanite_fabric_cache_bytes",
        Type::Gauge,
        "Memory that clients read (--fabric-cache).",
        cache.geometry.bytes() as u64,
    );
    to.family(
        "micanite_fabric_chunk_events_total",
        Type::Counter,
        "What became of copies of items in that memory, by the names of `stats fabric`.",
    );
    stats::chunks(server, |event, grows, count| {
        if grows {
            to.sample(&[("event", &event)], count);
        }
    });
    to.family("micanite_fabric_chunks", Type::Gauge, "Use of that memory, by the names of `stats fabric`.");
    stats::chunks(server, |state, grows, count| {
        if !grows {
            to.sample(&[("use", &state)], count);
        }
    });
}
