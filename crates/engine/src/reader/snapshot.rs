//! A copy of the cache as an image, made while it serves: no fork, and writers do not wait.
//!
//! Every bucket is read concurrently with its writer (`copy.rs`), and its items are stored in a
//! new image. Each item of the copy is the item that its key had at some moment between begin and
//! end of the copy. No key is missing because it moved: a split moves it to a later bucket, and the
//! index of a partition does not shrink while the copy is there. CAS values that clients know stay, and those
//! of later items are new ones.

use std::io;
use std::path::Path;

use crate::cache::Cache;
use crate::cache::config::Config;
use crate::cache::error::CreateErrorKind;
use crate::image::{self, Source, numbers};
use crate::index::hash::IndexHash;
use crate::operations::request::Outcome;
use crate::partition::{Partition, Semantics};
use crate::reader::copy::Copied;
use crate::region::Field;
use crate::writer::{NewItem, Writer};
use micanite_wire::hash::KeyHash;

/// Contents of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Items copied.
    pub items: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Items of a cache that the copy had no room for, because it divides its space differently.
    pub left_out: u64,
}

impl Cache {
    /// Copies all items into a new image in `directory`, which must not hold one, while requests
    /// run. For any thread that is not a worker.
    ///
    /// # Errors
    /// `AlreadyExists` if there is an image; errors of the file system; a full store was written meanwhile,
    /// and not all of it has room. Then there is no copy.
    pub fn snapshot(&self, directory: &Path, now_s: u32) -> io::Result<Snapshot> {
        self.without_write_back(now_s, || self.snapshot_of_data(directory, now_s))
    }

    fn snapshot_of_data(&self, directory: &Path, now_s: u32) -> io::Result<Snapshot> {
        let config = Config {
            seed: self.seed(),
            image: Some(directory.to_owned()),
            maps: None,
            nodes: None,
            // All items have room, whatever the limit was at the start.
            memory_bytes: self
                .memory_limit_bytes()
                .max(self.memory_used_bytes())
                .min(self.memory_bytes_max()),
            ..self.config().clone()
        };
        let refused = |error: crate::CreateError| {
            let kind = match error.kind() {
                CreateErrorKind::Exists => io::ErrorKind::AlreadyExists,
                CreateErrorKind::NoSpace => io::ErrorKind::StorageFull,
                _ => io::ErrorKind::Other,
            };
            io::Error::new(kind, error.to_string())
        };
        let source = Source::directory(directory).map_err(refused)?;
        // The same partitions: what one of them holds has room in its copy.
        let copy = image::create_new(&config, self.layout(), &source).map_err(refused)?;
        let copies: Box<[Partition]> = copy.partitions.into();
        numbers::go_on(&self.partitions, &copies, numbers::AHEAD_OF_WRITES);
        let bits = copies.len().ilog2();
        let mut snapshot = Snapshot::default();
        let mut put = |item: &Copied| {
            let hash = KeyHash::of(&item.key, config.seed);
            let target = copies[hash.partition(bits)].writer(now_s);
            let hash = target.partition.index_hash(hash);
            store(&target, hash, item, &mut snapshot);
        };
        for (partition, of) in self.partitions.iter().enumerate() {
            let _walking = of.walkers.enter();
            let mut number = 0;
            // The index may grow meanwhile: at its end, which comes later.
            while number < of.buckets() {
                self.copy_bucket(partition, number, now_s, &mut put);
                number += 1;
            }
        }
        if config.semantics == Semantics::Store && snapshot.left_out > 0 {
            source.remove(copies.len());
            let text = format!(
                "{} items found no room in the copy, which was removed. Writes had filled the store \
                 meanwhile: give it more memory, or try again when there are fewer",
                snapshot.left_out
            );
            return Err(io::Error::other(text));
        }
        copies[0].set(Field::FlushDue, self.flush_due_s().into());
        image::close(&copies).inspect_err(|_| source.remove(copies.len()))?;
        Ok(snapshot)
    }
}

fn store(target: &Writer<'_>, hash: IndexHash, item: &Copied, snapshot: &mut Snapshot) {
    let (key, value) = (item.key.as_slice(), item.value.as_slice());
    let new = NewItem {
        state: item.state,
        cas: item.cas,
        gives_cas: item.cas_given,
        fetched: item.fetched,
        ..NewItem::of(key, value, (item.flags, item.expiry))
    };
    let found = target.find(hash, key);
    if target.insert_counted(hash, &new, found.as_ref()) == Outcome::Stored {
        snapshot.items += u64::from(found.is_none());
        snapshot.bytes += (key.len() + value.len()) as u64;
    } else {
        snapshot.left_out += 1;
    }
}
