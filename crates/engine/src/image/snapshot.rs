//! A copy of the cache as an image, made while it serves: no fork, and writers do not wait.
//!
//! Every bucket is read optimistically, like any reader's, its items copied and stored in a new
//! image. Each item of the copy is what its key had at some moment between begin and end of the
//! copy; keys are never missing because they move, for a split moves them to a bucket that is
//! still to come.

use std::io;
use std::path::Path;

use micanite_memory::sync::{spin_loop, yield_now};

use crate::cache::Cache;
use crate::config::Config;
use crate::image::{self, ImageState, Source, source};
use crate::index::entry::Entry;
use crate::limits::KEY_BYTES_MAX;
use crate::log::item::{State, unpack_meta};
use crate::partition::Partition;
use crate::request::{Expiry, Outcome};
use crate::writer::{NewItem, Writer};
use micanite_memory::sync::Ordering::Relaxed;
use micanite_wire::hash::KeyHash;

/// What a snapshot holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Items copied.
    pub items: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Items that the copy had no room for, as its index or space is split up otherwise.
    pub left_out: u64,
}

/// An item as it was read.
struct Copied {
    key: Vec<u8>,
    value: Vec<u8>,
    flags: u32,
    expiry: Expiry,
    state: Option<State>,
    fetched: bool,
}

impl Cache {
    /// Copies everything that is stored into a new image in `directory`, which must not hold one,
    /// while requests run. From any thread that is not a worker.
    ///
    /// # Errors
    /// `AlreadyExists` if there is an image; what the file system says.
    pub fn snapshot(&self, directory: &Path, now_s: u32) -> io::Result<Snapshot> {
        let config = Config {
            seed: self.seed(),
            image: Some(directory.to_owned()),
            maps: None,
            ..self.config().clone()
        };
        let other = |error: crate::CreateError| io::Error::other(error.to_string());
        if directory.join(source::file_name(0)).exists() {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!("there is an image in {} already", directory.display()),
            ));
        }
        let copy = image::open(&config, &Source::Directory(directory)).map_err(other)?;
        debug_assert_eq!(copy.state, ImageState::Created);
        let copies: Box<[Partition]> = copy.partitions.into();
        let bits = copies.len().ilog2();
        let mut snapshot = Snapshot::default();
        for partition in &self.partitions {
            let mut number = 0;
            // The index may grow meanwhile: at its end, which is still to come.
            while number < partition.buckets() {
                for item in partition.copy_bucket(number, now_s) {
                    let hash = KeyHash::of(&item.key, config.seed);
                    let target = copies[hash.partition(bits)].writer(now_s);
                    let (key, value) = (item.key.as_slice(), item.value.as_slice());
                    store(&target, hash, (key, value), &item, &mut snapshot);
                }
                number += 1;
            }
        }
        copies.iter().try_for_each(Partition::close)?;
        Ok(snapshot)
    }
}

fn store(
    target: &Writer<'_>,
    hash: KeyHash,
    (key, value): (&[u8], &[u8]),
    item: &Copied,
    snapshot: &mut Snapshot,
) {
    let new = NewItem {
        state: item.state,
        gives_cas: item.state.is_some_and(|state| state.cas != 0),
        fetched: item.fetched,
        ..NewItem::of(key, value, (item.flags, item.expiry))
    };
    let found = target.find(hash, key);
    if target.append_new(hash, &new, found.as_ref()) == Outcome::Stored {
        snapshot.items += u64::from(found.is_none());
        snapshot.bytes += (key.len() + value.len()) as u64;
    } else {
        snapshot.left_out += 1;
    }
}

impl Partition {
    /// The items of a bucket, all of the same moment.
    fn copy_bucket(&self, number: u64, now_s: u32) -> Vec<Copied> {
        let bucket = self.main_bucket(number);
        let mut attempts = 0;
        loop {
            if let Some(version) = bucket.version_stable() {
                let items = self.read_chain(number, now_s);
                if bucket.version_is_still(version)
                    && let Some(items) = items
                {
                    return items;
                }
            }
            attempts += 1;
            if attempts % 100 == 0 {
                yield_now();
            }
            spin_loop();
        }
    }

    /// The items of a bucket, as far as its words can be trusted; `None` if they cannot.
    fn read_chain(&self, number: u64, now_s: u32) -> Option<Vec<Copied>> {
        let mut items = Vec::new();
        let mut places = Vec::new();
        let mut bucket = self.main_bucket(number);
        let spares = self.layout.spares(self.buckets());
        for _ in 0..=spares {
            for entry in bucket.entries().map(Entry) {
                if let Some(place) = self.place(entry)
                    && let Some(item) = self.copy_item(place.position, now_s)?
                    && !self.is_invalid(&item.key, &place, self.header(place.position))
                {
                    items.push(item);
                    places.push(place);
                }
            }
            match bucket.next_spare() {
                Some(spare) if spare < spares => bucket = self.spare_bucket(spare),
                _ => break,
            }
        }
        // What the head has passed meanwhile may be torn: it is not in the cache any more.
        let mut live = places.iter().map(|place| self.is_live(place));
        items.retain(|_| live.next() == Some(true));
        Some(items)
    }

    /// `None` if the words make no item; `Some(None)` if it has expired.
    fn copy_item(&self, position: usize, now_s: u32) -> Option<Option<Copied>> {
        if position >= self.region.words() {
            return None;
        }
        let header = self.header(position);
        let value_bytes = header.value_bytes()?;
        if position + header.units() as usize > self.region.words()
            || header.units() > self.layout.item_units_max + 16
            || header.key_bytes() > KEY_BYTES_MAX
            || header.is_busy()
        {
            return None;
        }
        let meta = if header.has_meta() {
            self.word(position + 1).load(Relaxed)
        } else {
            0
        };
        let (expiry_s, flags) = unpack_meta(meta);
        if Expiry(expiry_s).has_passed(now_s) {
            return Some(None);
        }
        let mut copied = Copied {
            key: vec![0; header.key_bytes()],
            value: vec![0; value_bytes],
            flags,
            expiry: Expiry(expiry_s),
            state: header.has_state().then(|| self.state_at(position, header)),
            fetched: header.is_fetched(),
        };
        let key_at = (position + header.key_word()) * 8;
        self.region.copy_out(key_at, &mut copied.key);
        self.region
            .copy_out(key_at + header.key_bytes(), &mut copied.value);
        Some(Some(copied))
    }
}
