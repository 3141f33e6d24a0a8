//! The process, its connections, routes, watchers and recordings.

use micanite_control::{Balance, metrics};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use super::{Statistic, Value, View};
use crate::shared::AcceptorNumbers;

const fn text(help: &'static str, value: fn(&View<'_>) -> String) -> Statistic {
    Statistic::gauge(help, Value::Text(value))
}

const fn gauge(help: &'static str, value: fn(&View<'_>) -> u64) -> Statistic {
    Statistic::gauge(help, Value::Server(value))
}

const fn counter(help: &'static str, value: fn(&View<'_>) -> u64) -> Statistic {
    Statistic::counter(help, Value::Server(value))
}

const fn accepted(help: &'static str, value: fn(&AcceptorNumbers) -> u64) -> Statistic {
    Statistic::counter(help, Value::Acceptor(value))
}

pub(super) const PROCESS: &[Statistic] = &[
    gauge("Number of the process.", |_| std::process::id().into()).stat(&["pid"]),
    gauge("Seconds since the server has started.", |view| {
        view.now_s.saturating_sub(view.server.started_s).into()
    })
    .stat(&["uptime"])
    .metric(metrics::UPTIME),
    gauge("Unix time.", |view| view.now_s.into()).stat(&["time"]),
    gauge("Unix time at which the server has started.", |view| view.server.started_s.into())
        .metric("micanite_start_time_seconds"),
    text("Version of memcached whose replies these are, and the server's own behind it.", |_| {
        crate::VERSION.to_owned()
    })
    .stat(&["version"]),
    gauge("Bits of a pointer.", |_| usize::BITS.into()).stat(&["pointer_size"]),
    text("CPU time in user mode, in seconds.", |_| seconds(|usage| usage.user_time())).stat(&["rusage_user"]),
    text("CPU time in the kernel, in seconds.", |_| seconds(|usage| usage.system_time()))
        .stat(&["rusage_system"]),
    gauge("Connections allowed at the same time (-c).", |view| view.server.settings.connections_max as u64)
        .stat(&["max_connections"])
        .metric(metrics::CONNECTIONS_MAX),
    gauge("Connections that are open.", |view| view.connections())
        .stat(&["curr_connections"])
        .metric(metrics::CONNECTIONS),
    accepted("Connections handed to workers.", |of| of.accepted)
        .stat(&["total_connections"])
        .metric(metrics::CONNECTIONS_ACCEPTED),
    accepted("Connections refused because of -c.", |of| of.rejected)
        .stat(&["rejected_connections"])
        .metric("micanite_connections_rejected_total"),
    Statistic::gauge(
        "1 while connections are accepted, 0 while there are no descriptors.",
        Value::Acceptor(|of| of.accepting.into()),
    )
    .stat(&["accepting_conns"]),
    accepted("Pauses of accepting, because descriptors had run out.", |of| of.pauses)
        .stat(&["listen_disabled_num"]),
    accepted("Length of these pauses in microseconds.", |of| of.paused_us)
        .stat(&["time_in_listen_disabled_us"]),
    gauge("Worker threads.", |view| view.server.settings.threads as u64)
        .stat(&["threads"])
        .metric("micanite_workers"),
    gauge("Seconds since the certificates were read.", |view| {
        let refreshed_s = view.server.tls.as_ref().map_or(view.now_s, |tls| tls.refreshed_s());
        view.now_s.saturating_sub(refreshed_s).into()
    })
    .stat(&["time_since_server_cert_refresh"])
    .when(|server| server.tls.is_some()),
    gauge("Partitions.", |view| view.server.shared.cache.layout().partitions as u64)
        .stat(&["partitions"])
        .metric("micanite_partitions"),
    gauge("Number that grows with each change of a route.", |view| view.server.shared.cache.generation())
        .stat(&["route_generation"])
        .metric("micanite_route_generation"),
    gauge("1 if routes follow the load (--balance auto).", |view| {
        (view.server.balance.get() == Balance::Auto).into()
    })
    .metric("micanite_balance_auto"),
    counter("Routes changed because of the load.", |view| view.server.balance.changes())
        .stat(&["balance_changes"])
        .metric("micanite_balance_changes_total"),
    gauge("Connections that watch.", |view| view.watch().watchers).stat(&["log_watchers"]),
    counter("Lines that workers have written for watchers.", |view| view.watch().written)
        .stat(&["log_worker_written"]),
    counter("Lines that a watcher has missed.", |view| view.watch().skipped).stat(&["log_watcher_skipped"]),
    counter("Lines sent to watchers.", |view| view.watch().sent).stat(&["log_watcher_sent"]),
    gauge("1 while requests are recorded (ctl record).", |view| view.recorder().is_recording.into())
        .stat(&["recording"])
        .metric("micanite_recording"),
    counter("Requests that were recorded; begins at 0 with each recording.", |view| view.recorder().records)
        .stat(&["recorded_requests"])
        .metric("micanite_recorded_requests_total"),
    gauge("Length of the recording's file, or the last one's.", |view| view.recorder().bytes)
        .stat(&["recorded_bytes"])
        .metric("micanite_recorded_bytes"),
    counter(
        "Requests of recorded keys that are missing, because they came too fast; begins at 0 with each \
             recording.",
        |view| view.recorder().dropped,
    )
    .stat(&["recording_dropped"])
    .metric("micanite_recording_dropped_total"),
    text("State of the program of --kernel-get.", |view| {
        view.server.kernel_get.as_ref().map_or_else(String::new, |state| state.text().to_string())
    })
    .stat(&["kernel_get"])
    .when(|server| server.kernel_get.is_some()),
];

/// Returns a CPU time of the process as memcached writes it; 0 where the kernel does not tell.
fn seconds(of: fn(&nix::sys::resource::Usage) -> TimeVal) -> String {
    let time = getrusage(UsageWho::RUSAGE_SELF).map_or(TimeVal::new(0, 0), |usage| of(&usage));
    format!("{}.{:06}", time.tv_sec(), time.tv_usec())
}
