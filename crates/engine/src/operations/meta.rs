//! Options of meta commands and of the binary protocol: CAS values to compare and to set, stale
//! marks, the token that names the client that recreates an item, and times.
//!
//! Each operation is one step: no other write comes between its comparison and its change.

use crate::log::item::Expiry;

/// Options of a [`crate::Operation::MetaGet`]. The default leaves no trace but a counted request.
#[derive(Clone, Copy, Debug, Default)]
pub struct MetaGet {
    /// Return the value.
    pub value: bool,
    /// CAS value at which the value is left out.
    pub unless_cas: Option<u64>,
    /// Return the CAS value.
    pub cas: bool,
    /// Return the last access: from now on the item records it.
    pub access: bool,
    /// Do not count the request.
    pub uncounted: bool,
    /// The new expiry.
    pub touch: Option<Expiry>,
    /// Compare the new expiry, instead of the old one, with `recache`.
    pub touch_first: bool,
    /// Expiry of an empty item that is stored if there is none; the client then has the token.
    pub vivify: Option<Expiry>,
    /// Second before which an item must end for the first client to get the token.
    pub recache: Option<Expiry>,
    /// CAS value of an item that `vivify` stores; 0 = as usual.
    pub new_cas: u64,
    /// Leave the token to a client that is going to recreate the item.
    pub leaves_token: bool,
}

/// Condition of a [`crate::Operation::MetaStore`], and the fate of the old value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreMode {
    /// Stores always.
    #[default]
    Set,
    /// Stores only if there is no such item.
    Add,
    /// Stores only if there is one.
    Replace,
    /// Appends to the value of an item that exists; flags and expiry stay.
    Append,
    /// Prepends to the value of an item that exists; flags and expiry stay.
    Prepend,
    /// Appends; without an item, stores the value.
    AppendOrSet,
    /// Prepends; without an item, stores the value.
    PrependOrSet,
}

/// Arguments of a [`crate::Operation::MetaStore`].
#[derive(Clone, Copy, Debug, Default)]
pub struct MetaStore<'a> {
    /// The value.
    pub value: &'a [u8],
    /// Opaque to the engine.
    pub flags: u32,
    /// Expiry of the item.
    pub expiry: Expiry,
    /// Condition.
    pub mode: StoreMode,
    /// Return the CAS value of the stored item.
    pub cas: bool,
    /// Also replace an item whose CAS value is greater than `compare`, by a stale one.
    pub stale: bool,
    /// CAS value that the item must have. With `Set` and `Replace` the item must exist.
    pub compare: Option<u64>,
    /// CAS value that the item gets; 0 = a new one, as usual.
    pub new_cas: u64,
}

/// Arguments of a [`crate::Operation::MetaDelete`].
#[derive(Clone, Copy, Debug, Default)]
pub struct MetaDelete {
    /// CAS value that the item must have.
    pub compare: Option<u64>,
    /// CAS value that an invalidated or emptied item gets; 0 = as usual.
    pub new_cas: u64,
    /// Keep the item, mark it as stale, and give the token to the next client that requests it.
    pub invalidate: bool,
    /// Keep the item without its value, with these flags.
    pub empty: Option<u32>,
    /// New expiry of an item that stays; an emptied one always gets it.
    pub expiry: Option<Expiry>,
}

/// Arguments of a [`crate::Operation::MetaArithmetic`].
#[derive(Clone, Copy, Debug, Default)]
pub struct MetaArithmetic {
    /// Amount.
    pub delta: u64,
    /// Subtract instead of add.
    pub decrement: bool,
    /// Return the new CAS value.
    pub cas: bool,
    /// CAS value that the item must have; 0 = any. An item without a value is refused as no number
    /// before it is compared.
    pub compare: u64,
    /// CAS value that the item gets; 0 = a new one, as usual.
    pub new_cas: u64,
    /// Expiry with which `initial` is stored if there is no item.
    pub vivify: Option<Expiry>,
    /// Initial number.
    pub initial: u64,
    /// New expiry of an item that existed.
    pub touch: Option<Expiry>,
}

/// Description of an item ([`crate::ReplySink::describe`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemMeta {
    /// Flags as stored.
    pub flags: u32,
    /// Length of the value.
    pub value_bytes: usize,
    /// CAS value if it was requested, else 0.
    pub cas: u64,
    /// The expiry before the request.
    pub expiry_before: Expiry,
    /// Expiry after the request.
    pub expiry: Expiry,
    /// Second of the previous access; if accesses were not recorded, the second in which the item
    /// was stored, or 0.
    pub access_s: u32,
    /// True if the item was requested before, since it was stored.
    pub fetched: bool,
    /// True if it has the CAS value of [`MetaGet::unless_cas`], so that its value is left out.
    pub unchanged: bool,
    /// True if the item was invalidated.
    pub stale: bool,
    /// True if a client had the token before.
    pub token_sent: bool,
    /// True if this client has the token now.
    pub won: bool,
    /// True if the request has created the item.
    pub created: bool,
    /// Bytes that the item takes.
    pub item_bytes: usize,
}
