//! Life of chunks: who may see them, and when.

use super::support::*;
use crate::layout::HEADER_BYTES;
use crate::reader::Refusal;
use crate::*;
use micanite_memory::sync::Ordering::Relaxed;
use micanite_wire::hash::KeyHash;

fn one_page(page_bytes: usize) -> (Area, Table, TestHost) {
    let area = area_of(0, page_bytes, 1);
    let table = table_of(&area, 0, Policy::Lru);
    (area, table, TestHost::default())
}

#[test]
fn a_loaded_item_is_read_found_and_killed() {
    let (area, mut table, mut host) = one_page(4096);
    assert!(!table.may_have(KeyHash(9)));
    let wanted = Item { flags: 3, expiry_s: 50, ..item(9, b"key", b"value") };
    let entry = load(&mut table, &mut host, &wanted).unwrap();
    let brought = bring(&area, 9, entry);
    let accepted = brought.accept(9, b"key", entry).unwrap();
    assert_eq!((accepted.value, accepted.flags, accepted.expiry_s), (&b"value"[..], 3, 50));
    let chunk = table.find(KeyHash(9), b"key").unwrap();
    assert_eq!((chunk.entry, chunk.is_dirty, chunk.is_void), (entry, false, false));
    assert!(table.find(KeyHash(9), b"kez").is_none() && table.find(KeyHash(9), b"ke").is_none());
    let mut value = [0; 5];
    assert!(area.copy_out(entry, 3, &mut value));
    assert_eq!(&value, b"value");
    assert!(!area.copy_out(entry, 4, &mut value));
    assert!(table.kill(&chunk, &mut host));
    assert!(!table.kill(&chunk, &mut host) && !table.set_dirty(&chunk, true));
    assert!(table.find(KeyHash(9), b"key").is_none() && !table.may_have(KeyHash(9)));
    assert_eq!(read(&area, 9, b"key", entry), Err(Refusal::Version));
    table.check(0);
}

#[test]
fn a_taken_chunk_is_dead_until_it_is_published() {
    let (area, mut table, mut host) = one_page(4096);
    let mut taken = table.take(3, 5, &mut host).unwrap();
    let whole = item(9, b"key", b"value");
    assert!(!taken.fill(&area, &item(9, b"key", &[0; 64])), "longer than the chunk");
    assert!(taken.fill(&area, &whole));
    assert!(!taken.fill(&area, &whole), "filled already");
    table.check(1);
    let entry = table.publish(taken, &mut host).unwrap();
    table.kill(&table.find(KeyHash(9), b"key").unwrap(), &mut host);
    assert_eq!(area.header(entry).unwrap().version, 0);
    let unfilled = table.take(3, 5, &mut host).unwrap();
    assert_eq!(table.publish(unfilled, &mut host), None);
    assert_eq!(table.counters().given_back, 1);
    table.check(0);
}

/// A clock read before the kill would end the lease too early for reads that began in between.
#[test]
fn the_clock_is_read_after_the_kill() {
    struct Watch(Area, Entry, u32);
    impl Host for Watch {
        fn now_ns(&mut self) -> u64 {
            assert_eq!(self.0.header(self.1).unwrap().version, 0);
            self.2 += 1;
            0
        }
        fn copy_back(&mut self, _: &Area, _: &Chunk) -> CopyBack {
            CopyBack::Kept
        }
    }
    let (area, mut table, mut host) = one_page(4096);
    let entry = load(&mut table, &mut host, &item(9, b"key", b"value")).unwrap();
    let mut host = Watch(area, entry, 0);
    let chunk = table.find(KeyHash(9), b"key").unwrap();
    assert!(table.kill(&chunk, &mut host));
    assert!(host.2 > 0);
}

#[test]
fn a_chunk_is_used_again_after_a_lease_and_no_earlier() {
    let (area, mut table, mut host) = one_page(64);
    let old = load(&mut table, &mut host, &item(1, b"a", b"old")).unwrap();
    table.kill(&table.find(KeyHash(1), b"a").unwrap(), &mut host);
    let before = bring(&area, 1, old).chunk;
    host.now_ns = WAIT_NS;
    assert!(table.take(1, 3, &mut host).is_none());
    assert_eq!(bring(&area, 1, old).chunk, before);
    host.now_ns += 1;
    let new = load(&mut table, &mut host, &item(1, b"a", b"new")).unwrap();
    assert_eq!(new.offset, old.offset);
    assert_eq!(read(&area, 1, b"a", old), Err(Refusal::Version));
    assert_eq!(read(&area, 1, b"a", new).unwrap(), b"new");
    assert_eq!(table.counters().no_space, 1);
}

/// A clock that goes back frees nothing.
#[test]
fn a_death_in_the_future_ends_no_lease() {
    let (_, mut table, mut host) = one_page(64);
    host.now_ns = 10 * WAIT_NS;
    load(&mut table, &mut host, &item(1, b"a", b"old")).unwrap();
    table.kill(&table.find(KeyHash(1), b"a").unwrap(), &mut host);
    host.now_ns = 0;
    assert!(table.take(1, 3, &mut host).is_none());
}

#[test]
fn a_second_load_of_a_key_kills_the_first() {
    let (area, mut table, mut host) = one_page(4096);
    let old = load(&mut table, &mut host, &item(1, b"a", b"old")).unwrap();
    let new = load(&mut table, &mut host, &item(1, b"a", b"new")).unwrap();
    assert_eq!(read(&area, 1, b"a", old), Err(Refusal::Version));
    assert_eq!(read(&area, 1, b"a", new).unwrap(), b"new");
    assert_eq!(table.usage().living, 1);
}

#[test]
fn a_load_does_not_kill_a_dirty_chunk_of_its_hash() {
    let (area, mut table, mut host) = one_page(4096);
    let dirty = load(&mut table, &mut host, &item(1, b"a", b"newest")).unwrap();
    assert!(table.set_dirty(&table.find(KeyHash(1), b"a").unwrap(), true));
    assert_eq!(load(&mut table, &mut host, &item(1, b"b", b"other")), None);
    assert_eq!(read(&area, 1, b"a", dirty).unwrap(), b"newest");
    assert_eq!(table.usage().dirty, 1);
    table.check(0);
}

#[test]
fn a_set_replaces_a_dirty_chunk_of_its_own_key_only() {
    let (area, mut table, mut host) = one_page(4096);
    load(&mut table, &mut host, &item(1, b"a", b"old")).unwrap();
    let old = table.find(KeyHash(1), b"a").unwrap();
    table.set_dirty(&old, true);
    let mut taken = table.take(1, 3, &mut host).unwrap();
    assert!(!table.may_publish(&taken, b"a"), "not filled");
    assert!(taken.fill(&area, &item(1, b"a", b"new")));
    assert!(!table.may_publish(&taken, b"b") && table.may_publish(&taken, b"a"));
    table.kill(&old, &mut host);
    let new = table.publish(taken, &mut host).unwrap();
    assert_eq!(read(&area, 1, b"a", new).unwrap(), b"new");
    table.check(0);
}

#[test]
fn raising_the_void_count_ends_what_was_loaded_or_taken_before() {
    let (area, mut table, mut host) = one_page(4096);
    let old = load(&mut table, &mut host, &item(1, b"a", b"old")).unwrap();
    let mut taken = table.take(1, 5, &mut host).unwrap();
    taken.fill(&area, &item(2, b"b", b"taken"));
    table.raise_void();
    assert_eq!(read(&area, 1, b"a", old), Err(Refusal::Void));
    assert_eq!(table.publish(taken, &mut host), None);
    assert!(table.find(KeyHash(1), b"a").unwrap().is_void);
    let new = load(&mut table, &mut host, &item(1, b"a", b"new")).unwrap();
    assert_eq!(read(&area, 1, b"a", new).unwrap(), b"new");
    table.check(0);
}

#[test]
fn a_flush_that_is_due_stands_in_the_record() {
    let (area, mut table, mut host) = one_page(4096);
    let entry = load(&mut table, &mut host, &item(1, b"a", b"value")).unwrap();
    table.set_flush(Some(1));
    assert_eq!(read(&area, 1, b"a", entry), Err(Refusal::Flushed));
    table.set_flush(Some(2));
    assert!(read(&area, 1, b"a", entry).is_ok());
    table.set_flush(Some(1));
    table.set_flush(None);
    assert!(read(&area, 1, b"a", entry).is_ok());
}

#[test]
fn partitions_have_their_own_voids_and_versions() {
    let area = area_of(1, 1024, 3);
    let mut host = TestHost::default();
    let mut tables = [0, 1].map(|partition| table_of(&area, partition, Policy::Lru));
    let hashes = [1, 1 << 63];
    let entries = [0, 1].map(|at| load(&mut tables[at], &mut host, &item(hashes[at], b"k", b"v")).unwrap());
    assert_ne!(entries[0].version, entries[1].version);
    let foreign = tables[1].find(KeyHash(hashes[1]), b"k").unwrap();
    assert!(!tables[0].kill(&foreign, &mut host));
    let taken = tables[1].take(1, 1, &mut host).unwrap();
    assert_eq!(tables[0].publish(taken, &mut host), None);
    tables[0].raise_void();
    assert_eq!(read(&area, hashes[0], b"k", entries[0]), Err(Refusal::Void));
    assert!(read(&area, hashes[1], b"k", entries[1]).is_ok());
    tables[0].check(0);
    tables[1].check(1);
}

#[test]
fn touches_of_hostile_offsets_find_nothing() {
    let (area, mut table, mut host) = one_page(4096);
    let entry = load(&mut table, &mut host, &item(1, b"a", b"value")).unwrap();
    assert!(table.touch(entry.offset, entry.version));
    let end = area.geometry().bytes() as u64;
    for offset in [0, 1, 4096, entry.offset - 64, entry.offset + 1, entry.offset + 64, end, u64::MAX] {
        assert!(!table.touch(offset, entry.version), "{offset}");
    }
    for version in [0, 1, entry.version + 1] {
        assert!(!table.touch(entry.offset, version));
    }
}

#[test]
fn items_longer_than_a_page_are_not_cached() {
    let (area, mut table, mut host) = one_page(4096);
    assert!(table.take(1, 4096 - HEADER_BYTES, &mut host).is_none());
    assert!(table.take(usize::MAX, usize::MAX, &mut host).is_none());
    assert_eq!(table.counters().too_long, 2);
    let whole = vec![5; 4095 - HEADER_BYTES];
    let entry = load(&mut table, &mut host, &item(1, b"a", &whole)).unwrap();
    assert_eq!(read(&area, 1, b"a", entry).unwrap(), whole);
}

#[test]
fn a_full_bucket_gives_up_its_oldest_clean_chunk() {
    let (_, mut table, mut host) = one_page(1024);
    for key in 0..8u8 {
        load(&mut table, &mut host, &item(u64::from(key) << 32, &[key], b"v")).unwrap();
    }
    table.set_dirty(&table.find(KeyHash(0), &[0]).unwrap(), true);
    load(&mut table, &mut host, &item(8 << 32, &[8], b"v")).unwrap();
    assert_eq!(table.counters().crowded_out, 1);
    assert!(table.find(KeyHash(0), &[0]).is_some() && table.find(KeyHash(1 << 32), &[1]).is_none());
    table.check(0);
}

#[test]
fn constants_lead_clients_to_the_same_geometry() {
    let area = area_of(3, 8192, 17);
    let mut constants = [0; crate::layout::CONSTANTS_BYTES];
    area.region().copy_out(0, &mut constants);
    assert_eq!(Geometry::decode(&constants), Some(area.geometry()));
    assert_eq!(area.region().word(0).load(Relaxed).to_le_bytes(), *b"MicaArea");
    for (word, value) in [(0, 1), (1, 2), (2, 11), (3, 0), (3, 63), (3, u64::MAX), (4, 7), (4, u64::MAX)] {
        let mut forged = constants;
        forged[word * 8..][..8].copy_from_slice(&u64::to_le_bytes(value));
        assert_eq!(Geometry::decode(&forged), None, "word {word}: {value}");
    }
    assert_eq!(Geometry::decode(&constants[..39]), None);
}

#[test]
fn every_page_belongs_to_one_partition() {
    for pages in 4..13 {
        let geometry = area_of(2, 64, pages).geometry();
        let all: Vec<usize> = (0..4).flat_map(|partition| geometry.pages_of(partition)).collect();
        assert_eq!(all, (0..pages).collect::<Vec<_>>());
    }
}

#[test]
fn entries_beyond_the_pages_have_no_ranges() {
    let geometry = area_of(1, 1024, 2).geometry();
    let first = geometry.page_start(0) as u64;
    let ranges = |offset, bytes| geometry.ranges(KeyHash(1 << 63), Entry { offset, bytes, version: 1 });
    let [record, chunk] = ranges(first + 64, 100).unwrap();
    assert_eq!((record, chunk), (4096 + 64..4096 + 88, first as usize + 64..first as usize + 164));
    assert!(ranges(first + 1024, 1024).is_some());
    for (offset, bytes) in [
        (first - 64, 64),
        (first + 1, 64),
        (first, 55),
        (first, 1025),
        (first + 64, 1024),
        (first + 2048, 64),
        (u64::MAX - 63, 64),
        (first, u32::MAX),
    ] {
        assert_eq!(ranges(offset, bytes), None, "{offset} {bytes}");
    }
}

/// A clean chunk without the value in the data memory would give clients what the server does not have.
#[test]
fn a_dropped_value_dies_with_its_chunk_and_a_kept_one_stays_clean() {
    for drops in [false, true] {
        let (area, mut table, mut host) = one_page(4096);
        host.drops = drops;
        let entry = load(&mut table, &mut host, &item(1, b"a", b"newest")).unwrap();
        assert!(table.set_dirty(&table.find(KeyHash(1), b"a").unwrap(), true));
        assert!(!table.copy_back_next(&mut host));
        assert_eq!(host.copied_back, [entry]);
        let is_clean = table.find(KeyHash(1), b"a").map(|chunk| !chunk.is_dirty);
        assert_eq!(is_clean, (!drops).then_some(true));
        assert_eq!(read(&area, 1, b"a", entry).is_ok(), !drops);
        let counters = table.counters();
        assert_eq!((counters.copied_back, counters.dropped), (u64::from(!drops), u64::from(drops)));
        table.check(0);
    }
}

#[test]
fn a_lease_of_no_time_is_refused() {
    let area = area_of(0, 4096, 1);
    let config = |lease_ns| Config { policy: Policy::Lru, lease_ns };
    assert!(Table::new(&area, 0, config(0)).is_none());
    assert!(Table::new(&area, 0, config(1)).is_some());
}
