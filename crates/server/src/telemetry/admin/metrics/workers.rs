//! Counters of each worker, commands aside.

use super::super::exposition::{Exposition, Type};
use crate::shared::Server;
use crate::telemetry::stats::{Counter, Counters};

/// A counter of each worker: name, help, where it is.
type OfWorker = (&'static str, &'static str, fn(&Counters) -> &Counter);

const COUNTS: [OfWorker; 16] = [
    ("micanite_received_bytes_total", "Bytes read from connections.", |of| &of.bytes_read),
    ("micanite_sent_bytes_total", "Bytes sent to connections.", |of| &of.bytes_written),
    ("micanite_worker_connections_opened_total", "Connections that a worker has taken in.", |of| {
        &of.connections_opened
    }),
    ("micanite_worker_connections_closed_total", "Connections of a worker that have ended.", |of| {
        &of.connections_closed
    }),
    (
        "micanite_idle_connections_closed_total",
        "Connections closed because they were idle for too long.",
        |of| &of.idle_kicks,
    ),
    ("micanite_tls_sessions_total", "TLS handshakes that began a new session.", |of| &of.ssl_new_sessions),
    ("micanite_tls_handshake_errors_total", "TLS handshakes that failed or were too slow.", |of| {
        &of.ssl_handshake_errors
    }),
    (
        "micanite_tls_protocol_errors_total",
        "TLS connections that broke the protocol after the handshake.",
        |of| &of.ssl_proto_errors,
    ),
    ("micanite_tls_on_plain_port_total", "Connections closed because they spoke TLS where none is.", |of| {
        &of.tls_on_plain_port
    }),
    (
        "micanite_authentications_total",
        "Attempts of clients to say who they are, failed ones included.",
        |of| &of.auth_cmds,
    ),
    (
        "micanite_authentication_errors_total",
        "Attempts with a wrong user or password, and those refused by the limit.",
        |of| &of.auth_errors,
    ),
    (
        "micanite_authentications_limited_total",
        "Attempts refused because there were too many wrong ones from their address.",
        |of| &of.auth_limited,
    ),
    (
        "micanite_authentication_timeouts_total",
        "Connections closed because their clients did not say in time who they are.",
        |of| &of.auth_timeouts,
    ),
    (
        "micanite_connection_yields_total",
        "Turns that ended with requests left, so that others have their turn.",
        |of| &of.conn_yields,
    ),
    (
        "micanite_value_buffer_waits_total",
        "Connections that had to wait for a buffer for a long value.",
        |of| &of.value_buffer_waits,
    ),
    (
        "micanite_value_buffer_stalls_total",
        "Connections closed because they held such a buffer too long.",
        |of| &of.value_buffer_stalls,
    ),
];

const TIMES: [OfWorker; 2] = [
    ("micanite_worker_cpu_seconds_total", "CPU time of a worker.", |of| &of.cpu_ns),
    (
        "micanite_housekeeping_seconds_total",
        "Time of a worker's housekeeping: sweeps, cleaning, counts of readers.",
        |of| &of.housekeeping_ns,
    ),
];

pub(super) fn write(server: &Server, to: &mut Exposition) {
    to.one("micanite_workers", Type::Gauge, "Worker threads.", server.settings.threads);
    for (name, help, counter) in COUNTS {
        to.family(name, Type::Counter, help);
        for (worker, of) in server.shared.counters.iter().enumerate() {
            to.sample(&[("worker", &worker)], counter(of).get());
        }
    }
    for (name, help, counter) in TIMES {
        to.family(name, Type::Counter, help);
        for (worker, of) in server.shared.counters.iter().enumerate() {
            to.sample(&[("worker", &worker)], counter(of).get() as f64 / 1e9);
        }
    }
    to.family("micanite_worker_connections", Type::Gauge, "Open connections of a worker.");
    for (worker, of) in server.shared.counters.iter().enumerate() {
        let closed = of.connections_closed.get();
        let open = of.connections_opened.get().saturating_sub(closed);
        to.sample(&[("worker", &worker)], open);
    }
}
