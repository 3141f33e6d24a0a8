//! Copies of the items of a bucket, concurrently with its writer.
//!
//! Each item is copied by itself, and the copy counts if the version of the bucket is unchanged. A
//! long item beside a key that is written all the time is never copied that way: after
//! [`COPY_ATTEMPTS_MAX`] attempts the partition is shared for a moment, whoever owns it, and the
//! rest is copied under its lock, one item at a time.

use std::ops::ControlFlow;

use micanite_memory::sync::Ordering::Relaxed;
use micanite_memory::sync::{spin_loop, yield_now};

use crate::cache::Cache;
use crate::index::bucket::Bucket;
use crate::index::entry::Entry;
use crate::limits::{COPY_ATTEMPTS_MAX, KEY_BYTES_MAX};
use crate::log::item::{Expiry, State};
use crate::partition::{Partition, Place};
use crate::writer::Writer;

/// An item as it was read.
pub(crate) struct Copied {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    pub flags: u32,
    pub expiry: Expiry,
    pub state: Option<State>,
    /// CAS value that a client may know, unless it is part of the state.
    pub cas: Option<u64>,
    pub cas_given: bool,
    pub fetched: bool,
}

impl Cache {
    /// Calls `take` with a copy of every item of a bucket. The calling thread is not a worker, and
    /// keeps the index from shrinking ([`crate::index::walkers::Walkers::enter`]).
    pub(crate) fn copy_bucket(
        &self,
        partition: usize,
        number: u64,
        now_s: u32,
        take: &mut impl FnMut(&Copied),
    ) {
        let mut copied = Vec::new();
        let pin = self.partitions[partition].pages.pin();
        if self.partitions[partition].copy_by_attempts(number, now_s, &mut copied, take) {
            return;
        }
        drop(pin);
        let write = |writer: &Writer<'_>| keys_except(writer, number, &copied);
        for key in self.with_writer(partition, now_s, || {}, write) {
            let write = |writer: &Writer<'_>| copy_of_key(writer, self.hash(&key), &key);
            if let Some(item) = self.with_writer(partition, now_s, || {}, write) {
                take(&item);
            }
        }
    }
}

impl Partition {
    /// Copies the items of a bucket whose keys are not in `copied`, and adds their keys to it.
    /// Returns false if the writer interfered too often.
    fn copy_by_attempts(
        &self,
        number: u64,
        now_s: u32,
        copied: &mut Vec<Vec<u8>>,
        take: &mut impl FnMut(&Copied),
    ) -> bool {
        for attempt in 0..COPY_ATTEMPTS_MAX {
            if attempt > 0 {
                self.read_retries.fetch_add(1, Relaxed);
                spin_loop();
                if attempt % 8 == 0 {
                    yield_now(); // the writer may be descheduled
                }
            }
            if self.copy_chain(number, now_s, copied, take) {
                return true;
            }
        }
        false
    }

    /// Tries once to copy. Returns whether there was a moment at which all items of the bucket were
    /// copied.
    pub(crate) fn copy_chain(
        &self,
        number: u64,
        now_s: u32,
        copied: &mut Vec<Vec<u8>>,
        take: &mut impl FnMut(&Copied),
    ) -> bool {
        let main = self.main_bucket(number);
        let Some(version) = main.version_stable() else {
            return false;
        };
        let known = copied.len();
        let copy = |place| {
            let item = self.copy_item(&place, now_s, &copied[..known]);
            if !main.version_is_still(version) {
                return ControlFlow::Break(());
            }
            // The fence of the version check orders the copy before the load of the head.
            if let Some(item) = item.filter(|_| self.is_live(&place)) {
                take(&item);
                copied.push(item.key);
            }
            ControlFlow::Continue(())
        };
        self.visit_places(main, copy).is_continue() && main.version_is_still(version)
    }

    /// Returns the item at a place, as far as its words are valid. Returns `None` if they form no
    /// item, if it has ended, or if its key is in `copied`. A killed process left an item that is
    /// busy while its bucket does not change.
    fn copy_item(&self, place: &Place, now_s: u32, copied: &[Vec<u8>]) -> Option<Copied> {
        let header = self.whole_header(place.position)?;
        let mut key = [0; KEY_BYTES_MAX];
        let item = self.info(place, header, &mut key);
        if copied.iter().any(|key| key == item.key)
            || item.expiry.has_passed(now_s)
            || self.is_invalid(item.key, place, header)
        {
            return None;
        }
        let mut value = vec![0; item.value_bytes];
        let key_byte = (place.position + header.key_word()) * 8;
        self.region.copy_out(key_byte + item.key.len(), &mut value);
        Some(Copied {
            key: item.key.to_vec(),
            value,
            flags: item.flags,
            expiry: item.expiry,
            state: header.has_state().then(|| self.state_at(place.position, header)),
            cas: self.cas_to_keep(place, header),
            cas_given: header.cas_given(),
            fetched: item.fetched,
        })
    }
}

/// Returns the keys of a bucket that are not in `copied`.
fn keys_except(writer: &Writer<'_>, number: u64, copied: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let p = writer.partition;
    let mut keys = Vec::new();
    for entry in p.chain(p.main_bucket(number)).flat_map(Bucket::entries).map(Entry) {
        let Some(place) = p.place_of_item(entry) else {
            continue;
        };
        let mut buffer = [0; KEY_BYTES_MAX];
        let key = p.key_at(place.position, &mut buffer);
        if !copied.iter().any(|copied| copied == key) {
            keys.push(key.to_vec());
        }
    }
    keys
}

/// Returns the item of a key, at its present place.
fn copy_of_key(writer: &Writer<'_>, hash: micanite_wire::hash::KeyHash, key: &[u8]) -> Option<Copied> {
    let found = writer.lookup(writer.partition.index_hash(hash), key)?;
    writer.partition.copy_item(&found.place, writer.now_s, &[])
}
