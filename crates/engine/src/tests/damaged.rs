//! Images that a disk, a copy or a person has changed.

use std::cell::RefCell;
use std::sync::Arc;

use micanite_memory::sync::Ordering::Relaxed;

use super::support::*;
use crate::image::marks::synced;
use crate::limits::{BUCKET_ENTRIES, CHAIN_BUCKETS_MAX};
use crate::region::Field;
use crate::*;

/// Opens an image of 400 items with one word changed, and returns the result.
fn opened(setup: &Setup, clean: bool, change: impl Fn(&Cache)) -> Result<Arc<Cache>, String> {
    let cache = setup.cache();
    let mut client = Client::new(&cache, 0);
    for number in 0..400u64 {
        client.set(&number.to_le_bytes(), b"value");
    }
    drop(client);
    if clean {
        crate::image::close(&cache.partitions).unwrap();
    }
    change(&cache);
    let before = bytes(&cache);
    let maps = cache.config().maps.clone().unwrap();
    let opened = setup.try_cache_in(Some(Maps { kept: true, ..maps }));
    assert!(opened.is_ok() || bytes(&cache) == before, "a refused image was written to");
    opened
}

fn bytes(cache: &Cache) -> Vec<u64> {
    synced::words(&cache.partitions[0])
}

fn setups() -> impl Iterator<Item = (Setup, bool)> {
    [Semantics::Cache, Semantics::Store]
        .into_iter()
        .flat_map(|semantics| [(semantics, false), (semantics, true)])
        .map(|(semantics, clean)| {
            let setup = Setup {
                maps: true,
                semantics,
                buckets: 2,
                data_units: 4096,
                grows: true,
                ..Setup::default()
            };
            (setup, clean)
        })
}

fn set(word: usize, change: impl Fn(u64) -> u64) -> impl Fn(&Cache) {
    move |cache| {
        let word = cache.partitions[0].word(word);
        word.store(change(word.load(Relaxed)), Relaxed);
    }
}

/// Proves that an error names a corrupt word of the header. Such words once aborted the process or
/// kept it forever.
#[test]
fn a_corrupt_header_is_refused_with_the_word() {
    let level = |word: u64| word ^ 200 << 56;
    for (setup, clean) in setups() {
        let refused = |what: &str, change: &dyn Fn(&Cache)| {
            let reason = opened(&setup, clean, change).map(drop).unwrap_err();
            let place = format!("{:?} clean={clean}", setup.semantics);
            assert!(reason.contains(what), "{place}: {reason}, not {what}");
        };
        refused("Buckets", &set(Field::Buckets as usize, level));
        let first = Field::BucketsFirst as usize;
        refused("buckets at first", &set(first, |_| 0));
        refused("buckets at first", &set(first, |_| 1 << 30));
        refused("DataEnd", &set(Field::DataEnd as usize, |_| 1 << 40));
        refused("SmallGap", &set(Field::SmallGap as usize, |_| 1 << 40));
        refused("MainGap", &set(Field::MainGap as usize, |_| 1 << 40));
        refused("ScanBucket", &set(Field::ScanBucket as usize, |_| 1 << 40));
        refused("ItemsLive", &set(Field::ItemsLive as usize, |_| u64::MAX));
        refused("LayoutVersion", &set(Field::LayoutVersion as usize, |_| 1));
        refused("namespaces", &|cache| {
            set(64, |_| 7)(cache); // a name
            set(65, |_| 1 << 50)(cache); // of a time to come
        });
        if setup.semantics == Semantics::Cache {
            refused("main log's First", &set(28, |first| first ^ 1 << 60));
            refused("main log's Head", &set(25, |_| 0));
            if clean {
                // A killed process may have been making them shorter.
                refused("main log's Limit", &set(29, |limit| limit / 2));
                refused("small log's Limit", &set(21, |limit| limit / 2));
            }
            refused("main log's Tail", &set(24, |_| u64::MAX));
            refused("main log's Limit", &set(29, |_| 1 << 50));
            refused("ScanTail", &set(Field::ScanTail as usize, |_| 1 << 50));
        }
    }
}

/// Proves that a chain that leads back to itself is refused. It once kept every reader forever.
#[test]
fn a_chain_that_does_not_end_is_refused() {
    for (setup, clean) in setups() {
        let circle = |cache: &Cache| {
            let p = &cache.partitions[0];
            let main = (0..p.buckets()).map(|number| p.main_bucket(number));
            let spare = main.filter_map(|bucket| bucket.next_spare()).next();
            let spare = spare.expect("a chain of two buckets");
            p.spare_bucket(spare).set_next_spare(Some(spare));
        };
        let beyond = |cache: &Cache| {
            cache.partitions[0].main_bucket(0).set_next_spare(Some(1 << 30));
        };
        let reason = |change: &dyn Fn(&Cache)| opened(&setup, clean, change).map(drop).unwrap_err();
        assert!(reason(&circle).contains("chained twice"));
        assert!(reason(&beyond).contains("no spare bucket"));
    }
}

/// Proves that a store does not open without items that it once acknowledged: entries that dangle,
/// and broken lists of free blocks, are refused.
#[test]
fn a_store_with_a_broken_entry_or_heap_is_refused() {
    let setup = Setup { maps: true, semantics: Semantics::Store, ..Setup::default() };
    let entry = |cache: &Cache| {
        let p = &cache.partitions[0];
        let slots = (0..p.buckets()).map(|number| p.main_bucket(number).slot_word(0));
        let mut slots = slots.filter(|slot| p.word(*slot).load(Relaxed) != 0);
        let word = p.word(slots.next().unwrap());
        word.store(word.load(Relaxed) | ((1 << 44) - 1), Relaxed);
    };
    for clean in [false, true] {
        let reason = opened(&setup, clean, entry).map(drop).unwrap_err();
        assert!(reason.contains("leads nowhere"), "{reason}");
    }
    // The end, the first word, the free units, the top of the bitmap.
    for word in [0, 1, 2, 4] {
        let broken = set(crate::limits::IMAGE_HEADER_WORDS + word, |word| word ^ 1 << 3);
        let reason = opened(&setup, true, &broken).map(drop).unwrap_err();
        assert!(reason.contains("heap"), "{reason}");
        // A store that was not closed is made anew from the items.
        let cache = opened(&setup, false, &broken).unwrap();
        let mut client = Client::new(&cache, 0);
        assert!((0..40u64).all(|number| client.get(&number.to_le_bytes()).is_some()));
    }
}

/// Proves that seed, secret and first number of buckets are checked in an image of one partition.
/// They once were not: then no item was found any more.
#[test]
fn an_image_with_items_in_wrong_buckets_is_refused() {
    for (setup, clean) in setups() {
        let setup = Setup { buckets: 64, ..setup };
        for field in [Field::Seed, Field::SecretLow, Field::SecretHigh] {
            for bit in [0, 63] {
                let flipped = set(field as usize, |word| word ^ 1 << bit);
                let reason = opened(&setup, clean, flipped).map(drop).unwrap_err();
                assert!(reason.contains("where their keys belong"), "{reason}");
            }
        }
        let fewer = set(Field::BucketsFirst as usize, |first| first - 1);
        assert!(opened(&setup, clean, fewer).is_err());
    }
}

/// Merges and splits of a store rely on the spare buckets that are in no chain.
#[test]
fn a_closed_image_that_lacks_spare_buckets_is_refused() {
    for semantics in [Semantics::Cache, Semantics::Store] {
        let setup = Setup { maps: true, semantics, buckets: 256, ..Setup::default() };
        let none = set(Field::SpareFree as usize, |_| 0);
        let reason = opened(&setup, true, none).map(drop).unwrap_err();
        assert!(reason.contains("neither free nor in a chain"), "{reason}");
    }
}

/// Proves that an entry frees nothing that leads into a live item, to bytes that look like an
/// expired item. It once freed that part of the item, and other values were served in its place.
#[test]
fn an_entry_into_the_middle_of_an_item_frees_nothing() {
    let setup = Setup { maps: true, semantics: Semantics::Store, ..Setup::default() };
    let cache = setup.cache();
    let mut client = Client::new(&cache, 0);
    // A header with flags and expiry, the expiry, and no key: six words, over and over.
    let shape =
        crate::log::item::Shape { key_bytes: 8, value_bytes: 16, meta: true, state: false, cas: true };
    let looks = [shape.header_in(6).unwrap().0, 1, 1, 1, 1, 1];
    let words = looks.into_iter().cycle().take(36);
    let value: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    assert_eq!(client.set(b"8 bytes!", &value), Outcome::Stored);
    assert_eq!(client.set(b"another", b"value"), Outcome::Stored);
    let expiring = store(Condition::Always, b"value", 0, 5000);
    assert_eq!(client.outcome(b"expiring", expiring), Outcome::Stored);
    for number in 0..100u64 {
        client.set(&number.to_le_bytes(), b"value");
    }
    drop(client);
    crate::image::close(&cache.partitions).unwrap();
    let p = &cache.partitions[0];
    let writer = p.writer(1000);
    let found = |key: &[u8]| writer.lookup(writer.partition.hash_of(key), key).unwrap();
    let (whole, other) = (found(b"8 bytes!"), found(b"another"));
    drop(writer);
    let middle = whole.value_at() as u64 / 8;
    let entry = p.word(other.slot);
    entry.store(entry.load(Relaxed) & !p.offset_mask | middle, Relaxed);
    let maps = cache.config().maps.clone().unwrap();
    let cache = setup.cache_in(Some(Maps { kept: true, ..maps }));
    let mut client = Client::new(&cache, 0);
    client.worker.maintain(1000);
    for number in 100..300u64 {
        client.set(&number.to_le_bytes(), &[b'x'; 16]);
    }
    assert_eq!(client.get(b"8 bytes!"), Some(value));
}

/// Proves that each flipped bit of the bitmap of a closed store is found. One of the middle level
/// that marked no leaf once kept the first worker that found no block forever.
#[test]
fn a_closed_store_with_a_flipped_bit_of_the_bitmap_is_refused() {
    let setup = Setup { maps: true, semantics: Semantics::Store, ..Setup::default() };
    let state = crate::limits::IMAGE_HEADER_WORDS;
    // The top, the middle, the first leaf.
    for (word, bit) in (4..7).flat_map(|word| (0..64).map(move |bit| (word, bit))) {
        let flipped = set(state + word, |word| word ^ 1 << bit);
        let reason = opened(&setup, true, flipped).map(drop).unwrap_err();
        assert!(reason.contains("the heap"), "{word} {bit}: {reason}");
    }
}

/// Proves that an allocation ends, whatever the levels of the bitmap contain.
#[test]
fn an_allocation_ends_although_a_bitmap_marks_no_leaf() {
    let setup = Setup {
        semantics: Semantics::Store,
        data_units: 2600, // full before the index is
        ..Setup::default()
    };
    for bit in 0..64 {
        let cache = setup.cache();
        set(crate::limits::IMAGE_HEADER_WORDS + 5, |word| word | 1 << bit)(&cache);
        within(60, move || {
            let mut client = Client::new(&cache, 0);
            let full = (0..100u64)
                .any(|number| client.set(&number.to_le_bytes(), &[b'x'; 300]) == Outcome::OutOfMemory);
            assert!(full);
        });
    }
}

/// Proves that a log skips the rest of a lap at a header that does not tell where the next item
/// begins, and that later items stay. Such a header once aborted the process.
#[test]
fn a_log_with_broken_headers_skips_a_lap() {
    let setup = Setup { maps: true, data_units: 4096, ..Setup::default() };
    for clean in [false, true] {
        let cache = opened(&setup, clean, |cache| {
            let p = &cache.partitions[0];
            let first = p.layout.data_first();
            let end = p.get(Field::DataEnd) as usize;
            (first..end).for_each(|word| p.word(word).store(0, Relaxed));
        });
        let cache = cache.unwrap();
        let mut client = Client::new(&cache, 0);
        for number in 0..40u64 {
            assert_eq!(client.get(&number.to_le_bytes()), None);
        }
        for number in 0..2000u64 {
            assert_eq!(client.set(&number.to_le_bytes(), b"new value"), Outcome::Stored);
            let value = client.get(&number.to_le_bytes());
            assert_eq!(value.as_deref(), Some(b"new value".as_slice()));
        }
        let stats = cache.stats();
        assert_eq!(stats.items_live, cache.items_in_index());
        assert!(stats.early_bytes < stats.data_bytes);
    }
}

/// Proves that an image is refused whose chains are longer than a lookup follows, or have more
/// items of one tag than it compares: no writer makes them. A store that was not closed was once
/// repaired in part before that was found.
#[test]
fn an_image_with_a_chain_beyond_the_bounds_is_refused() {
    for semantics in [Semantics::Cache, Semantics::Store] {
        let setup = Setup { maps: true, semantics, buckets: 1024, data_units: 1 << 14, ..Setup::default() };
        let long = |cache: &Cache| {
            let p = &cache.partitions[0];
            let mut bucket = p.main_bucket(77);
            for spare in 0..CHAIN_BUCKETS_MAX as u64 {
                bucket.set_next_spare(Some(spare));
                bucket = p.spare_bucket(spare);
                bucket.clear();
                bucket.set_next_spare(None);
            }
        };
        for clean in [true, false] {
            let opened = opened(&setup, clean, long);
            if semantics == Semantics::Store || clean {
                let reason = opened.map(drop).unwrap_err();
                assert!(reason.contains("its chain has 11 buckets"), "{reason}");
            } else {
                let cache = opened.unwrap();
                let p = &cache.partitions[0];
                assert!(p.chain(p.main_bucket(77)).count() <= CHAIN_BUCKETS_MAX, "it was not cut");
            }
        }
    }
    let setup = Setup { maps: true, semantics: Semantics::Store, ..Setup::default() };
    let same = |cache: &Cache| {
        let p = &cache.partitions[0];
        let mut main = (0..p.buckets()).map(|number| p.main_bucket(number));
        let bucket = main.find(|bucket| bucket.entry(0).0 != 0).unwrap();
        for slot in 1..BUCKET_ENTRIES {
            let word = p.word(bucket.slot_word(slot));
            word.store(bucket.entry(0).0, Relaxed);
        }
    };
    let reason = opened(&setup, true, same).map(drop).unwrap_err();
    assert!(reason.contains("more than 6 items of the tag"), "{reason}");
}

/// Proves that the mark of an image is cleared on the disk before any other change. After a loss of
/// power a torn image could once be used.
#[test]
fn an_image_is_marked_open_on_the_disk_before_anything_else_is_written() {
    for (setup, _) in setups().filter(|(_, clean)| *clean) {
        let closed = RefCell::new(Vec::new());
        opened(&setup, true, |cache| {
            closed.replace(bytes(cache));
            synced::take();
        })
        .unwrap();
        let closed = closed.into_inner();
        let marks = [Field::Clean as usize, Field::Boot as usize];
        let first = synced::take().into_iter().next().expect("a sync");
        assert_eq!((closed[marks[0]], first[marks[0]]), (1, 0));
        for (word, (before, on_disk)) in closed.iter().zip(&first).enumerate() {
            assert!(before == on_disk || marks.contains(&word), "word {word}");
        }
    }
}
