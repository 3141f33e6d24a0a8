//! Snapshots and walks beside a writer: one attempt at a bucket, without the fall-back to the lock.

use super::*;

/// Copies a bucket once. `None` if the writer interfered.
fn copy(cache: &Cache, bucket: u64) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let (mut items, mut copied) = (Vec::new(), Vec::new());
    let complete = cache.partitions[0].copy_chain(bucket, 0, &mut copied, &mut |item| {
        assert!(item.value == OLD || item.value == NEW, "torn: {:?}", item.value);
        items.push((item.key.clone(), item.value.clone()));
    });
    complete.then_some(items)
}

/// Covers the check of the version, and its fence (`Bucket::version_is_still`).
#[test]
fn loom_a_snapshot_beside_an_overwrite_in_place_has_the_old_or_the_new_value() {
    model(|| {
        let cache = tiny(64);
        let mut writer = Client::new(&cache, 0);
        writer.set(b"k", &OLD);
        let bucket = bucket_of(&cache, b"k");
        let reader = spawn(&cache, move |cache| {
            if let Some(items) = copy(cache, bucket) {
                assert_eq!(items.len(), 1, "an acknowledged item is missing");
            }
        });
        writer.set(b"k", &NEW);
        reader.join().unwrap();
    });
}

/// Makes two items that fill the log, and a key of the other bucket, whose item overwrites the
/// first. That does not change the bucket of the first.
fn full() -> (Arc<Cache>, Client, [[u8; 2]; 3]) {
    let cache = tiny(8);
    let [first, other] = [0, 1].map(|bucket| {
        let mut keys = keys_of(&cache, bucket);
        [keys.next(), keys.next()].map(|key| key.expect("a key"))
    });
    let mut writer = Client::new(&cache, 0);
    writer.set(&first[0], &OLD);
    writer.set(&other[0], &OLD);
    (cache, writer, [first[0], other[0], other[1]])
}

/// Covers the fence between the copy of an item and the load of the head (in
/// `Bucket::version_is_still`), and the one between the head and the bytes (in
/// `Writer::reserve_at_tail`).
#[test]
fn loom_a_snapshot_beside_an_eviction_has_the_item_or_nothing() {
    model(|| {
        let (cache, mut writer, [first, _, third]) = full();
        let reader = spawn(&cache, move |cache| {
            for (key, value) in copy(cache, 0).unwrap_or_default() {
                assert_eq!((key.as_slice(), value.as_slice()), (&first[..], &OLD[..]));
            }
        });
        writer.set(&third, &NEW);
        reader.join().unwrap();
    });
}

/// Makes an index with one bucket more than at first, and returns the key of the item that is
/// there.
fn about_to_shrink() -> (Arc<Cache>, [u8; 2]) {
    let cache = Setup {
        semantics: Semantics::Store,
        buckets: 1,
        data_units: 64,
        grows: true,
        value_bytes_max: 16,
        workers: 2,
        ..Setup::default()
    }
    .cache();
    cache.partitions[0].writer(0).grow(0);
    assert_eq!(cache.partitions[0].buckets(), 2);
    let key = keys_of(&cache, 1).next().expect("a key");
    Client::new(&cache, 0).set(&key, &OLD);
    (cache, key)
}

/// Returns a line to the items, as upkeep does, unless there is a walk or a copy.
fn merge(cache: &Cache) {
    let p = &cache.partitions[0];
    let writer = p.writer(0);
    p.walkers.without(|| assert!(writer.merge_last()));
}

/// Covers the orderings of `Walkers`: a copy of all buckets has every item.
#[test]
fn loom_a_snapshot_beside_a_bucket_that_is_merged_has_its_item() {
    model(|| {
        let (cache, _) = about_to_shrink();
        let reader = spawn(&cache, move |cache| {
            let p = &cache.partitions[0];
            let _walking = p.walkers.enter();
            let items = (0..p.buckets()).filter_map(|bucket| copy(cache, bucket));
            assert_eq!(items.flatten().count(), 1, "an acknowledged item is missing");
        });
        merge(&cache);
        reader.join().unwrap();
    });
}

/// Covers the orderings of `Walkers` for a walk in several steps, and that neither thread waits for the
/// other forever, although the walk begins inside of a batch, which the shrinking worker has waited for.
#[test]
fn loom_a_walk_beside_a_bucket_that_is_merged_has_its_item() {
    model(|| {
        let (cache, key) = about_to_shrink();
        let reader = spawn(&cache, move |cache| {
            cache.epochs.enter(1);
            let (mut walk, mut keys) = (Walk::default(), Keys::default());
            cache.walk(&mut walk, 1, 0, &mut keys);
            cache.epochs.leave(1);
            while cache.walk(&mut walk, 4, 0, &mut keys) != Walked::End {}
            assert_eq!(keys.kept, [key], "an acknowledged item is missing");
        });
        let p = &cache.partitions[0];
        p.route.exclude(&cache.epochs, || {}, || merge(&cache));
        reader.join().unwrap();
    });
}

/// Covers the fence between the bytes of an item and the load of the head (in
/// `Partition::visit_chain`), and the one between the head and the bytes (in
/// `Writer::reserve_at_tail`).
#[test]
fn loom_a_walk_beside_an_eviction_shows_the_item_or_nothing() {
    model(|| {
        let (cache, mut writer, [first, _, third]) = full();
        let reader = spawn(&cache, move |cache| {
            let mut keys = Keys::default();
            cache.partitions[0].visit(&Walk::default(), 0, &mut keys);
            for key in keys.kept {
                assert_eq!(key, first, "a key of another bucket");
            }
        });
        writer.set(&third, &NEW);
        reader.join().unwrap();
    });
}
