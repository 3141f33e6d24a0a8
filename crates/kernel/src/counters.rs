//! Counters of the program, by CPU, in shared memory: `struct report` in `bpf/kernel.h`.

/// Words of one CPU's report: counters, then samples.
pub(crate) const REPORT_WORDS: usize = COUNTERS_MAX + SAMPLES;
pub(crate) const COUNTERS_MAX: usize = 32;
pub(crate) const SAMPLES: usize = 256;

macro_rules! counters {
    ($($(#[doc = $help:literal])* $name:ident,)*) => {
        /// Counters of the program since it was attached, in the order of `enum counter`.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[doc = $help])* pub $name: u64,)*
        }

        impl Counters {
            /// Creates counters from the sums of all CPUs.
            pub(crate) fn of(sums: &[u64; COUNTERS_MAX]) -> Self {
                let mut sums = sums.iter().copied();
                Self { $($name: sums.next().unwrap_or(0),)* }
            }

            /// Names and meanings.
            pub const HELP: &[(&str, &str)] = &[$((stringify!($name), concat!($($help),*)),)*];

            /// Calls `visit` with each name and number.
            pub fn each(&self, mut visit: impl FnMut(&'static str, u64)) {
                $(visit(stringify!($name), self.$name);)*
            }

            /// Adds the counters of another interface.
            pub(crate) fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counters! {
    /// Answered datagrams.
    answered,
    /// Payload bytes of answered datagrams.
    bytes_read,
    /// Payload bytes of replies.
    bytes_written,
    /// Hits of memcached's protocols.
    hits,
    /// Misses of memcached's protocols.
    misses,
    /// Hits of the native protocol.
    native_hits,
    /// Misses of the native protocol.
    native_misses,
    /// Reads that were repeated because of a concurrent write.
    retries,
    /// Datagrams passed on: the program is paused.
    passed_paused,
    /// Datagrams passed on: the sender's address is not on the list, or its port is that of a
    /// server.
    passed_not_allowed,
    /// Datagrams passed on: not exactly one request, or too long.
    passed_form,
    /// Datagrams passed on: wrong checksum.
    passed_checksum,
    /// Datagrams passed on: not a get.
    passed_verb,
    /// Datagrams passed on: the key is too long to be hashed here.
    passed_key,
    /// Datagrams passed on: too many keys.
    passed_many_keys,
    /// Datagrams passed on: the reply does not fit one datagram.
    passed_long_reply,
    /// Datagrams passed on: the item has no known CAS value yet.
    passed_cas,
    /// Datagrams passed on: two reads met concurrent writes.
    passed_contended,
    /// Datagrams passed on: a namespace is being invalidated.
    passed_namespace,
    /// Datagrams passed on: the key's chain of buckets is too long.
    passed_chain,
    /// Datagrams passed on: the driver leaves a packet no room to grow.
    passed_no_room,
    /// Datagrams passed on: unsupported protocol, or form of it.
    passed_protocol,
    /// Datagrams passed on: only the cache area has the newest value (write-back).
    passed_dirty,
    /// Datagrams that another CPU took over.
    spread,
}
