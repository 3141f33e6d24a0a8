//! set, add, replace, append and prepend of meta commands: CAS values to compare and to set, stale
//! values, appending to an item that need not exist.

use crate::log::item::{Expiry, State};
use crate::operations::Side;
use crate::operations::meta::{ItemMeta, MetaStore, StoreMode};
use crate::operations::request::{HashedRequest, Outcome};
use crate::writer::{Found, NewItem, Part, Refusal, Writer};

/// Outcome of a meta store, and the description of the item afterwards.
pub(crate) type Described = (Outcome, Option<ItemMeta>);

impl StoreMode {
    const fn side(self) -> Option<Side> {
        match self {
            Self::Append | Self::AppendOrSet => Some(Side::After),
            Self::Prepend | Self::PrependOrSet => Some(Side::Before),
            Self::Set | Self::Add | Self::Replace => None,
        }
    }
}

impl Writer<'_> {
    pub fn meta_store(
        &self,
        request: &HashedRequest<'_>,
        store: &MetaStore<'_>,
        value_bytes_max: usize,
    ) -> Described {
        let found = self.find(request.hash, request.key);
        let stale = match self.may_store(found.as_ref(), store) {
            Ok(stale) => stale,
            Err(outcome) => return (outcome, None),
        };
        let item = match (&found, store.mode.side()) {
            (Some(found), Some(side)) => {
                if found.value_bytes() + store.value.len() > value_bytes_max {
                    return (Outcome::TooLarge, None);
                }
                self.joined(request.key, found, side, store.value)
            }
            _ => {
                let meta = (store.flags, store.expiry);
                if let Some(found) = &found
                    && !store.cas
                    && store.new_cas == 0
                    && !stale
                    && !self.partition.follows_accesses()
                    && self.overwrite(request.hash, found, store.value, meta)
                {
                    return (Outcome::Stored, Some(self.describe_now(found.slot)));
                }
                NewItem {
                    frequency: found.as_ref().map_or(0, |found| found.header.frequency()),
                    state: self.fresh_state(found.as_ref()),
                    ..NewItem::of(request.key, store.value, meta)
                }
            }
        };
        let item = self.with_choices(item, found.as_ref().filter(|_| stale), store);
        match self.insert_described(request.hash, &item, found.as_ref()) {
            Ok(stored) => (Outcome::Stored, Some(stored)),
            // The item to be appended to has just been evicted.
            Err(Refusal::Gone) => match store.mode {
                StoreMode::AppendOrSet | StoreMode::PrependOrSet => (Outcome::Busy, None),
                _ => (Outcome::NotStored, None),
            },
            Err(refusal) => (refusal.into(), None),
        }
    }

    /// Returns `Ok` if the conditions hold: `Ok(true)` if the value is to be stored as a stale one.
    fn may_store(&self, found: Option<&Found>, store: &MetaStore<'_>) -> Result<bool, Outcome> {
        let replaces = matches!(store.mode, StoreMode::Set | StoreMode::Replace);
        match (found, store.mode, store.compare) {
            (Some(_), StoreMode::Add, _) => Err(Outcome::NotStored),
            (None, StoreMode::Set | StoreMode::Replace, Some(_)) => Err(Outcome::NotFound),
            (None, StoreMode::Replace | StoreMode::Append | StoreMode::Prepend, _) => Err(Outcome::NotStored),
            (Some(found), _, Some(cas)) => match self.cas_of(found) {
                // A zero turns the comparison off, as in memcached; with Set and Replace no value
                // matches it.
                _ if cas == 0 && !replaces => Ok(false),
                now if now == cas && cas != 0 => Ok(false),
                now if store.stale && replaces && cas != 0 && cas < now => Ok(true),
                _ => Err(Outcome::Exists),
            },
            _ => Ok(false),
        }
    }

    /// Returns the item with the client's options: with its CAS value, or as a stale one in place
    /// of `newer`.
    fn with_choices<'b>(
        &self,
        item: NewItem<'b>,
        newer: Option<&Found>,
        store: &MetaStore<'_>,
    ) -> NewItem<'b> {
        let mut state = item.state.unwrap_or_default();
        let mut expiry = item.expiry;
        if let Some(newer) = newer {
            state.stale = true;
            state.token_sent = self.state_of(newer).token_sent;
            expiry = newer.expiry;
        }
        if self.partition.follows_accesses() {
            state.access_s = self.now_s;
        }
        state.cas = store.new_cas;
        NewItem {
            expiry,
            state: (state != State::default()).then_some(state),
            gives_cas: store.cas || state.cas != 0,
            ..item
        }
    }

    /// Inserts an item that a client wrote, and describes it. `replaced` is the previous item.
    pub(super) fn insert_described(
        &self,
        hash: crate::index::hash::IndexHash,
        item: &NewItem<'_>,
        replaced: Option<&Found>,
    ) -> Result<ItemMeta, Refusal> {
        let old_bytes = replaced.map_or(0, Found::value_bytes);
        let part_bytes = |part: &Part<'_>| match part {
            Part::Bytes(bytes) => bytes.len(),
            Part::Old => old_bytes,
        };
        let value_bytes = item.value.iter().map(part_bytes).sum();
        let reserved = self.insert(hash, item, replaced)?;
        self.count_insertion();
        let in_state = item.state.map_or(0, |state| state.cas);
        let cas = match (in_state, item.cas) {
            (0, Some(cas)) => cas,
            (0, None) => self.cas_of_last(&reserved.place),
            (cas, _) => cas,
        };
        Ok(ItemMeta {
            flags: item.flags,
            value_bytes,
            cas,
            expiry_before: replaced.map_or(Expiry::NEVER, |found| found.expiry),
            expiry: item.expiry,
            fetched: item.fetched,
            item_bytes: reserved.header.units() as usize * 8,
            created: replaced.is_none(),
            ..ItemMeta::default()
        })
    }

    /// Describes the item that the entry at a word leads to.
    fn describe_now(&self, slot: usize) -> ItemMeta {
        let entry = crate::index::entry::Entry(
            self.partition.word(slot).load(micanite_memory::sync::Ordering::Relaxed),
        );
        self.partition
            .place(entry)
            .map(|place| self.describe(&self.found_at(slot, place)))
            .unwrap_or_default()
    }
}
