//! What callers ask of the engine, and how it answers: ordered batches of borrowed requests in,
//! a reply sink out.

use micanite_wire::hash::KeyHash;

use crate::index::hash::IndexHash;

pub use crate::meta::{ItemMeta, MetaArithmetic, MetaDelete, MetaGet, MetaStore, StoreMode};

/// One operation on one key, borrowing the key and the value from the caller's input.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The hash of `key` under the seed of the cache ([`crate::Cache::hash`]).
    pub hash: KeyHash,
    /// 1 to 250 bytes.
    pub key: &'a [u8],
    /// What to do.
    pub operation: Operation<'a>,
}

/// A request, as the partition of its key executes it.
#[derive(Clone, Copy)]
pub(crate) struct HashedRequest<'a> {
    pub hash: IndexHash,
    pub key: &'a [u8],
    pub operation: &'a Operation<'a>,
}

/// The operations. Expiries are in seconds of the caller's clock (see [`Expiry`]).
#[derive(Clone, Copy, Debug)]
pub enum Operation<'a> {
    /// Value of the key. With `cas`, the reply carries the item's CAS value.
    Get {
        /// Whether the CAS value is wanted (memcached `gets`).
        cas: bool,
    },
    /// As `Get`, and replaces the expiry.
    GetAndTouch {
        /// The new expiry.
        expiry: Expiry,
        /// Whether the CAS value is wanted (memcached `gats`).
        cas: bool,
    },
    /// Stores an item under a condition.
    Store {
        /// When to store.
        condition: Condition,
        /// The value.
        value: &'a [u8],
        /// Opaque to the engine.
        flags: u32,
        /// When the item ends.
        expiry: Expiry,
    },
    /// Adds bytes after the value of an item that exists; flags and expiry stay.
    Append {
        /// What is added.
        value: &'a [u8],
    },
    /// Adds bytes before the value of an item that exists; flags and expiry stay.
    Prepend {
        /// What is added.
        value: &'a [u8],
    },
    /// Adds to a decimal number, wrapping at 2^64.
    Increment {
        /// What is added.
        delta: u64,
    },
    /// Subtracts from a decimal number, stopping at zero.
    Decrement {
        /// What is subtracted.
        delta: u64,
    },
    /// Replaces the expiry.
    Touch {
        /// The new expiry.
        expiry: Expiry,
    },
    /// Removes the item.
    Delete,
    /// As `Get`, with what meta commands ask beside it.
    MetaGet(MetaGet),
    /// Stores an item, with what meta commands ask beside it.
    MetaStore(MetaStore<'a>),
    /// Removes or invalidates an item.
    MetaDelete(MetaDelete),
    /// As `Increment` and `Decrement`, with what meta commands ask beside it.
    MetaArithmetic(MetaArithmetic),
}

/// When a [`Operation::Store`] stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Always (set).
    Always,
    /// Only if there is no such item (add).
    Absent,
    /// Only if there is one (replace).
    Present,
    /// Only if there is one and its CAS value is this (cas).
    Unchanged(u64),
}

/// The second of the caller's clock from which on an item is not returned any more; 0 = never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Expiry(pub u32);

impl Expiry {
    /// The item does not expire.
    pub const NEVER: Self = Self(0);
    /// The item has expired already (memcached: a negative expiry).
    pub const PAST: Self = Self(1);

    /// Whether an item of this expiry has ended at `now_s`.
    #[inline]
    pub const fn has_passed(self, now_s: u32) -> bool {
        self.0 != 0 && self.0 <= now_s
    }
}

/// What is known of a found item before its value is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueMeta {
    /// As stored.
    pub flags: u32,
    /// The CAS value if it was asked for, else 0.
    pub cas: u64,
    /// Length of the value.
    pub value_bytes: usize,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A get or get-and-touch found the item: its value is in the room that was reserved, if it
    /// was asked for.
    Hit,
    /// Stored; after a [`Operation::MetaGet`]: an empty item, for there was none.
    Stored,
    /// The condition of add or replace did not hold, or nothing to append to.
    NotStored,
    /// The CAS value is another one.
    Exists,
    /// No such item (get, cas, increment, decrement, touch, delete).
    NotFound,
    /// Removed.
    Deleted,
    /// Expiry replaced.
    Touched,
    /// The new number.
    Number(u64),
    /// The value is not a decimal number.
    NotANumber,
    /// The value is longer than this cache takes ([`crate::Layout::value_bytes_max`]).
    TooLarge,
    /// There is no space for the item; nothing has changed.
    OutOfMemory,
    /// Another worker owns the partition of the key, and there is no way to ask it
    /// ([`crate::Cache::set_waker`]).
    NotOwner,
    /// Another thread is in the way. The engine tries again: no sink sees this.
    Busy,
}

/// Takes the replies of a batch, in the order of its requests.
///
/// For a hit: `reserve`, then the engine copies the value in, then `finish(.., Outcome::Hit)`; or
/// `rollback` when an optimistic read turned out torn, and then anything again. For everything
/// else just `finish`, which must always succeed: the sink keeps room for the short replies of a
/// whole batch.
pub trait ReplySink {
    /// Room for a value of `meta.value_bytes`, or `None` when there is none: the batch then ends
    /// before this request, which has had no effect but that of a touch, if it is one. Called at most once between rollbacks.
    fn reserve(&mut self, index: usize, meta: ValueMeta) -> Option<&mut [u8]>;
    /// Takes back what `reserve` gave for this request.
    fn rollback(&mut self, index: usize);
    /// What is known of the item that one of the `Meta` operations has found, stored or left:
    /// before `reserve`, or before `finish` if there is none, and again after a rollback.
    fn describe(&mut self, _index: usize, _item: ItemMeta) {}
    /// The request has ended.
    fn finish(&mut self, index: usize, outcome: Outcome);
}
