//! The index changes beside a reader: growth, spare buckets.

use super::*;

/// Covers the second load of the number of buckets (`Partition::read`), without which a reader
/// would look for a moved key in its old bucket, and the check of the version.
#[test]
fn loom_a_read_beside_a_split_finds_its_key() {
    model(|| {
        let setup = Setup {
            buckets: 2,
            data_units: 256,
            grows: true,
            value_bytes_max: 16,
            eviction: Eviction::Fifo,
            workers: 2,
            ..Setup::default()
        };
        let cache = setup.cache();
        let p = &cache.partitions[0];
        // There are no spare buckets yet, so that every insertion lets the index grow.
        let grown = p.all_buckets().grown().grown();
        let moves = |key: &[u8; 2]| p.index_hash(cache.hash(key)).bucket(grown) == 3;
        let key = keys_of(&cache, 1).find(moves).expect("a key");
        Client::new(&cache, 0).set(&key, &OLD);
        assert_eq!(p.buckets(), 3);
        let reader = spawn(&cache, move |cache| {
            if let Some(value) = look(cache, &key) {
                assert_eq!(value.as_deref(), Some(OLD.as_slice()), "not found");
            }
        });
        p.writer(0).grow_if_full();
        assert_eq!(p.buckets(), 4);
        reader.join().unwrap();
        assert_eq!(read(&cache, &key).as_deref(), Some(OLD.as_slice()));
    });
}

/// Six main buckets come with a spare one.
const BUCKETS: u64 = 6;

/// Makes a cache in which seven keys fill a bucket, and one more key of that bucket.
fn full_bucket() -> (Arc<Cache>, Client, Vec<[u8; 2]>) {
    let cache = of_buckets(BUCKETS, 64);
    let keys: Vec<_> = keys_of(&cache, 0).take(8).collect();
    let mut writer = Client::new(&cache, 0);
    for key in &keys[..7] {
        assert_eq!(writer.set(key, &OLD[..1]), Outcome::Stored);
    }
    (cache, writer, keys)
}

/// Covers the check of the version: the last key of the chain moves to the place of the one that is
/// removed, and its spare bucket is freed. With one preemption.
#[test]
fn loom_a_read_beside_a_chain_that_becomes_shorter_finds_its_key() {
    model_of(1, || {
        let (cache, mut writer, keys) = full_bucket();
        assert_eq!(writer.set(&keys[7], &OLD[..1]), Outcome::Stored);
        assert_eq!(cache.stats().spare_buckets_used, 1);
        let last = keys[7];
        let reader = spawn(&cache, move |cache| {
            if let Some(value) = look(cache, &last) {
                assert_eq!(value.as_deref(), Some(&OLD[..1]), "not found");
            }
        });
        writer.outcome(&keys[0], Operation::Delete);
        assert_eq!(cache.stats().spare_buckets_used, 0);
        reader.join().unwrap();
    });
}
