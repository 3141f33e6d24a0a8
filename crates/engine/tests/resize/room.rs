//! Room in an image of another size: for few large items, with other partitions, in little memory.

use micanite_engine::*;

use super::*;

/// A store that is split into partitions of at least 16 MiB, as many as four for a worker.
fn config(directory: &Directory, mib: usize, workers: usize) -> Config {
    Config {
        memory_bytes: mib * MIB,
        value_bytes_max: MIB,
        workers,
        access: Access::Crcw,
        semantics: Semantics::Store,
        image: Some(directory.image()),
        ..Config::default()
    }
}

fn fill_with(worker: &mut Worker, value_bytes: usize) -> Vec<u64> {
    let value = vec![7; value_bytes];
    let is_stored =
        |key: &u64| worker.set(&key.to_le_bytes(), &value, Expiry::NEVER, NOW_S) == Outcome::Stored;
    (0..).take_while(is_stored).collect()
}

/// Returns the memory that the text of a refusal names, in MiB.
fn sufficient_mib(error: &CreateError) -> usize {
    let text = error.to_string();
    text.rsplit("-m ").next().unwrap().split(' ').next().unwrap().parse().unwrap()
}

/// The size that a refusal named was refused as well, three times in a row, because few large items are
/// spread unevenly over partitions. Whatever a trial takes opens.
#[test]
fn a_store_of_few_large_items_opens_with_what_its_refusal_names() {
    for (value_bytes, workers, next_workers) in [(900_000, 1, 1), (400_000, 2, 1), (400_000, 1, 4)] {
        let directory = Directory::new(&format!("few-large-{value_bytes}-{workers}-{next_workers}"));
        let (cache, mut worker) = open(&config(&directory, 96, workers));
        let mut keys = fill_with(&mut worker, value_bytes);
        for key in keys.split_off(keys.len() * 2 / 3) {
            worker.delete(&key.to_le_bytes(), NOW_S);
        }
        cache.close().unwrap();
        drop((cache, worker));
        let next = |mib| config(&directory, mib, next_workers);
        let error = Cache::try_out(&next(24), false).unwrap_err();
        assert_eq!(error.kind(), CreateErrorKind::Mismatch);
        let mib = sufficient_mib(&error);
        assert!((25..160).contains(&mib), "{error}");
        let refused = Cache::new(&next(24)).unwrap_err();
        assert_eq!((refused.kind(), sufficient_mib(&refused)), (CreateErrorKind::Mismatch, mib));
        assert!(Cache::try_out(&next(mib), false).is_ok());
        let (cache, mut worker) = open(&next(mib));
        assert_eq!(count_found(&mut worker, &keys), keys.len());
        cache.close().unwrap();
        drop((cache, worker));
        let (_cache, mut worker) = open(&next(2 * mib + 7));
        assert_eq!(count_found(&mut worker, &keys), keys.len(), "a larger one opens as well");
    }
}

/// A store with more workers than when it was made has the partitions of its image. Its snapshot had others,
/// and lost large items.
#[test]
fn a_snapshot_has_the_partitions_of_its_store() {
    let directory = Directory::new("snapshot-of-few-partitions");
    let (cache, mut worker) = open(&config(&directory, 128, 1));
    let keys = fill_with(&mut worker, 900_000);
    cache.close().unwrap();
    drop((cache, worker));
    let more = config(&directory, 128, 8);
    let (cache, worker) = open(&more);
    let copy = directory.0.join("snapshot");
    let snapshot = cache.snapshot(&copy, NOW_S).unwrap();
    assert_eq!((snapshot.items, snapshot.left_out), (keys.len() as u64, 0));
    let partitions = cache.layout().partitions;
    drop((cache, worker));
    let (cache, mut worker) = open(&Config { image: Some(copy), ..more });
    assert_eq!(cache.layout().partitions, partitions);
    assert_eq!(count_found(&mut worker, &keys), keys.len());
}

/// The index that an image began with had no room in a hundredth of its memory: an underflow.
#[test]
fn an_image_opens_in_a_hundredth_of_its_memory() {
    for semantics in [Semantics::Cache, Semantics::Store] {
        for (item_bytes_hint, memory_bytes_max) in [(None, None), (Some(8), None), (None, Some(256 * MIB))] {
            let directory = Directory::new(&format!("hundredth-{semantics:?}-{item_bytes_hint:?}"));
            let large = Config {
                value_bytes_max: 4096,
                semantics,
                item_bytes_hint,
                memory_bytes_max,
                ..config(&directory, 256, 1)
            };
            let (cache, mut worker) = open(&large);
            worker.set(b"key", b"value", Expiry::NEVER, NOW_S);
            cache.close().unwrap();
            drop((cache, worker));
            let small = Config { memory_bytes: 2 * MIB, ..large };
            let tried = Cache::try_out(&small, false);
            match Cache::new(&small) {
                Ok(cache) => {
                    assert!(tried.is_ok());
                    let mut worker = Arc::new(cache).worker(0).unwrap();
                    let found = worker.get_with(b"key", NOW_S, |value, _| value.to_vec());
                    assert_eq!(found.unwrap().as_deref(), Some(&b"value"[..]));
                }
                Err(error) => assert_eq!(error.kind(), CreateErrorKind::Mismatch, "{error}"),
            }
        }
    }
}
