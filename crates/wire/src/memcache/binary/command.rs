//! Commands, borrowed from their request.

use crate::memcache::text::StoreVerb;

/// A command. Keys are 1 to [`crate::memcache::text::KEY_BYTES_MAX`] arbitrary bytes. A `quiet`
/// command gets a reply only for an error or a value that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// get, getq, getk, getkq; gat and its variants.
    Get {
        key: &'a [u8],
        /// New expiry of a gat, in wire form.
        exptime: Option<u32>,
        with_key: bool,
        quiet: bool,
    },
    /// touch.
    Touch {
        key: &'a [u8],
        /// New expiry, in wire form.
        exptime: u32,
    },
    /// set, add, replace, append, prepend. The value follows.
    Store(Store<'a>),
    /// delete.
    Delete {
        key: &'a [u8],
        /// Required CAS value; 0 = any.
        cas: u64,
        quiet: bool,
    },
    /// increment, decrement.
    Arithmetic(Arithmetic<'a>),
    /// flush.
    Flush {
        /// Delay in seconds, or a Unix time; 0 = now.
        delay_s: u32,
        quiet: bool,
    },
    /// noop.
    Noop,
    /// version.
    Version,
    /// quit.
    Quit { quiet: bool },
    /// stat.
    Stat {
        /// Kind of statistics; empty for the general ones.
        arguments: &'a [u8],
    },
}

/// A storage command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store<'a> {
    /// A set, add or replace with a CAS value becomes [`StoreVerb::Cas`].
    pub verb: StoreVerb,
    /// Required CAS value of an append or prepend; 0 = any.
    pub cas: u64,
    pub key: &'a [u8],
    /// Opaque to the server.
    pub flags: u32,
    /// Expiry, in wire form.
    pub exptime: u32,
    pub value_bytes: usize,
    pub quiet: bool,
}

/// An increment or decrement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arithmetic<'a> {
    pub key: &'a [u8],
    pub delta: u64,
    pub decrement: bool,
    /// Number to store if the item is missing, and its expiry.
    pub initial: Option<(u64, u32)>,
    /// Required CAS value; 0 = any.
    pub cas: u64,
    pub quiet: bool,
}
