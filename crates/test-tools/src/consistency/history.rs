//! History of every key while it is written: between which operations a reply must lie.

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use serde::Serialize;

use super::content::{self, Operation};

/// Bits of an acknowledgement that say between which flushes its operation lay.
const EPOCH_BITS: u32 = 24;
/// A flush was under way.
const NO_EPOCH: u64 = (1 << EPOCH_BITS) - 1;
/// The clocks of server and checker are one; this is for what a reply takes, and for the second that has
/// begun.
const EXPIRY_SLACK_S: u64 = 1;

/// One key's history. A key has one writer, or all of them: then its operations have no order that anybody
/// knows.
#[derive(Debug, Default)]
struct Key {
    /// The last operation that may have been executed.
    issued: AtomicU64,
    /// The last one whose end is known, and its epoch.
    acknowledged: AtomicU64,
    /// Oldest value that can still be seen: a later one was acknowledged, or seen.
    floor: AtomicU64,
    /// Values up to here can no longer be seen.
    flushed: AtomicU64,
}

#[derive(Debug)]
pub(super) struct History {
    keys: Box<[Key]>,
    /// Items may leave at any time.
    evicts: bool,
    flushes_begun: AtomicU32,
    flushes_ended: AtomicU32,
}

/// State of a key's history when a request was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Before {
    floor: u64,
    flushed: u64,
    acknowledged: u64,
    second: u64,
}

/// Reason why a key may have no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Absence {
    /// Or by nobody who said so.
    NeverWritten,
    Deleted,
    Expired,
    Flushed,
    /// Only the memory's size explains it.
    Evicted,
}

#[derive(Debug)]
pub(super) enum Wrong {
    /// Bytes of no operation.
    Torn(String),
    /// The value of an operation that has not begun.
    Early { sequence: u64, issued: u64 },
    /// Older than what was known to be there.
    Stale { sequence: u64, floor: u64 },
    /// A value from before a flush that had ended.
    Flushed { sequence: u64, flushed: u64 },
    /// The value had expired when the request was sent.
    Expired { sequence: u64, expiry_s: u32, second: u64 },
    /// No value, where one had to be.
    Missing { acknowledged: u64, issued: u64 },
}

impl fmt::Display for Wrong {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Torn(why) => write!(to, "torn: {why}"),
            Self::Early { sequence, issued } => {
                write!(to, "the value of operation {sequence}, and {issued} is the last")
            }
            Self::Stale { sequence, floor } => {
                write!(to, "the value of operation {sequence}, after {floor} was known")
            }
            Self::Flushed { sequence, flushed } => {
                write!(to, "the value of operation {sequence}, after {flushed} was flushed")
            }
            Self::Expired { sequence, expiry_s, second } => {
                write!(to, "the value of operation {sequence}, expired at {expiry_s}, asked for at {second}")
            }
            Self::Missing { acknowledged, issued } => {
                write!(to, "nothing, between operations {acknowledged} and {issued}")
            }
        }
    }
}

/// Tells whether a key belongs to all writers: the last eighth of them does.
pub(super) fn is_shared(key: u32, keys: u32) -> bool {
    key >= keys - keys / 8
}

impl History {
    pub fn new(keys: u32, evicts: bool) -> Self {
        Self {
            keys: (0..keys).map(|_| Key::default()).collect(),
            evicts,
            flushes_begun: AtomicU32::new(0),
            flushes_ended: AtomicU32::new(0),
        }
    }

    pub fn keys(&self) -> u32 {
        self.keys.len() as u32
    }

    /// The next operation of a key, which is sent now; and its epoch.
    pub fn issue(&self, key: u32) -> (u64, u64) {
        let ended = self.flushes_ended.load(Ordering::SeqCst);
        let sequence = self.keys[key as usize].issued.fetch_add(1, Ordering::SeqCst) + 1;
        let is_between = self.flushes_begun.load(Ordering::SeqCst) == ended;
        (sequence, if is_between { u64::from(ended) } else { NO_EPOCH })
    }

    /// Notes that an operation has been executed.
    pub fn acknowledge(&self, key: u32, (sequence, mut epoch): (u64, u64)) {
        if !is_shared(key, self.keys()) {
            let of_key = &self.keys[key as usize];
            if content::operation(key, sequence) == Operation::Touch {
                // A touch keeps the value, and with it the epoch.
                epoch = of_key.acknowledged.load(Ordering::SeqCst) & NO_EPOCH;
            }
            of_key.acknowledged.store((sequence << EPOCH_BITS) | epoch, Ordering::SeqCst);
            of_key.floor.fetch_max(sequence, Ordering::SeqCst);
        }
    }

    /// Executes a flush, between what is known before and after it.
    pub fn flush<E>(&self, execute: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        self.flushes_begun.fetch_add(1, Ordering::SeqCst);
        let before: Vec<_> =
            self.keys.iter().map(|key| key.acknowledged.load(Ordering::SeqCst) >> EPOCH_BITS).collect();
        execute()?;
        for (key, sequence) in self.keys.iter().zip(before) {
            key.flushed.fetch_max(sequence, Ordering::SeqCst);
        }
        self.flushes_ended.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    /// Before a key is asked for.
    pub fn before(&self, key: u32, second: u64) -> Before {
        let key = &self.keys[key as usize];
        Before {
            floor: key.floor.load(Ordering::SeqCst),
            flushed: key.flushed.load(Ordering::SeqCst),
            acknowledged: key.acknowledged.load(Ordering::SeqCst),
            second,
        }
    }

    /// Checks a value that a reply had.
    pub fn judge_value(&self, key: u32, before: &Before, value: &[u8], flags: u32) -> Result<(), Wrong> {
        let (sequence, expiry_s) =
            content::parse(key, value, flags).map_err(|why| Wrong::Torn(why.to_string()))?;
        let issued = self.keys[key as usize].issued.load(Ordering::SeqCst);
        if sequence > issued {
            return Err(Wrong::Early { sequence, issued });
        }
        if is_shared(key, self.keys()) {
            return Ok(());
        }
        if sequence <= before.flushed {
            let flushed = before.flushed;
            return Err(Wrong::Flushed { sequence, flushed });
        }
        if sequence < content::last_write(key, before.floor) {
            let floor = before.floor;
            return Err(Wrong::Stale { sequence, floor });
        }
        if let Some(expiry_s) = expiry_s {
            let is_touched = content::operation(key, sequence + 1) == Operation::Touch && issued > sequence;
            if !is_touched && before.second > u64::from(expiry_s) + EXPIRY_SLACK_S {
                let second = before.second;
                return Err(Wrong::Expired { sequence, expiry_s, second });
            }
        }
        self.keys[key as usize].floor.fetch_max(sequence, Ordering::SeqCst);
        Ok(())
    }

    /// Checks a miss, and says why it may be.
    pub fn judge_absence(&self, key: u32, before: &Before) -> Result<Absence, Wrong> {
        let issued = self.keys[key as usize].issued.load(Ordering::SeqCst);
        let (acknowledged, epoch) = (before.acknowledged >> EPOCH_BITS, before.acknowledged & NO_EPOCH);
        if is_shared(key, self.keys()) {
            return Ok(Absence::Deleted);
        }
        let first = content::last_write(key, acknowledged);
        if first == 0 {
            return Ok(Absence::NeverWritten);
        }
        for sequence in first..=issued {
            match content::operation(key, sequence) {
                Operation::Delete => return Ok(Absence::Deleted),
                Operation::SetExpiring { .. } => return Ok(Absence::Expired),
                _ => {}
            }
        }
        if epoch != u64::from(self.flushes_begun.load(Ordering::SeqCst)) {
            return Ok(Absence::Flushed);
        }
        match self.evicts {
            true => Ok(Absence::Evicted),
            false => Err(Wrong::Missing { acknowledged, issued }),
        }
    }
}
