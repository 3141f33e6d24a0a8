//! Requests to the engine and their replies: ordered batches of borrowed requests in, a reply sink
//! out.

use micanite_chunks::Entry;
use micanite_wire::hash::KeyHash;

use crate::index::hash::IndexHash;
use crate::log::item::Expiry;

pub use crate::operations::meta::{ItemMeta, MetaArithmetic, MetaDelete, MetaGet, MetaStore, StoreMode};

/// One operation on one key, borrowing the key and the value from the caller's input.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The hash of `key` under the seed of the cache ([`crate::Cache::hash`]).
    pub hash: KeyHash,
    /// 1 to 250 bytes.
    pub key: &'a [u8],
    /// Operation on the key.
    pub operation: Operation<'a>,
}

/// A request with the hash of its key within the partition.
#[derive(Clone, Copy)]
pub(crate) struct HashedRequest<'a> {
    pub hash: IndexHash,
    pub key: &'a [u8],
    pub operation: &'a Operation<'a>,
}

/// The operations. Expiries are in seconds of the caller's clock (see [`Expiry`]).
#[derive(Clone, Copy, Debug)]
pub enum Operation<'a> {
    /// Returns the value of the key. With `cas`, the reply carries the item's CAS value.
    Get {
        /// Return the CAS value (memcached `gets`).
        cas: bool,
    },
    /// Returns the value like `Get` without `cas`, and the entry of the item's chunk, if there is a cache
    /// area with room for it ([`ReplySink::entry`]).
    GetEntry,
    /// Returns the value like `Get`, and replaces the expiry.
    GetAndTouch {
        /// The new expiry.
        expiry: Expiry,
        /// Return the CAS value (memcached `gats`).
        cas: bool,
    },
    /// Stores an item under a condition.
    Store {
        /// Condition.
        condition: Condition,
        /// The value.
        value: &'a [u8],
        /// Opaque to the engine.
        flags: u32,
        /// Expiry of the item.
        expiry: Expiry,
    },
    /// Stores an item like `Store`, for a client that reads it one-sided: then loads it into the cache area,
    /// or stores it there only ([`crate::ChunkWrite`]), and returns its entry.
    StoreEntry {
        /// Condition.
        condition: Condition,
        /// The value.
        value: &'a [u8],
        /// Opaque to the engine.
        flags: u32,
        /// Expiry of the item.
        expiry: Expiry,
    },
    /// Adds bytes after the value of an item that exists; flags and expiry stay.
    Append {
        /// Bytes to append.
        value: &'a [u8],
    },
    /// Adds bytes before the value of an item that exists; flags and expiry stay.
    Prepend {
        /// Bytes to prepend.
        value: &'a [u8],
    },
    /// Adds to a decimal number, wrapping at 2^64.
    Increment {
        /// Number to add.
        delta: u64,
    },
    /// Subtracts from a decimal number, stopping at zero.
    Decrement {
        /// Number to subtract.
        delta: u64,
    },
    /// Replaces the expiry.
    Touch {
        /// The new expiry.
        expiry: Expiry,
    },
    /// Removes the item.
    Delete,
    /// Returns the value, with the options of meta commands.
    MetaGet(MetaGet),
    /// Stores an item, with the options of meta commands.
    MetaStore(MetaStore<'a>),
    /// Removes or invalidates an item.
    MetaDelete(MetaDelete),
    /// Adds to a number or subtracts from it, with the options of meta commands.
    MetaArithmetic(MetaArithmetic),
}

/// Condition of a [`Operation::Store`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Store always (set).
    Always,
    /// Store only if there is no such item (add).
    Absent,
    /// Store only if there is one (replace).
    Present,
    /// Store only if there is one with this CAS value (cas).
    Unchanged(u64),
}

/// Description of a found item, before its value is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueMeta {
    /// Flags as stored.
    pub flags: u32,
    /// CAS value if it was requested, else 0.
    pub cas: u64,
    /// Length of the value.
    pub value_bytes: usize,
}

/// Result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A get or get-and-touch found the item. Its value is in the space that the sink reserved, if
    /// the request wanted the value.
    Hit,
    /// The item was stored. After a [`Operation::MetaGet`]: an empty item, because there was none.
    Stored,
    /// The condition of add or replace did not hold, or there was no item to append to.
    NotStored,
    /// The item has another CAS value.
    Exists,
    /// There is no such item (get, cas, increment, decrement, touch, delete).
    NotFound,
    /// The item was removed.
    Deleted,
    /// The expiry was replaced.
    Touched,
    /// The new number.
    Number(u64),
    /// The value is not a decimal number.
    NotANumber,
    /// The value is longer than this cache accepts ([`crate::Layout::value_bytes_max`]).
    TooLarge,
    /// There is no space for the item; nothing has changed.
    OutOfMemory,
    /// Another worker owns the partition of the key, and no waker is set
    /// ([`crate::Cache::set_waker`]).
    NotOwner,
    /// Another thread is in the way. The engine tries again: no sink sees this.
    Busy,
}

/// Takes the replies of a batch, in the order of its requests.
///
/// For a hit the engine calls `reserve`, copies the value in, and calls `finish(.., Outcome::Hit)`.
/// If an optimistic read turns out torn, it calls `rollback` and starts again. For everything else
/// it calls `finish` alone, which must always succeed: the sink keeps room for the short replies of
/// a whole batch.
pub trait ReplySink {
    /// Reserves space for a value of `meta.value_bytes`. Returns `None` when there is none: the
    /// batch then ends before this request, which has had no effect but that of a touch, if it is
    /// one. Called at most once between rollbacks.
    fn reserve(&mut self, index: usize, meta: ValueMeta) -> Option<&mut [u8]>;
    /// Releases the space that `reserve` gave for this request.
    fn rollback(&mut self, index: usize);
    /// Describes the item that one of the `Meta` operations has found, stored or left. Called
    /// before `reserve`, or before `finish` if there is no `reserve`, and again after a rollback.
    fn describe(&mut self, _index: usize, _item: ItemMeta) {}
    /// Takes the entry of the item's chunk, for [`Operation::GetEntry`] and [`Operation::StoreEntry`]. Called
    /// before `reserve`, or before `finish` if there is no `reserve`; and again if the request is, because
    /// there was no room.
    fn entry(&mut self, _index: usize, _entry: Entry) {}
    /// Ends the request.
    fn finish(&mut self, index: usize, outcome: Outcome);
}
