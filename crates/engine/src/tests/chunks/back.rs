//! Write-back: values that only a chunk has.

use super::*;
use crate::reader::{PlainGet, Read};

/// Returns a client of a cache with a dirty item.
fn dirty(semantics: Semantics) -> Client {
    let mut client = client(semantics, ChunkWrite::Back);
    client.set(OTHER, b"other");
    client.set(KEY, b"100");
    client.entry_of(KEY);
    client.store_entry(KEY, b"200");
    assert_eq!(client.cache().dirty_chunks(), 1, "{semantics:?}");
    client
}

#[test]
fn every_request_sees_the_value_that_only_a_chunk_has() {
    for semantics in [Semantics::Cache, Semantics::Store] {
        let mut client = dirty(semantics);
        assert_eq!(client.get(KEY).as_deref(), Some(b"200".as_slice()));
        assert_eq!(client.ask_all(&[KEY.to_vec(), OTHER.to_vec()])[0].value, b"200");
        let reply = client.ask(KEY, Operation::GetEntry);
        assert_eq!(reply.value, b"200");
        assert_eq!(client.read(KEY, reply.entry.unwrap()).as_deref(), Some(b"200".as_slice()));
        assert_eq!(client.cache().dirty_chunks(), 1, "gets copy nothing back");
        let cache = client.cache();
        let request = Request { hash: cache.hash(KEY), key: KEY, operation: Operation::Get { cas: false } };
        let partition = &cache.partitions[0];
        let mut replies = Replies::default();
        let read = partition.read((0, &hashed(partition, &request)), &PlainGet, client.now_s, &mut replies);
        assert_eq!(read, Read::Changes, "readers beside the writer ask it");
        assert_eq!(client.ask(KEY, Operation::Get { cas: true }).value, b"200");
        assert_eq!(cache.dirty_chunks(), 0, "a CAS value is that of the data memory's value");
    }
}

#[test]
fn an_item_whose_cas_value_is_known_goes_through() {
    let mut client = client(Semantics::Cache, ChunkWrite::Back);
    client.set(KEY, b"100");
    let cas = client.ask(KEY, Operation::Get { cas: true }).cas;
    client.entry_of(KEY);
    client.store_entry(KEY, b"200");
    assert_eq!(client.cache().dirty_chunks(), 0);
    assert_eq!(client.outcome(KEY, store(Condition::Unchanged(cas), b"300", 0, 0)), Outcome::Exists);
}

#[test]
fn a_longer_value_and_an_item_without_a_chunk_go_through() {
    let mut client = client(Semantics::Cache, ChunkWrite::Back);
    client.store_entry(KEY, b"100");
    assert_eq!(client.cache().dirty_chunks(), 0, "there was no item");
    client.store_entry(KEY, &[b'v'; 300]);
    assert_eq!(client.cache().dirty_chunks(), 0, "no space to copy it back to");
    client.store_entry(KEY, &[b'w'; 299]);
    assert_eq!(client.cache().dirty_chunks(), 1);
    assert_eq!(client.get(KEY).unwrap(), [b'w'; 299]);
}

#[test]
fn the_end_of_write_back_brings_all_values_to_the_data_memory() {
    for semantics in [Semantics::Cache, Semantics::Store] {
        let mut client = dirty(semantics);
        let cache = client.cache();
        cache.end_write_back();
        client.worker.maintain(client.now_s);
        assert_eq!(cache.dirty_chunks(), 0);
        let entry = client.entry_of(KEY);
        assert_eq!(client.read(KEY, entry).as_deref(), Some(b"200".as_slice()), "the chunk lives on");
        assert_eq!(client.get(KEY).as_deref(), Some(b"200".as_slice()));
        client.store_entry(KEY, b"300");
        assert_eq!((cache.dirty_chunks(), client.get(KEY).unwrap()), (0, b"300".to_vec()));
    }
}

#[test]
fn evicted_chunks_are_copied_back() {
    for semantics in [Semantics::Cache, Semantics::Store] {
        let setup = Setup { semantics, area: Some(ChunkWrite::Back), ..Setup::default() };
        let mut client = Client::new(&setup.cache(), 0);
        let keys: Vec<_> = (0..100_u32).map(u32::to_le_bytes).collect();
        for round in 0..20_u8 {
            for key in &keys {
                client.store_entry(key, &[round; 40]);
                client.ask(key, Operation::GetEntry);
                client.store_entry(key, &[round + 1; 40]);
            }
        }
        client.worker.maintain(client.now_s);
        let stats = client.cache().chunk_stats();
        assert!(stats.counters.copied_back > 0 && stats.counters.dropped == 0, "{stats:?}");
        for key in &keys {
            assert_eq!(client.get(key).unwrap(), [20; 40]);
        }
    }
}

#[test]
fn a_flushed_dirty_item_is_gone_and_its_chunk_disturbs_no_later_one() {
    for semantics in [Semantics::Cache, Semantics::Store] {
        let mut client = dirty(semantics);
        client.worker.flush_all(0, client.now_s);
        assert_eq!(client.get(KEY), None);
        client.set(KEY, b"300");
        let entry = client.entry_of(KEY);
        assert_eq!(client.read(KEY, entry).as_deref(), Some(b"300".as_slice()));
        client.cache().end_write_back();
        client.worker.maintain(client.now_s);
        assert_eq!((client.cache().dirty_chunks(), client.get(KEY).unwrap()), (0, b"300".to_vec()));
    }
}

#[test]
fn a_dirty_item_whose_chunk_a_namespace_has_made_void_gets_another_chunk() {
    let mut client = dirty(Semantics::Cache);
    client.worker.invalidate_namespace(b"a", client.now_s).unwrap();
    assert_eq!(client.get(KEY).as_deref(), Some(b"200".as_slice()));
    let entry = client.entry_of(KEY);
    assert_eq!(client.read(KEY, entry).as_deref(), Some(b"200".as_slice()));
}

/// Returns the settings of an image in a directory, without what an earlier run left there.
fn image(name: &str) -> (std::path::PathBuf, Config) {
    let name = format!("micanite-back-{name}-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    let _ = std::fs::remove_dir_all(&directory);
    let config = Config {
        memory_bytes: 4 << 20,
        value_bytes_max: 1024,
        image: Some(directory.clone()),
        ..Config::default()
    };
    (directory, config)
}

/// Opens an image, and returns the value of the key.
fn value_in(config: &Config) -> (Option<Vec<u8>>, ImageState) {
    let cache = Arc::new(Cache::new(config).unwrap());
    let value = Client::new(&cache, 0).get(KEY);
    (value, cache.image_state().clone())
}

#[test]
fn a_closed_image_and_a_snapshot_have_the_values_of_chunks_and_a_killed_process_leaves_no_older_ones() {
    let ((directory, config), (copy, _)) = (image("closed"), image("copy"));
    for is_closed in [true, false] {
        let cache = Arc::new(Cache::new(&config).unwrap());
        crate::tests::area::attach(&cache, ChunkWrite::Back, LEASE_NS);
        let mut client = Client::new(&cache, 0);
        client.set(OTHER, b"other");
        client.set(KEY, b"100");
        client.entry_of(KEY);
        client.store_entry(KEY, b"200");
        assert_eq!(cache.dirty_chunks(), 1);
        if is_closed {
            cache.snapshot(&copy, client.now_s).unwrap();
            assert_eq!(cache.dirty_chunks(), 0);
            client.store_entry(KEY, b"300");
            assert_eq!(cache.dirty_chunks(), 1, "write-back goes on after a snapshot");
            cache.close().unwrap();
        }
        drop(client);
        drop(cache);
        let expected = match is_closed {
            true => (Some(b"300".to_vec()), ImageState::Clean),
            false => (None, ImageState::Recovered),
        };
        assert_eq!(value_in(&config), expected);
    }
    let copied = Config { image: Some(copy.clone()), ..config };
    assert_eq!(value_in(&copied).0.as_deref(), Some(b"200".as_slice()));
    for directory in [directory, copy] {
        std::fs::remove_dir_all(directory).unwrap();
    }
}

#[test]
fn an_item_that_a_killed_process_left_does_not_end_the_chunk_of_its_successor() {
    let setup = Setup { eviction: Eviction::Fifo, area: Some(ChunkWrite::Back), ..Setup::default() };
    let mut client = Client::new(&setup.cache(), 0);
    let cache = client.cache();
    let fill = |client: &mut Client, names: std::ops::Range<u32>| {
        names.for_each(|name| assert_eq!(client.set(&name.to_le_bytes(), &[b'f'; 100]), Outcome::Stored));
    };
    client.set(KEY, b"old");
    let partition = &cache.partitions[0];
    let writer = partition.writer(client.now_s);
    let found = writer.find(partition.index_hash(cache.hash(KEY)), KEY).unwrap();
    partition.word(found.slot).store(0, micanite_memory::sync::Ordering::Relaxed);
    drop(writer);
    fill(&mut client, 0..250);
    client.set(KEY, b"100");
    client.entry_of(KEY);
    client.store_entry(KEY, b"200");
    fill(&mut client, 250..620);
    assert_eq!(client.get(&0_u32.to_le_bytes()), None, "the head has passed the item that was left");
    assert_eq!(cache.dirty_chunks(), 1);
    assert_eq!(client.get(KEY).as_deref(), Some(b"200".as_slice()));
}
