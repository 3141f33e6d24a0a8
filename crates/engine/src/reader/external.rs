//! Support for a reader outside of the engine, such as a program in the kernel: it maps the same
//! memory and follows "Reading beside the writer" of `docs/partition-image.md`.

use micanite_wire::hash::KeyHash;

use crate::cache::Cache;
use crate::index::hash::Secret;

/// Constants that such a reader needs and cannot, or need not, read in an image: they do not change
/// while the cache is open. All partitions have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Partitions, a power of two.
    pub partitions: usize,
    /// Logarithm of `partitions`: the number of bits at the top of a key's hash that choose one.
    pub partition_bits: u32,
    /// Bytes of a partition; buckets are counted from its end.
    pub partition_bytes: usize,
    /// Seed of the key hash.
    pub seed: u64,
    /// Secret that the index mixes into a key's hash ([`crate::IndexHash`]). Give it to no other
    /// reader.
    pub secret: Secret,
    /// True for a store: entries hold words of the region, items hold their stamps.
    pub is_store: bool,
    /// Initial number of main buckets.
    pub buckets_first: u64,
    /// Number of main buckets for each spare one.
    pub main_per_spare: u64,
    /// Width of the offsets in entries.
    pub offset_bits: u32,
    /// First word at which an item can begin.
    pub data_first_word: usize,
    /// Units of 8 bytes of the largest item; its space may have 16 more.
    pub item_units_max: u64,
    /// Largest request count of an item: 0 = the policy does not count requests.
    pub frequency_max: u64,
    /// Distance at which a requested item is due to move, as a share of the main log's limit: `tail
    /// - offset >= limit / 100 * due_percent`. `None`: never.
    pub due_percent: Option<u64>,
    /// Delimiter that ends the namespace at the start of a key. `None`: there are no namespaces.
    pub namespace_delimiter: Option<u8>,
}

impl Cache {
    /// Returns the constants for a reader outside of the engine.
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

    /// Records that a reader outside of the engine has served a key, and that the item needs an
    /// update: it was never fetched, its request count is below the maximum, it is due to move, or
    /// it records accesses and the last one was in another second. Any thread may call this; it is
    /// cheap and may lose records. The owner of the partition applies them later
    /// ([`crate::Worker::maintain`]).
    #[inline]
    pub fn note_request(&self, hash: KeyHash) {
        let partition = self.partition(hash);
        partition.samples.note(partition.index_hash(hash));
    }
}
