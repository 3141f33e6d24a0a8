//! Births and deaths of chunks.

use super::*;
use crate::limits::NAMESPACES_MAX;

/// Operations that change the item of a key, or remove it.
fn changes() -> Vec<Operation<'static>> {
    let expiry = Expiry(2000);
    vec![
        store(Condition::Always, b"11", 0, 0),
        store(Condition::Always, &[b'2'; 200], 0, 0),
        store(Condition::Present, b"33", 7, 2000),
        Operation::Append { value: b"4" },
        Operation::Prepend { value: b"5" },
        Operation::Increment { delta: 1 },
        Operation::Decrement { delta: 100 },
        Operation::Touch { expiry },
        Operation::GetAndTouch { expiry, cas: false },
        Operation::Delete,
        Operation::MetaGet(MetaGet { touch: Some(expiry), ..MetaGet::default() }),
        Operation::MetaGet(MetaGet { access: true, ..MetaGet::default() }),
        Operation::MetaStore(MetaStore { value: b"6", ..MetaStore::default() }),
        Operation::MetaStore(MetaStore { value: b"7", new_cas: 99, ..MetaStore::default() }),
        Operation::MetaDelete(MetaDelete::default()),
        Operation::MetaDelete(MetaDelete { invalidate: true, ..MetaDelete::default() }),
        Operation::MetaDelete(MetaDelete { empty: Some(1), ..MetaDelete::default() }),
        Operation::MetaArithmetic(MetaArithmetic { delta: 1, cas: true, ..MetaArithmetic::default() }),
    ]
}

#[test]
fn every_change_kills_the_chunk_of_its_key_and_no_other() {
    for (semantics, flags) in [(Semantics::Cache, 0), (Semantics::Cache, 3), (Semantics::Store, 0)] {
        for change in changes() {
            let mut client = client(semantics, ChunkWrite::Through);
            for key in [KEY, OTHER] {
                client.outcome(key, store(Condition::Always, b"10", flags, 0));
            }
            let (entry, other) = (client.entry_of(KEY), client.entry_of(OTHER));
            assert_eq!(client.read(KEY, entry).as_deref(), Some(b"10".as_slice()));
            client.outcome(KEY, change);
            assert_eq!(client.read(KEY, entry), None, "{semantics:?} {change:?}");
            assert!(client.read(OTHER, other).is_some(), "{semantics:?} {change:?}");
        }
    }
}

#[test]
fn requests_that_change_nothing_leave_the_chunk() {
    let refused = [
        store(Condition::Absent, b"x", 0, 0),
        store(Condition::Unchanged(1 << 60), b"x", 0, 0),
        Operation::Get { cas: true },
        Operation::GetEntry,
        Operation::Append { value: &[b'x'; 1000] },
        Operation::Increment { delta: 1 },
        Operation::MetaGet(MetaGet { value: true, ..MetaGet::default() }),
        Operation::MetaDelete(MetaDelete { compare: Some(1 << 60), ..MetaDelete::default() }),
    ];
    for operation in refused {
        let mut client = client(Semantics::Cache, ChunkWrite::Through);
        client.set(KEY, b"value");
        let entry = client.entry_of(KEY);
        client.outcome(KEY, operation);
        assert!(client.read(KEY, entry).is_some(), "{operation:?}");
        assert_eq!(client.entry_of(KEY), entry, "loaded again after {operation:?}");
    }
}

#[test]
fn a_store_refused_for_lack_of_space_leaves_the_chunk() {
    let setup = Setup {
        semantics: Semantics::Store,
        data_units: 400,
        area: Some(ChunkWrite::Through),
        ..Setup::default()
    };
    let mut client = Client::new(&setup.cache(), 0);
    client.set(KEY, b"value");
    for number in 0..200_u32 {
        client.set(&number.to_le_bytes(), &[1; 40]);
    }
    let entry = client.entry_of(KEY);
    assert_eq!(client.set(KEY, &[2; 300]), Outcome::OutOfMemory);
    assert_eq!(client.read(KEY, entry).as_deref(), Some(b"value".as_slice()));
}

#[test]
fn moves_of_items_and_entries_keep_chunks() {
    for eviction in [Eviction::Lru, Eviction::S3Fifo] {
        let area = Some(ChunkWrite::Through);
        let setup = Setup { buckets: 2, grows: true, data_units: 1024, eviction, area, ..Setup::default() };
        let mut client = Client::new(&setup.cache(), 0);
        client.set(KEY, b"value");
        let entry = client.entry_of(KEY);
        for number in 0..1000_u32 {
            client.set(&number.to_le_bytes(), &[1; 40]);
            assert!(client.get(KEY).is_some(), "requested, so it moves");
        }
        let stats = client.cache().stats();
        assert!(stats.buckets_split > 0 && stats.reinserted + stats.promoted > 0, "{stats:?}");
        assert!(client.read(KEY, entry).is_some(), "{eviction:?}");
    }
}

#[test]
fn evicted_items_have_no_chunk() {
    let area = Some(ChunkWrite::Through);
    let setup = Setup { data_units: 512, area, ..Setup::default() };
    let mut client = Client::new(&setup.cache(), 0);
    let mut entries = Vec::new();
    for number in 0..500_u32 {
        let key = number.to_le_bytes();
        client.set(&key, &[1; 40]);
        let entry = client.ask(&key, Operation::GetEntry).entry;
        entries.extend(entry.map(|entry| (key, entry)));
    }
    assert!(client.cache().stats().evicted_log > 300);
    let read = entries.iter().filter(|(key, entry)| client.read(key, *entry).is_some());
    let read: Vec<_> = read.map(|(key, _)| *key).collect();
    assert!(!read.is_empty());
    for key in read {
        assert!(client.get(&key).is_some(), "a client accepts an evicted item");
    }
}

#[test]
fn a_flush_that_is_due_later_ends_chunks_in_its_second() {
    let mut client = client(Semantics::Cache, ChunkWrite::Through);
    client.set(KEY, b"value");
    let entry = client.entry_of(KEY);
    client.worker.flush_all(client.now_s + 5, client.now_s);
    client.now_s += 4;
    assert!(client.read(KEY, entry).is_some());
    client.now_s += 1;
    assert_eq!(client.read(KEY, entry), None, "nobody has flushed yet, and the client knows");
    client.set(KEY, b"later");
    let entry = client.entry_of(KEY);
    assert_eq!(client.read(KEY, entry).as_deref(), Some(b"later".as_slice()));
}

#[test]
fn a_refused_namespace_leaves_chunks() {
    let mut client = client(Semantics::Cache, ChunkWrite::Through);
    client.set(b"a:key", b"value");
    client.set(KEY, b"value");
    let invalidate =
        |client: &mut Client, name: String| client.worker.invalidate_namespace(name.as_bytes(), client.now_s);
    for number in 0..NAMESPACES_MAX - 1 {
        invalidate(&mut client, format!("empty-{number}")).unwrap();
    }
    let (of_a, of_none) = (client.entry_of(b"a:key"), client.entry_of(KEY));
    invalidate(&mut client, "a".into()).unwrap();
    assert_eq!(client.read(b"a:key", of_a), None);
    assert_eq!(client.read(KEY, of_none), None, "void, whatever its namespace");
    let again = client.entry_of(KEY);
    assert_ne!(again, of_none);
    invalidate(&mut client, "one too many".into()).unwrap_err();
    assert!(client.read(KEY, again).is_some());
}

#[test]
fn what_clients_have_read_twice_is_loaded() {
    let mut client = client(Semantics::Cache, ChunkWrite::Through);
    let cache = client.cache();
    client.set(KEY, b"value");
    client.set(OTHER, b"other");
    let mut learnt = Vec::new();
    let accesses = [(cache.hash(KEY), 2), (cache.hash(OTHER), 1), (cache.hash(b"missing"), 9)];
    let now_s = client.now_s;
    let mut note = || client.worker.note_accesses(&accesses, now_s, |hash, entry| learnt.push((hash, entry)));
    assert_eq!((note(), note()), (1, 0), "loaded once");
    let [(hash, entry)] = learnt[..] else { panic!("{learnt:?}") };
    assert_eq!(hash, cache.hash(KEY));
    assert!(client.read(KEY, entry).is_some());
    client.worker.maintain(now_s);
    let stats = cache.chunk_stats();
    assert_eq!((stats.prefetched, stats.counters.published, stats.usage.living), (1, 1, 1));
}

#[test]
fn an_item_without_a_chunk_is_served_without_an_entry() {
    let mut client = client(Semantics::Cache, ChunkWrite::Through);
    // An access that the item records needs the writer.
    client.outcome(KEY, Operation::MetaStore(MetaStore { value: b"v", new_cas: 9, ..MetaStore::default() }));
    let reply = client.ask(KEY, Operation::GetEntry);
    assert_eq!((reply.outcome, reply.entry), (Some(Outcome::Hit), None));
    client.worker.maintain(client.now_s);
    assert_eq!(client.cache().chunk_stats().loads_refused, 1);
    // Without an area all requests are served as without entries.
    let mut client = Client::new(&Setup::default().cache(), 0);
    client.store_entry(KEY, b"value");
    let reply = client.ask(KEY, Operation::GetEntry);
    assert_eq!((reply.outcome, reply.entry), (Some(Outcome::Hit), None));
    assert_eq!(client.outcome(b"missing", Operation::GetEntry), Outcome::NotFound);
}

#[test]
fn an_area_of_another_cache_and_a_second_one_are_refused() {
    let cache = Setup { partition_bits: 1, area: Some(ChunkWrite::Through), ..Setup::default() }.cache();
    let area = cache.partitions[0].chunks.get().unwrap().area().clone();
    let config =
        ChunkConfig { policy: micanite_chunks::Policy::Fifo, lease_ns: 1, write: ChunkWrite::Through };
    assert_eq!(cache.attach_area(&area, config), Err(AttachError::Attached));
    let other = Setup::default().cache();
    assert_eq!(other.attach_area(&area, config), Err(AttachError::Partitions { partitions: 1 }));
    let cache = Setup { partition_bits: 1, ..Setup::default() }.cache();
    let no_lease = ChunkConfig { lease_ns: 0, ..config };
    assert_eq!(cache.attach_area(&area, no_lease), Err(AttachError::Sizes));
}

/// Proves that clients know the flush that the process before has left to this one.
#[test]
fn a_flush_that_an_earlier_process_scheduled_ends_chunks_in_its_second() {
    let setup = Setup { maps: true, area: Some(ChunkWrite::Through), ..Setup::default() };
    let mut earlier = Client::new(&setup.cache(), 0);
    earlier.set(KEY, b"value");
    earlier.worker.flush_all(earlier.now_s + 5, earlier.now_s);
    let maps = earlier.cache().config().maps.clone().unwrap();
    drop(earlier);
    let mut client = Client::new(&setup.cache_in(Some(Maps { kept: true, ..maps })), 0);
    let entry = client.entry_of(KEY);
    assert!(client.read(KEY, entry).is_some());
    client.now_s += 5;
    assert_eq!(client.read(KEY, entry), None);
}
