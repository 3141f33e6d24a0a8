//! `stats`: the general statistics, by memcached's names where the number exists here.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use micanite_engine::Pages;

use super::Lines;
use crate::output::Output;
use crate::shared::Server;

/// Writes the general statistics, without the final `END`.
pub fn general(server: &Server, now_s: u32, output: &mut Output<'_>) {
    let mut lines = Lines::new(output);
    process(server, now_s, &mut lines);
    connections(server, &mut lines);
    auth(server, &mut lines);
    tls(server, now_s, &mut lines);
    commands(server, &mut lines);
    items(server, &mut lines);
    watchers(server, &mut lines);
    if let Some(kernel_get) = &server.kernel_get {
        lines.stat("kernel_get", kernel_get.text());
    }
}

fn process(server: &Server, now_s: u32, lines: &mut Lines<'_, '_>) {
    lines.stat("pid", std::process::id());
    lines.stat("uptime", now_s.saturating_sub(server.started_s));
    lines.stat("time", now_s);
    lines.stat("version", crate::VERSION);
    lines.stat("pointer_size", usize::BITS);
    if let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) {
        lines.stat("rusage_user", seconds(usage.user_time()));
        lines.stat("rusage_system", seconds(usage.system_time()));
    }
}

fn seconds(time: TimeVal) -> String {
    format!("{}.{:06}", time.tv_sec(), time.tv_usec())
}

fn connections(server: &Server, lines: &mut Lines<'_, '_>) {
    let (now, before) = (server.acceptor.now(), server.baseline().acceptor);
    lines.stat("max_connections", server.settings.connections_max);
    lines.stat("curr_connections", server.connections());
    lines.stat("total_connections", now.accepted - before.accepted);
    lines.stat("rejected_connections", now.rejected - before.rejected);
    lines.stat("accepting_conns", u8::from(now.accepting));
    lines.stat("listen_disabled_num", now.pauses - before.pauses);
    lines.stat("time_in_listen_disabled_us", now.paused_us - before.paused_us);
    lines.stat("threads", server.settings.threads);
}

fn auth(server: &Server, lines: &mut Lines<'_, '_>) {
    let count = server.totals().since(&server.baseline().totals);
    lines.stat("auth_cmds", count.auth_cmds);
    lines.stat("auth_errors", count.auth_errors);
    lines.stat("auth_limited", count.auth_limited);
    lines.stat("auth_timeouts", count.auth_timeouts);
    lines.stat("tls_on_plain_port", count.tls_on_plain_port);
}

fn tls(server: &Server, now_s: u32, lines: &mut Lines<'_, '_>) {
    let Some(tls) = &server.tls else { return };
    let count = server.totals().since(&server.baseline().totals);
    lines.stat("ssl_new_sessions", count.ssl_new_sessions);
    lines.stat("ssl_handshake_errors", count.ssl_handshake_errors);
    lines.stat("ssl_proto_errors", count.ssl_proto_errors);
    let since_s = now_s.saturating_sub(tls.refreshed_s());
    lines.stat("time_since_server_cert_refresh", since_s);
}

fn commands(server: &Server, lines: &mut Lines<'_, '_>) {
    let totals = server.totals();
    let count = totals.since(&server.baseline().totals);
    macro_rules! all {
        ($($name:ident)*) => { $(lines.stat(stringify!($name), count.$name);)* };
    }
    all!(cmd_get cmd_set cmd_flush cmd_flush_namespace cmd_touch get_hits get_misses);
    all!(delete_misses delete_hits incr_misses incr_hits decr_misses decr_hits);
    all!(cas_misses cas_hits cas_badval);
    all!(touch_hits touch_misses store_too_large store_no_memory);
    if server.settings.idle_timeout_ms > 0 {
        all!(idle_kicks);
    }
    all!(bytes_read bytes_written conn_yields value_buffer_waits value_buffer_stalls);
}

fn items(server: &Server, lines: &mut Lines<'_, '_>) {
    let (engine, before) = (server.shared.cache.stats(), server.baseline().engine);
    let layout = server.shared.cache.layout();
    let evicted = |stats: &micanite_engine::Stats| stats.evicted_log + stats.evicted_bucket;
    lines.stat("limit_maxbytes", server.shared.cache.memory_limit_bytes());
    lines.stat("limit_maxbytes_most", server.settings.memory_bytes_max);
    lines.stat("bytes", engine.item_bytes_live);
    lines.stat("curr_items", engine.items_live);
    lines.stat("total_items", engine.items_stored() - before.items_stored());
    lines.stat("evictions", evicted(&engine) - evicted(&before));
    lines.stat("evicted_unfetched", engine.evicted_unfetched - before.evicted_unfetched);
    lines.stat("expired_unfetched", engine.expired_unfetched - before.expired_unfetched);
    lines.stat("reclaimed", engine.expired - before.expired);
    lines.stat("hash_power_level", engine.buckets.max(1).ilog2());
    lines.stat("hash_bytes", engine.index_bytes);
    lines.stat("total_malloced", server.shared.cache.memory_used_bytes());
    lines.stat("evicted_bucket_full", engine.evicted_bucket - before.evicted_bucket);
    lines.stat("items_expired", engine.expired - before.expired);
    lines.stat("items_reinserted", engine.reinserted - before.reinserted);
    lines.stat("read_retries", engine.read_retries - before.read_retries);
    lines.stat("partitions", layout.partitions);
    lines.stat("route_generation", server.shared.cache.generation());
    lines.stat("balance_changes", server.balance.changes());
    lines.stat("buckets", engine.buckets);
    lines.stat("spare_buckets", engine.spare_buckets);
    lines.stat("spare_buckets_used", engine.spare_buckets_used);
    lines.stat("index_bytes", engine.index_bytes);
    lines.stat("expired_bytes", engine.early_bytes);
    lines.stat("expiry_lag_seconds", engine.expiry_lag_s);
    lines.stat("items_promoted", engine.promoted - before.promoted);
    lines.stat("out_of_memory", engine.out_of_memory - before.out_of_memory);
    lines.stat("ghosts_met", engine.ghosts_met - before.ghosts_met);
    lines.stat("pages", pages(server.shared.cache.pages()));
}

fn watchers(server: &Server, lines: &mut Lines<'_, '_>) {
    let numbers = server.shared.watch.numbers();
    lines.stat("log_watchers", numbers.watchers);
    lines.stat("log_worker_written", numbers.written);
    lines.stat("log_watcher_skipped", numbers.skipped);
    lines.stat("log_watcher_sent", numbers.sent);
    let numbers = server.shared.recorder.numbers();
    lines.stat("recording", u8::from(numbers.is_recording));
    lines.stat("recorded_requests", numbers.records);
    lines.stat("recorded_bytes", numbers.bytes);
    lines.stat("recording_dropped", numbers.dropped);
}

/// One word: clients split these lines at spaces.
const fn pages(pages: Pages) -> &'static str {
    match pages {
        Pages::Hugetlb => "hugetlb",
        Pages::Transparent => "transparent",
        Pages::Small => "small",
    }
}
