//! Counters that one worker writes and anyone reads.

use std::sync::atomic::{AtomicU64, Ordering};

use micanite_control::metrics;

use super::{Family, Kind, Statistic, Value};
use crate::shared::Server;

/// A number that one thread adds to: a load and a store, no locked instruction.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds. Only the owner may.
    #[inline]
    pub fn add(&self, count: u64) {
        let sum = self.0.load(Ordering::Relaxed).wrapping_add(count);
        self.0.store(sum, Ordering::Relaxed);
    }

    /// Becomes another number. Only the owner may.
    #[inline]
    pub fn set(&self, number: u64) {
        self.0.store(number, Ordering::Relaxed);
    }

    /// The number now.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

const COMMANDS: Family = Family {
    name: metrics::COMMANDS,
    kind: Kind::Counter,
    labels: &["worker", "command", "result"],
    help: "Requests by command and result, which is any where results are not told apart; each key of a \
           multi-get is one, gat counts as touch.",
};

const CAS: Family = Family {
    name: "micanite_cas_total",
    kind: Kind::Counter,
    labels: &["worker", "result"],
    help: "Stores under a CAS value, which micanite_commands_total counts as set, by result.",
};

const REFUSED: Family = Family {
    name: metrics::STORES_REFUSED,
    kind: Kind::Counter,
    labels: &["worker", "reason"],
    help: "Stores that micanite_commands_total counts as set and that were refused: the value was too large \
           (-I), or there was no memory.",
};

macro_rules! counters {
    ($($(#[doc = $help:literal])* $name:ident $(.$outlet:ident($($argument:expr),*))*;)*) => {
        /// The counters of one worker, on cache lines that no other worker writes.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct Counters {
            $($(#[doc = $help])* pub $name: Counter,)*
            /// Time at which the worker did its housekeeping last, by the server's clock.
            pub maintained_ms: Counter,
        }

        /// Sums of counters over workers.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Totals {
            $($(#[doc = $help])* pub $name: u64,)*
        }

        impl Totals {
            /// Adds the counters of a worker.
            pub fn add(&mut self, counters: &Counters) {
                $(self.$name += counters.$name.get();)*
            }
        }

        pub(super) const WORKERS: &[Statistic] = &[$(
            Statistic::counter(
                concat!($($help),*),
                Value::Worker(|of| &of.$name, |of| of.$name),
            ).stat(&[stringify!($name)])$(.$outlet($($argument),*))*,
        )*];
    };
}

// The name of a counter is that in `stats`, where `unlisted` does not keep it out.
counters! {
    /// Keys asked for by gets of any protocol, gat and gats among them.
    cmd_get;
    /// Stores of any kind, failed ones included.
    cmd_set.slab("cmd_set").part(&COMMANDS, &[("command", "set"), ("result", "any")]);
    /// Requests of flush_all.
    cmd_flush.part(&COMMANDS, &[("command", "flush_all"), ("result", "any")]);
    /// Requests of flush_namespace that were done.
    cmd_flush_namespace.part(&COMMANDS, &[("command", "flush_namespace"), ("result", "any")]);
    /// Keys asked for by touch, gat and gats.
    cmd_touch;
    /// Keys that gets without a touch have found.
    get_hits.slab("get_hits").part(&COMMANDS, &[("command", "get"), ("result", "hit")]);
    /// Keys that gets without a touch have not found.
    get_misses.part(&COMMANDS, &[("command", "get"), ("result", "miss")]);
    /// Keys that delete has found.
    delete_hits.slab("delete_hits").part(&COMMANDS, &[("command", "delete"), ("result", "hit")]);
    /// Keys that delete has not found.
    delete_misses.part(&COMMANDS, &[("command", "delete"), ("result", "miss")]);
    /// Keys that incr has found.
    incr_hits.slab("incr_hits").part(&COMMANDS, &[("command", "incr"), ("result", "hit")]);
    /// Keys that incr has not found.
    incr_misses.part(&COMMANDS, &[("command", "incr"), ("result", "miss")]);
    /// Keys that decr has found.
    decr_hits.slab("decr_hits").part(&COMMANDS, &[("command", "decr"), ("result", "hit")]);
    /// Keys that decr has not found.
    decr_misses.part(&COMMANDS, &[("command", "decr"), ("result", "miss")]);
    /// Stores under a CAS value that stored.
    cas_hits.slab("cas_hits").part(&CAS, &[("result", "stored")]);
    /// Stores under a CAS value that found another one.
    cas_badval.slab("cas_badval").part(&CAS, &[("result", "changed")]);
    /// Stores under a CAS value that found no item.
    cas_misses.part(&CAS, &[("result", "missing")]);
    /// Keys that touch, gat and gats have found.
    touch_hits.slab("touch_hits").part(&COMMANDS, &[("command", "touch"), ("result", "hit")]);
    /// Keys that touch, gat and gats have not found.
    touch_misses.part(&COMMANDS, &[("command", "touch"), ("result", "miss")]);
    /// Values above the limit of -I.
    store_too_large.part(&REFUSED, &[("reason", "too_large")]);
    /// Stores that found no space.
    store_no_memory.part(&REFUSED, &[("reason", "no_memory")]);
    /// Bytes of requests over connections and datagrams.
    bytes_read.metric(metrics::RECEIVED_BYTES);
    /// Bytes of replies over connections and datagrams.
    bytes_written.metric(metrics::SENT_BYTES);
    /// Attempts to authenticate, failed ones included.
    auth_cmds.metric("micanite_authentications_total");
    /// Attempts with a wrong user or password, and those refused by the limit.
    auth_errors.metric("micanite_authentication_errors_total");
    /// Attempts refused because too many wrong ones came from their address.
    auth_limited.metric("micanite_authentications_limited_total");
    /// Connections closed because they did not authenticate in time.
    auth_timeouts.metric("micanite_authentication_timeouts_total");
    /// TLS handshakes that began a new session.
    ssl_new_sessions.metric("micanite_tls_sessions_total").when(has_tls);
    /// TLS handshakes that failed or were too slow.
    ssl_handshake_errors.metric("micanite_tls_handshake_errors_total").when(has_tls);
    /// TLS connections that broke the protocol after the handshake.
    ssl_proto_errors.metric("micanite_tls_protocol_errors_total").when(has_tls);
    /// Connections closed because they spoke TLS where none is spoken.
    tls_on_plain_port.metric("micanite_tls_on_plain_port_total");
    /// Turns that ended with requests left, at -R, so that others have their turn.
    conn_yields.metric("micanite_connection_yields_total");
    /// Connections that waited for a buffer for a long value.
    value_buffer_waits.metric("micanite_value_buffer_waits_total");
    /// Connections closed because they kept such a buffer for too long.
    value_buffer_stalls.metric("micanite_value_buffer_stalls_total");
    /// Connections closed because they were idle for too long (-o idle_timeout).
    idle_kicks.metric("micanite_idle_connections_closed_total").when(has_idle_timeout);
    /// Connections that a worker has taken in.
    connections_opened.metric("micanite_worker_connections_opened_total").unlisted();
    /// Connections of a worker that have ended.
    connections_closed.metric("micanite_worker_connections_closed_total").unlisted();
    /// Time of a worker's housekeeping: sweeps for expired items and other upkeep.
    housekeeping_ns.seconds("micanite_housekeeping_seconds_total").unlisted();
    /// CPU time of a worker, the kernel's work for it included, as of its last housekeeping.
    cpu_ns.seconds(metrics::WORKER_CPU).unlisted();
}

fn has_tls(server: &Server) -> bool {
    server.tls.is_some()
}

fn has_idle_timeout(server: &Server) -> bool {
    server.settings.idle_timeout_ms > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_sums() {
        let (one, two) = (Counters::default(), Counters::default());
        one.get_hits.add(3);
        two.get_hits.add(4);
        let mut sum = Totals::default();
        [&one, &two].into_iter().for_each(|counters| sum.add(counters));
        assert_eq!((sum.get_hits, sum.get_misses), (7, 0));
    }
}
