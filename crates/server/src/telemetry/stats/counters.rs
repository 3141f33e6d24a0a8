//! Counters that one worker writes and anyone reads.

use std::sync::atomic::{AtomicU64, Ordering};

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

macro_rules! counters {
    ($($(#[doc = $what:literal])* $name:ident,)*) => {
        /// The counters of one worker, on cache lines that no other worker writes.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct Counters {
            $($(#[doc = $what])* pub $name: Counter,)*
        }

        /// Sums of counters over workers.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Totals {
            $($(#[doc = $what])* pub $name: u64,)*
        }

        impl Totals {
            /// Adds the counters of a worker.
            pub fn add(&mut self, counters: &Counters) {
                $(self.$name += counters.$name.get();)*
            }

            /// Returns the counts since `baseline`.
            #[must_use]
            pub fn since(&self, baseline: &Self) -> Self {
                Self { $($name: self.$name.wrapping_sub(baseline.$name),)* }
            }
        }
    };
}

counters! {
    /// Keys asked for by get, gets, gat and gats.
    cmd_get,
    /// Stores of any kind, failed ones included.
    cmd_set,
    /// flush_all.
    cmd_flush,
    /// flush_namespace that was done.
    cmd_flush_namespace,
    /// touch, gat, gats.
    cmd_touch,
    /// get and gets that found their key.
    get_hits,
    /// get and gets that did not.
    get_misses,
    /// delete of a key that was there.
    delete_hits,
    /// delete of a key that was not.
    delete_misses,
    /// incr of a key that was there.
    incr_hits,
    /// incr of a key that was not.
    incr_misses,
    /// decr of a key that was there.
    decr_hits,
    /// decr of a key that was not.
    decr_misses,
    /// cas that stored.
    cas_hits,
    /// cas of an item that had changed.
    cas_badval,
    /// cas of a key that was not there.
    cas_misses,
    /// touch, gat and gats that found their key.
    touch_hits,
    /// touch, gat and gats that did not.
    touch_misses,
    /// Values that were larger than the largest.
    store_too_large,
    /// Values that found no space.
    store_no_memory,
    /// Bytes read from connections.
    bytes_read,
    /// Bytes sent to connections.
    bytes_written,
    /// Attempts of clients to say who they are.
    auth_cmds,
    /// Those that were wrong, or not believed.
    auth_errors,
    /// Those that were not believed because others from the same address were wrong.
    auth_limited,
    /// Clients that did not say in time who they are.
    auth_timeouts,
    /// TLS handshakes that began a new session.
    ssl_new_sessions,
    /// TLS handshakes that failed or were too slow.
    ssl_handshake_errors,
    /// TLS connections that broke the protocol after the handshake.
    ssl_proto_errors,
    /// Connections that spoke TLS where none is spoken.
    tls_on_plain_port,
    /// Connections that had more requests than one turn allows.
    conn_yields,
    /// Connections that had to wait for a value buffer.
    value_buffer_waits,
    /// Connections that held a value buffer too long.
    value_buffer_stalls,
    /// Connections closed because they were idle for too long (`-o idle_timeout`).
    idle_kicks,
    /// Connections that the worker has taken in.
    connections_opened,
    /// Connections that ended.
    connections_closed,
    /// Time of the worker's housekeeping: sweeps, cleaning, counts of readers.
    housekeeping_ns,
    /// CPU time of the worker, as of its last housekeeping.
    cpu_ns,
    /// When the worker did its housekeeping last, by the server's clock.
    maintained_ms,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_sums_and_differences() {
        let (one, two) = (Counters::default(), Counters::default());
        one.get_hits.add(3);
        two.get_hits.add(4);
        let mut before = Totals::default();
        before.add(&one);
        before.add(&two);
        assert_eq!(before.get_hits, 7);
        one.get_hits.add(5);
        let mut after = Totals::default();
        after.add(&one);
        after.add(&two);
        assert_eq!(after.since(&before).get_hits, 5);
        assert_eq!(after.since(&before).get_misses, 0);
    }
}
