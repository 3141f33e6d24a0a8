//! What a reader outside of the engine needs: one that maps the same memory and follows "Reading
//! beside the writer" of `docs/partition-image.md`, such as a program in the kernel.

use micanite_wire::hash::KeyHash;

use crate::cache::Cache;
use crate::index::hash::Secret;

/// What such a reader has to know of an image and cannot read there, or need not, because it does
/// not change while the cache is open. The same in all partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Partitions, a power of two.
    pub partitions: usize,
    /// Its logarithm: the bits at the top of a key's hash that choose one.
    pub partition_bits: u32,
    /// Bytes of a partition; buckets are counted from this end of it.
    pub partition_bytes: usize,
    /// Seed of the key hash.
    pub seed: u64,
    /// What the index mixes into a key's hash ([`crate::IndexHash`]). For nobody but such a reader.
    pub secret: Secret,
    /// Whether it is a store: entries hold words of the region, items their stamps.
    pub is_store: bool,
    /// Main buckets at first.
    pub buckets_first: u64,
    /// One spare bucket comes with this many main ones.
    pub main_per_spare: u64,
    /// Width of the offsets in entries.
    pub offset_bits: u32,
    /// The first word that an item can begin at.
    pub data_first_word: usize,
    /// The most units of 8 bytes that an item is made with; its space may have 16 more.
    pub item_units_max: u64,
    /// The requests that an item counts: 0 = the policy does not count any.
    pub frequency_max: u64,
    /// An item is due to move when it is requested at least this share of the main log's limit
    /// behind the main log's tail: `tail - offset >= limit / 100 * due_percent`. `None`: never.
    pub due_percent: Option<u64>,
    /// What ends the namespace at the start of a key. `None`: there are no namespaces.
    pub namespace_delimiter: Option<u8>,
}

impl Cache {
    /// What a reader outside of the engine has to know.
    pub fn geometry(&self) -> Geometry {
        let of = &self.partitions[0].layout;
        let due_percent = of.policy.reinsert_percent;
        Geometry {
            partitions: self.partitions.len(),
            partition_bits: self.partition_bits,
            partition_bytes: of.region_words as usize * 8,
            seed: of.seed,
            secret: of.secret,
            is_store: self.partitions[0].is_store(),
            buckets_first: of.buckets,
            main_per_spare: of.main_per_spare(),
            offset_bits: of.offset_bits,
            data_first_word: of.data_first(),
            item_units_max: of.item_units_max,
            frequency_max: of.policy.frequency_max,
            due_percent: Some(due_percent).filter(|percent| *percent <= 100),
            namespace_delimiter: of.namespace_delimiter,
        }
    }

    /// Notes that a reader outside of the engine has served a key, and that the item wants to know:
    /// it was never fetched, has not counted as many requests as it can, is due to move, or follows
    /// its accesses in another second than this one. From any thread; lossy, and cheap. It counts
    /// when the owner of the partition comes by ([`crate::Worker::maintain`]).
    #[inline]
    pub fn note_request(&self, hash: KeyHash) {
        let partition = self.partition(hash);
        partition.samples.note(partition.index_hash(hash));
    }
}
