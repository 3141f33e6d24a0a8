//! Images of a partition in memory: copied, recorded, checked, used.

use std::collections::BTreeMap;
use std::sync::Arc;

use micanite_memory::sync::Ordering::Relaxed;

use crate::index::bucket::Bucket;
use crate::index::entry::Entry;
use crate::partition::Partition;
use crate::region::{Field, Region};
use crate::tests::support::*;
use crate::*;

/// All facts about an item, except how often and when it was requested, which are hints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub value: Vec<u8>,
    flags: u32,
    expiry: Expiry,
    cas: u64,
    stale: bool,
    token_sent: bool,
}

/// Contents of a partition.
pub(super) type Seen = BTreeMap<Vec<u8>, Item>;

/// Copies a partition byte for byte.
pub(super) fn copy(partition: &Partition) -> Partition {
    let region = Region::private(partition.region.words() * 8).unwrap();
    for word in 0..partition.region.words() {
        let value = partition.word(word).load(Relaxed);
        if value != 0 {
            region.word(word).store(value, Relaxed);
        }
    }
    Partition::of(region, partition.layout)
}

/// Returns the words of a partition, except for the order of its free spare buckets.
pub(super) fn words(partition: &Partition) -> Vec<u64> {
    let word = |word| partition.word(word).load(Relaxed);
    let mut words: Vec<u64> = (0..partition.region.words()).map(word).collect();
    for number in free_spares(partition) {
        // The links to the next one and the previous one.
        let spare = partition.spare_bucket(number);
        words[spare.first_word] = 0;
        words[spare.slot_word(0)] = 0;
    }
    words[Field::SpareFree as usize] = 0;
    words
}

fn free_spares(partition: &Partition) -> impl Iterator<Item = u64> {
    let first = partition.get(Field::SpareFree).checked_sub(1);
    std::iter::successors(first, |number| partition.spare_bucket(*number).next_spare())
}

/// Requests every key, and leaves the partition in a cache of its own.
pub(super) fn observe(
    setup: &Setup,
    partition: Partition,
    keys: &[Vec<u8>],
    now_s: u32,
) -> (Seen, Arc<Cache>) {
    let sizes = Layout {
        partitions: 1,
        partition_bytes: partition.region.words() * 8,
        value_bytes_max: setup.value_bytes_max,
    };
    let cache = Arc::new(Cache::of([partition].into(), sizes, &setup.config()));
    let mut client = Client::new(&cache, 0);
    client.now_s = now_s;
    let get = MetaGet {
        value: true,
        // Asking for it changes an item of a cache.
        cas: setup.semantics == Semantics::Store,
        uncounted: true,
        leaves_token: true,
        ..MetaGet::default()
    };
    let mut seen = Seen::new();
    for key in keys {
        let Reply { outcome, value, item, .. } = client.ask(key, Operation::MetaGet(get));
        if outcome == Some(Outcome::Hit) {
            let ItemMeta { flags, expiry, cas, stale, token_sent, .. } = item;
            seen.insert(key.clone(), Item { value, flags, expiry, cas, stale, token_sent });
        }
    }
    drop(client);
    (seen, cache)
}

/// Checks that the counters of a recovered partition match its contents.
pub(super) fn check_accounts(partition: &Partition) {
    let (mut items, mut units, mut all_units, mut spares) = (0, 0, 0, 0);
    for number in 0..partition.buckets() {
        let main = partition.main_bucket(number);
        assert!(!main.is_being_written(), "the version of bucket {number}");
        spares += partition.chain(main).skip(1).count() as u64;
        for entry in partition.chain(main).flat_map(Bucket::entries).map(Entry) {
            let Some(place) = partition.place(entry) else {
                continue;
            };
            let header = partition.header(place.position);
            assert!(!header.is_busy() && !header.is_dead());
            all_units += header.units();
            if !partition.is_flushed_from_store(place.position, header) {
                items += 1;
                units += header.units();
            }
        }
    }
    assert_eq!(partition.get(Field::SparesUsed), spares, "spare buckets");
    let of_all = partition.layout.spares(partition.buckets());
    assert_eq!(free_spares(partition).count() as u64 + spares, of_all, "free spare buckets");
    let counted = [Field::ItemsLive, Field::UnitsLive].map(|field| partition.get(field));
    if partition.is_store() {
        assert_eq!(counted, [items, units], "items");
        let heap = partition.heap();
        heap.check();
        let space = heap.end() - 1 - partition.layout.heap_first();
        assert_eq!(heap.units_free() + all_units as usize, space, "the heap");
    } else {
        // Items that no entry leads to leave at the head.
        assert!(counted[0] >= items && counted[1] >= units, "items");
    }
}

/// Continues with a recovered partition: removes all, which leaves nothing, and stores anew.
pub(super) fn check_continues(setup: &Setup, cache: &Arc<Cache>, keys: &[Vec<u8>], now_s: u32) {
    // The worker that has read returned its handle.
    let mut client = Client::new(cache, 0);
    client.now_s = now_s;
    for key in keys {
        client.outcome(key, Operation::Delete);
    }
    let partition = &cache.partitions[0];
    if setup.semantics == Semantics::Store {
        for _ in 0..3 {
            client.worker.maintain(now_s); // what was flushed leaves by the sweep
        }
        assert_eq!(cache.items_in_index(), 0);
        for field in [Field::ItemsLive, Field::UnitsLive, Field::SparesUsed] {
            assert_eq!(partition.get(field), 0, "{field:?}");
        }
        let heap = partition.heap();
        let space = heap.end() - 1 - partition.layout.heap_first();
        assert_eq!(heap.units_largest(), space, "one free block");
    }
    for key in keys.iter().take(4) {
        let outcome = client.set(key, b"anew");
        assert_eq!(outcome, Outcome::Stored);
        assert_eq!(client.get(key).as_deref(), Some(&b"anew"[..]));
    }
    client.worker.maintain(now_s);
    for counted in [Field::ItemsLive, Field::UnitsLive, Field::UnitsLeftEarly] {
        let most = partition.layout.region_words;
        assert!(partition.get(counted) <= most, "{counted:?} wrapped");
    }
}
