//! Commands, borrowed from their line.

use super::meta::MetaLine;
use super::operator::Operator;
use super::tokens::Words;

/// A command. Keys are 1 to [`super::KEY_BYTES_MAX`] bytes without spaces.
#[derive(Clone, Copy, Debug)]
pub enum Command<'a> {
    /// get, gets.
    Get {
        keys: Keys<'a>,
        /// The reply carries the CAS value.
        cas: bool,
    },
    /// gat, gats.
    GetAndTouch {
        /// New expiry, in wire form ([`super::expiry`]).
        exptime: i64,
        keys: Keys<'a>,
        /// The reply carries the CAS value.
        cas: bool,
    },
    /// set, add, replace, append, prepend, cas. The body of `value_bytes + 2` follows the line.
    Store {
        verb: StoreVerb,
        key: &'a [u8],
        /// Opaque to the server.
        flags: u32,
        /// Expiry, in wire form.
        exptime: i64,
        /// Length of the value, without its line end.
        value_bytes: usize,
        noreply: bool,
    },
    /// delete.
    Delete { key: &'a [u8], noreply: bool },
    /// incr, decr.
    Arithmetic { key: &'a [u8], delta: u64, decrement: bool, noreply: bool },
    /// touch.
    Touch {
        key: &'a [u8],
        /// New expiry, in wire form.
        exptime: i64,
        noreply: bool,
    },
    /// `flush_all`.
    FlushAll {
        /// Delay in seconds, or a Unix time, in the form of an expiry; 0 = now.
        delay_s: i64,
        noreply: bool,
    },
    /// `flush_namespace`, an extension to memcached: drops all keys of a namespace.
    FlushNamespace {
        /// Prefix of the keys, before the delimiter: 1 to [`super::KEY_BYTES_MAX`] bytes.
        name: &'a [u8],
        noreply: bool,
    },
    /// verbosity.
    Verbosity { level: u32, noreply: bool },
    /// refresh_certs: loads the certificates again.
    RefreshCerts { noreply: bool },
    /// version.
    Version,
    /// quit.
    Quit,
    /// shutdown.
    Shutdown {
        how: ShutdownHow,
        /// Suppresses the reply to a refusal.
        noreply: bool,
    },
    /// stats.
    Stats {
        /// Rest of the line, trimmed.
        arguments: &'a [u8],
    },
    /// A command for operators.
    Operator {
        operator: Operator,
        /// Rest of the line, trimmed.
        arguments: &'a [u8],
    },
    /// mn, the meta no-op.
    MetaNoop,
    /// mg, ms, md, ma, me.
    Meta(MetaLine<'a>),
}

/// Ways to shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownHow {
    AtOnce,
    /// Waits for the clients to close their connections.
    Gracefully,
    /// An unknown word: the server refuses it.
    Unknown,
}

/// Storage commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreVerb {
    Set,
    Add,
    Replace,
    Append,
    Prepend,
    /// Stores if the CAS value equals this one.
    Cas(u64),
}

/// Iterates over the keys of a get. They were checked before.
#[derive(Clone, Copy, Debug)]
pub struct Keys<'a> {
    words: Words<'a>,
    last: bool,
}

impl<'a> Keys<'a> {
    pub(super) fn of(line: &'a [u8], last: bool) -> Self {
        Self { words: Words::of(line), last }
    }

    /// Returns whether these keys end the command. Otherwise the next step returns more keys of the
    /// same command.
    pub fn is_last(&self) -> bool {
        self.last
    }
}

impl<'a> Iterator for Keys<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.words.next()
    }
}
