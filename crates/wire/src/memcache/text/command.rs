//! Commands, borrowed from the line they stand in.

use super::meta::MetaLine;
use super::operator::Operator;
use super::tokens::Words;

/// A command. Keys are 1 to [`super::KEY_BYTES_MAX`] bytes without spaces.
#[derive(Clone, Copy, Debug)]
pub enum Command<'a> {
    /// get, gets.
    Get {
        /// What is asked for.
        keys: Keys<'a>,
        /// Whether the CAS value is wanted.
        cas: bool,
    },
    /// gat, gats.
    GetAndTouch {
        /// The new expiry, as on the wire ([`super::expiry`]).
        exptime: i64,
        /// What is asked for.
        keys: Keys<'a>,
        /// Whether the CAS value is wanted.
        cas: bool,
    },
    /// set, add, replace, append, prepend, cas. The body of `value_bytes + 2` follows the line.
    Store {
        /// Which of them.
        verb: StoreVerb,
        /// The key.
        key: &'a [u8],
        /// Opaque.
        flags: u32,
        /// The expiry, as on the wire.
        exptime: i64,
        /// Length of the value, without its line end.
        value_bytes: usize,
        /// No reply is wanted.
        noreply: bool,
    },
    /// delete.
    Delete {
        /// The key.
        key: &'a [u8],
        /// No reply is wanted.
        noreply: bool,
    },
    /// incr, decr.
    Arithmetic {
        /// The key.
        key: &'a [u8],
        /// By how much.
        delta: u64,
        /// Down, not up.
        decrement: bool,
        /// No reply is wanted.
        noreply: bool,
    },
    /// touch.
    Touch {
        /// The key.
        key: &'a [u8],
        /// The new expiry, as on the wire.
        exptime: i64,
        /// No reply is wanted.
        noreply: bool,
    },
    /// `flush_all`.
    FlushAll {
        /// In how many seconds, or at which Unix time, as expiries; 0 = now.
        delay_s: i64,
        /// No reply is wanted.
        noreply: bool,
    },
    /// `flush_namespace`, which memcached does not have: forgets all keys of a namespace.
    FlushNamespace {
        /// What stands before the delimiter in those keys: 1 to [`super::KEY_BYTES_MAX`] bytes.
        name: &'a [u8],
        /// No reply is wanted.
        noreply: bool,
    },
    /// verbosity.
    Verbosity {
        /// The new level.
        level: u32,
        /// No reply is wanted.
        noreply: bool,
    },
    /// refresh_certs: reads certificates again.
    RefreshCerts {
        /// No reply is wanted.
        noreply: bool,
    },
    /// version.
    Version,
    /// quit.
    Quit,
    /// shutdown.
    Shutdown {
        /// How it is to end.
        how: ShutdownHow,
        /// No refusal is wanted.
        noreply: bool,
    },
    /// stats.
    Stats {
        /// The rest of the line, trimmed.
        arguments: &'a [u8],
    },
    /// A command for operators.
    Operator {
        /// Which one.
        operator: Operator,
        /// The rest of the line, trimmed.
        arguments: &'a [u8],
    },
    /// mn, the meta no-op.
    MetaNoop,
    /// mg, ms, md, ma, me.
    Meta(MetaLine<'a>),
}

/// How shutdown ends the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownHow {
    /// At once.
    AtOnce,
    /// Connections end by themselves.
    Gracefully,
    /// By a word that says neither: not at all.
    Unknown,
}

/// The storage commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreVerb {
    /// Always.
    Set,
    /// Only if there is no such item.
    Add,
    /// Only if there is one.
    Replace,
    /// Behind the value.
    Append,
    /// Before the value.
    Prepend,
    /// Only if the CAS value is this.
    Cas(u64),
}

/// The keys of a get, checked before: an iterator.
#[derive(Clone, Copy, Debug)]
pub struct Keys<'a> {
    words: Words<'a>,
    last: bool,
}

impl<'a> Keys<'a> {
    pub(super) fn of(line: &'a [u8], last: bool) -> Self {
        Self {
            words: Words::of(line),
            last,
        }
    }

    /// Whether the command ends with these keys, so that `END` follows; if not, more keys of the
    /// same command come with the next step.
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
