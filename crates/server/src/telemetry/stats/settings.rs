//! `stats settings`: the settings by memcached's names where they mean the same, then ours.

use micanite_engine::Semantics;

use super::Lines;
use super::security::security;
use crate::output::Output;
use crate::shared::Server;

/// Writes the settings, without the final `END`.
pub fn settings(server: &Server, output: &mut Output<'_>) {
    let settings = &server.settings;
    let mut lines = Lines::new(output);
    lines.stat("maxbytes", server.shared.cache.memory_limit_bytes());
    lines.stat("maxconns", settings.connections_max);
    lines.stat("tcpport", server.tcp_port());
    lines.stat("udpport", server.shared.udp.as_ref().map_or(0, |udp| udp.port()));
    lines.stat("inter", settings.listen.words.join(","));
    lines.stat("verbosity", server.verbosity());
    let evicts = settings.semantics == Semantics::Cache;
    lines.stat("evictions", if evicts { "on" } else { "off" });
    match &settings.unix_socket {
        Some(path) => lines.stat("domain_socket", path.display()),
        None => lines.stat("domain_socket", "NULL"),
    }
    lines.stat("umask", format_args!("{:o}", settings.unix_mode));
    lines.stat("stat_key_prefix", char::from(settings.namespace_delimiter));
    let detail = server.shared.watch.counts_prefixes();
    lines.stat("detail_enabled", on_off(detail));
    lines.stat("maxconns_fast", "yes");
    lines.stat("slab_reassign", "no");
    lines.stat("slab_automove", 0);
    lines.stat("temp_lru", "no");
    lines.stat("tail_repair_time", 0);
    lines.stat("watcher_logbuf_size", settings.watcher_bytes);
    lines.stat("proxy_enabled", "no");
    lines.stat("client_flags_size", size_of::<u32>());
    match &settings.image {
        Some(path) => lines.stat("memory_file", path.display()),
        None => lines.stat("memory_file", "(null)"),
    }
    let switches = &settings.switches;
    lines.stat("cas_enabled", on_off(!switches.is_cas_disabled()));
    lines.stat("flush_enabled", on_off(!switches.no_flush));
    lines.stat("dump_enabled", on_off(!switches.no_dump));
    lines.stat("binding_protocol", switches.binding.name());
    lines.stat("shutdown_command", on_off(settings.shutdown_enabled));
    lines.stat("tcp_backlog", settings.backlog);
    lines.stat("reqs_per_event", settings.turn_requests_max);
    lines.stat("idle_timeout", settings.idle_timeout_ms / 1000);
    lines.stat("num_threads", settings.threads);
    lines.stat("item_size_max", settings.item_bytes_max);
    lines.stat("hash_algorithm", "xxh3");
    lines.stat("semantics", settings.semantics.name());
    lines.stat("eviction", if evicts { settings.eviction.name() } else { "none" });
    lines.stat("access", settings.access.name());
    lines.stat("balance", server.balance.get().name());
    lines.stat("pin", if settings.placement.pinned().is_empty() { "off" } else { "on" });
    lines.stat("numa", settings.numa.name());
    lines.stat("namespace_delimiter", char::from(settings.namespace_delimiter));
    lines.stat("item_size_hint", settings.item_bytes_hint.unwrap_or(0));
    lines.stat("partitions", server.shared.cache.layout().partitions);
    let native = server.shared.native.as_ref();
    let port = native.and_then(|native| native.cores.first());
    lines.stat("native_port", port.map_or(0, |core| core.port));
    lines.stat("native_payload_bytes", native.map_or(0, |native| native.payload_bytes));
    let names = settings.bypass().map(|bypass| &bypass.ports);
    let names = names.into_iter().flatten().map(|port| port.name.to_string());
    let names: Vec<_> = names.collect();
    if !names.is_empty() {
        lines.stat("native_via", names.join(";"));
    }
    lines.stat("io_backend", settings.io.backend());
    lines.stat("io_backend_reason", settings.io.reason());
    lines.stat("value_buffer_bytes", settings.value_buffer_bytes);
    security(server, &mut lines);
}

const fn on_off(on: bool) -> &'static str {
    if on { "yes" } else { "no" }
}
