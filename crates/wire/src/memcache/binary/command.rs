//! Commands, borrowed from the request they stand in.

use crate::memcache::text::StoreVerb;

/// A command. Keys are 1 to [`crate::memcache::text::KEY_BYTES_MAX`] bytes, any bytes. `quiet`
/// ones get a reply only if it is an error, or a value that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// get, getq, getk, getkq; gat and its variants.
    Get {
        /// The key.
        key: &'a [u8],
        /// The new expiry of a gat, as on the wire.
        exptime: Option<u32>,
        /// The reply repeats the key.
        with_key: bool,
        /// A miss gets no reply.
        quiet: bool,
    },
    /// touch.
    Touch {
        /// The key.
        key: &'a [u8],
        /// The new expiry, as on the wire.
        exptime: u32,
    },
    /// set, add, replace, append, prepend. The value follows.
    Store(Store<'a>),
    /// delete.
    Delete {
        /// The key.
        key: &'a [u8],
        /// What the CAS value has to be; 0 = anything.
        cas: u64,
        /// See the type.
        quiet: bool,
    },
    /// increment, decrement.
    Arithmetic(Arithmetic<'a>),
    /// flush.
    Flush {
        /// In how many seconds, or at which Unix time; 0 = now.
        delay_s: u32,
        /// See the type.
        quiet: bool,
    },
    /// noop.
    Noop,
    /// version.
    Version,
    /// quit.
    Quit {
        /// See the type.
        quiet: bool,
    },
    /// stat.
    Stat {
        /// Which statistics; empty for the general ones.
        arguments: &'a [u8],
    },
}

/// A storage command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store<'a> {
    /// Which; a set, add or replace with a CAS value is a [`StoreVerb::Cas`].
    pub verb: StoreVerb,
    /// What the CAS value has to be for an append or prepend; 0 = anything.
    pub cas: u64,
    /// The key.
    pub key: &'a [u8],
    /// Opaque.
    pub flags: u32,
    /// The expiry, as on the wire.
    pub exptime: u32,
    /// Length of the value.
    pub value_bytes: usize,
    /// See [`Command`].
    pub quiet: bool,
}

/// An increment or decrement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arithmetic<'a> {
    /// The key.
    pub key: &'a [u8],
    /// By how much.
    pub delta: u64,
    /// Down, not up.
    pub decrement: bool,
    /// The number that is stored if there is none, and its expiry.
    pub initial: Option<(u64, u32)>,
    /// What the CAS value has to be; 0 = anything.
    pub cas: u64,
    /// See [`Command`].
    pub quiet: bool,
}
