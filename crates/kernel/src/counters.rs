//! What the program has done, by CPU, in memory that it shares with us: `struct report` in
//! `bpf/kernel.h`.

/// Words of one CPU's report, and how many of them are counters.
pub(crate) const REPORT_WORDS: usize = COUNTERS_MAX + SAMPLES;
pub(crate) const COUNTERS_MAX: usize = 32;
pub(crate) const SAMPLES: usize = 256;

macro_rules! counters {
    ($($(#[doc = $what:literal])* $name:ident,)*) => {
        /// What the program has done since it was attached. The order is that of `enum counter`.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[doc = $what])* pub $name: u64,)*
        }

        impl Counters {
            /// By the sums of all CPUs.
            pub(crate) fn of(sums: &[u64; COUNTERS_MAX]) -> Self {
                let mut sums = sums.iter().copied();
                Self { $($name: sums.next().unwrap_or(0),)* }
            }

            /// Calls with each name and number.
            pub fn each(&self, mut visit: impl FnMut(&'static str, u64)) {
                $(visit(stringify!($name), self.$name);)*
            }

            /// Adds those of another interface.
            pub(crate) fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counters! {
    /// Datagrams answered.
    answered,
    /// Payload bytes of those.
    bytes_read,
    /// Payload bytes of the replies.
    bytes_written,
    /// GETs of memcached's protocol that found their item.
    hits,
    /// GETs of memcached's protocol that found none.
    misses,
    /// GETs of the native protocol that found their item.
    native_hits,
    /// GETs of the native protocol that found none.
    native_misses,
    /// Reads that began again, for a writer came between.
    retries,
    /// Datagrams passed on: nothing is answered just now.
    passed_paused,
    /// Datagrams passed on: the sender is not on the list, or has a server's port.
    passed_not_allowed,
    /// Datagrams passed on: not one datagram of one request, or too long.
    passed_form,
    /// Datagrams passed on: the checksum is wrong.
    passed_checksum,
    /// Datagrams passed on: not a get.
    passed_verb,
    /// Datagrams passed on: the key is too long to be hashed here.
    passed_key,
    /// Datagrams passed on: more keys than are answered here.
    passed_many_keys,
    /// Datagrams passed on: the reply does not fit one datagram.
    passed_long_reply,
    /// Datagrams passed on: the item has no CAS value yet that is known.
    passed_cas,
    /// Datagrams passed on: writers came between, twice.
    passed_contended,
    /// Datagrams passed on: a namespace is being invalidated.
    passed_namespace,
    /// Datagrams passed on: the key's chain of buckets is long.
    passed_chain,
    /// Datagrams passed on: the driver gives a packet no room to grow.
    passed_no_room,
    /// Datagrams passed on: of another protocol, or form of it.
    passed_protocol,
    /// Datagrams that another CPU took over.
    spread,
}
