//! What meta commands, and the binary protocol, ask of an item beside its value: compared and
//! chosen CAS values, stale marks and the token that says who recreates the item, times.
//!
//! Each of these is one step: nobody else's write comes between the comparison and the change.

use crate::request::Expiry;

/// What a [`crate::Operation::MetaGet`] wants. The default is a look that leaves no trace but a
/// counted request.
#[derive(Clone, Copy, Debug, Default)]
pub struct MetaGet {
    /// Whether the value is wanted.
    pub value: bool,
    /// If the item has this CAS value, the value is not wanted.
    pub unless_cas: Option<u64>,
    /// Whether the CAS value is wanted.
    pub cas: bool,
    /// Whether it matters when the item was accessed: from now on that is noted.
    pub access: bool,
    /// The request is not to be noted.
    pub unnoticed: bool,
    /// The new expiry.
    pub touch: Option<Expiry>,
    /// Whether the new expiry counts for `recache`.
    pub touch_first: bool,
    /// If there is no item, an empty one of this expiry is stored, and the client has the token.
    pub vivify: Option<Expiry>,
    /// If the item ends before this second, the first client to ask gets the token.
    pub recache: Option<Expiry>,
    /// The CAS value of an item that `vivify` stores; 0 = as usual.
    pub new_cas: u64,
    /// Whoever asks is not going to recreate the item: the token stays for who does.
    pub leaves_token: bool,
}

/// When a [`crate::Operation::MetaStore`] stores, and what becomes of the old value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreMode {
    /// Always.
    #[default]
    Set,
    /// Only if there is no such item.
    Add,
    /// Only if there is one.
    Replace,
    /// Behind the value of an item that exists; flags and expiry stay.
    Append,
    /// Before the value of an item that exists; flags and expiry stay.
    Prepend,
    /// As `Append`; without an item the value is stored.
    AppendOrSet,
    /// As `Prepend`; without an item the value is stored.
    PrependOrSet,
}

/// What a [`crate::Operation::MetaStore`] stores.
#[derive(Clone, Copy, Debug, Default)]
pub struct MetaStore<'a> {
    /// The value.
    pub value: &'a [u8],
    /// Opaque to the engine.
    pub flags: u32,
    /// When the item ends.
    pub expiry: Expiry,
    /// When to store.
    pub mode: StoreMode,
    /// Whether the CAS value of what was stored is wanted.
    pub cas: bool,
    /// An item with a greater CAS value than `compare` is replaced, too, by a stale one.
    pub stale: bool,
    /// The CAS value that the item must have. With `Set` and `Replace` there must be one.
    pub compare: Option<u64>,
    /// The CAS value that it gets; 0 = a new one, as usual.
    pub new_cas: u64,
}

/// What a [`crate::Operation::MetaDelete`] removes.
#[derive(Clone, Copy, Debug, Default)]
pub struct MetaDelete {
    /// The CAS value that the item must have.
    pub compare: Option<u64>,
    /// The CAS value that an invalidated or emptied item gets; 0 = as usual.
    pub new_cas: u64,
    /// The item stays, marked as stale, and the next client to ask has the token.
    pub invalidate: bool,
    /// The item stays without its value, with these flags.
    pub empty: Option<u32>,
    /// The new expiry of an item that stays; an emptied one gets it in any case.
    pub expiry: Option<Expiry>,
}

/// What a [`crate::Operation::MetaArithmetic`] does to a number.
#[derive(Clone, Copy, Debug, Default)]
pub struct MetaArithmetic {
    /// By how much.
    pub delta: u64,
    /// Down, not up.
    pub decrement: bool,
    /// Whether the CAS value afterwards is wanted.
    pub cas: bool,
    /// The CAS value that the item must have; 0 = any. An item without a value is no number first.
    pub compare: u64,
    /// The CAS value that it gets; 0 = a new one, as usual.
    pub new_cas: u64,
    /// If there is no item, `initial` is stored with this expiry.
    pub vivify: Option<Expiry>,
    /// The number to begin with.
    pub initial: u64,
    /// The new expiry of an item that was there.
    pub touch: Option<Expiry>,
}

/// What is known of an item ([`crate::ReplySink::describe`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemMeta {
    /// As stored.
    pub flags: u32,
    /// Length of the value.
    pub value_bytes: usize,
    /// The CAS value if it was asked for, else 0.
    pub cas: u64,
    /// The expiry before the request.
    pub expiry_before: Expiry,
    /// The expiry after it.
    pub expiry: Expiry,
    /// The second of the last access before this one; if nobody had asked for that, the one in which the item was
    /// stored, or 0.
    pub access_s: u32,
    /// Whether it was requested before, since it was stored.
    pub fetched: bool,
    /// Whether it has the CAS value of [`MetaGet::unless_cas`], so that its value is not shown.
    pub unchanged: bool,
    /// Whether it was invalidated.
    pub stale: bool,
    /// Whether some client had the token before.
    pub token_sent: bool,
    /// Whether this client has the token now.
    pub won: bool,
    /// Whether the request has created the item.
    pub created: bool,
    /// Bytes that the item takes.
    pub item_bytes: usize,
}
