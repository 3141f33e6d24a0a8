//! Eviction, and pages that change their class.

use super::support::*;
use crate::*;
use micanite_wire::hash::KeyHash;

/// Bytes of 64 chunks of [`load_numbered`].
const PAGE_BYTES: usize = 64 * 256;

/// Loads keys of four bytes. Their chunks have 256 bytes.
fn load_numbered(table: &mut Table, host: &mut TestHost, numbers: std::ops::Range<u32>) -> usize {
    let load = |number: u32| {
        let key = number.to_le_bytes();
        load(table, host, &item(hash_of(number), &key, &[1; 256 - 56 - 4]))
    };
    numbers.filter_map(load).count()
}

fn hash_of(number: u32) -> u64 {
    u64::from(number) << 32 | u64::from(number)
}

fn has(table: &Table, number: u32) -> bool {
    table.find(KeyHash(hash_of(number)), &number.to_le_bytes()).is_some()
}

#[test]
fn loads_evict_ahead_of_need_and_within_a_lease_no_more() {
    let area = area_of(0, PAGE_BYTES, 1);
    let (mut table, mut host) = (table_of(&area, 0, Policy::Lru), TestHost::default());
    assert_eq!(load_numbered(&mut table, &mut host, 0..60), 60);
    assert_eq!(table.counters().evicted, 0);
    // A sixteenth of 64 chunks is free or dying from here on.
    assert_eq!(load_numbered(&mut table, &mut host, 60..200), 4);
    let evicted = table.counters().evicted;
    assert_eq!(evicted, 4);
    assert_eq!((table.usage().living, table.usage().dying), (60, 4));
    host.now_ns += WAIT_NS + 1;
    assert_eq!(load_numbered(&mut table, &mut host, 200..300), 4);
    table.check(0);
}

#[test]
fn lru_evicts_what_was_not_used_and_fifo_what_is_oldest() {
    for (policy, survivor) in [(Policy::Lru, true), (Policy::Fifo, false)] {
        let area = area_of(0, PAGE_BYTES, 1);
        let (mut table, mut host) = (table_of(&area, 0, policy), TestHost::default());
        load_numbered(&mut table, &mut host, 0..60);
        let chunk = table.find(KeyHash(hash_of(0)), &0u32.to_le_bytes()).unwrap();
        assert!(table.touch(chunk.entry.offset, chunk.entry.version));
        load_numbered(&mut table, &mut host, 60..64);
        assert_eq!((has(&table, 0), has(&table, 1)), (survivor, false));
    }
}

#[test]
fn a_request_copies_back_one_dirty_chunk_and_leaves_the_rest_to_the_upkeep() {
    let area = area_of(0, PAGE_BYTES, 1);
    let (mut table, mut host) = (table_of(&area, 0, Policy::Lru), TestHost::default());
    load_numbered(&mut table, &mut host, 0..60);
    for number in 0..60 {
        let chunk = table.find(KeyHash(hash_of(number)), &u32::to_le_bytes(number)).unwrap();
        assert!(table.set_dirty(&chunk, true));
    }
    for number in 60..64 {
        load_numbered(&mut table, &mut host, number..number + 1);
        assert_eq!(host.copied_back.len() as u32, number - 59);
        assert!(!has(&table, number - 60));
    }
    assert_eq!(table.usage().dirty, 56);
    let mut left = 56;
    while table.copy_back_next(&mut host) {
        left -= 1;
        assert!(left > 0 && table.usage().dirty == left);
    }
    assert_eq!((table.usage().dirty, host.copied_back.len()), (0, 60));
    assert_eq!(table.counters().copied_back, 60);
    table.check(0);
}

#[test]
fn a_page_of_dirty_chunks_is_emptied_by_one_chunk_per_call() {
    let area = area_of(0, PAGE_BYTES, 1);
    let (mut table, mut host) = (table_of(&area, 0, Policy::Lru), TestHost::default());
    load_numbered(&mut table, &mut host, 0..10);
    for number in 0..10 {
        let chunk = table.find(KeyHash(hash_of(number)), &u32::to_le_bytes(number)).unwrap();
        table.set_dirty(&chunk, true);
    }
    assert!(table.take(1, 4000, &mut host).is_none());
    for copied in 1..=10 {
        if copied % 2 == 0 {
            assert!(table.take(1, 4000, &mut host).is_none());
        } else {
            table.upkeep(&mut host);
        }
        assert_eq!((host.copied_back.len(), table.usage().dirty), (copied, 10 - copied as u64));
        table.check(0);
    }
    host.now_ns += WAIT_NS + 1;
    table.upkeep(&mut host);
    assert!(load(&mut table, &mut host, &item(1000, b"k", &[1; 4000])).is_some());
}

#[test]
fn a_class_without_a_page_gets_the_emptiest_of_another() {
    let area = area_of(0, PAGE_BYTES, 2);
    let (mut table, mut host) = (table_of(&area, 0, Policy::Fifo), TestHost::default());
    load_numbered(&mut table, &mut host, 0..128);
    let mut first_page = 0..64;
    assert!(first_page.all(|number| has(&table, number) || number < 8));
    let long = [9; 4000];
    let wanted = item(1000, b"k", &long);
    let mut calls = 0;
    let entry = loop {
        calls += 1;
        assert!(calls < 100);
        if let Some(entry) = load(&mut table, &mut host, &wanted) {
            break entry;
        }
        table.check(0);
        host.now_ns += WAIT_NS / 4;
    };
    assert_eq!(read(&area, 1000, b"k", entry).unwrap(), long);
    assert_eq!(table.counters().pages_emptied, 1);
    // The page that had lost chunks already.
    let first = area.geometry().page_start(0) as u64;
    assert!(entry.offset >= first && entry.offset < first + PAGE_BYTES as u64);
    assert!((64..128).all(|number| has(&table, number)));
    table.check(0);
}

/// A taken chunk keeps its page from the other class, and is not published there.
#[test]
fn a_chunk_taken_from_a_page_that_is_emptied_comes_back_unpublished() {
    let area = area_of(0, PAGE_BYTES, 1);
    let (mut table, mut host) = (table_of(&area, 0, Policy::Lru), TestHost::default());
    let mut taken = table.take(1, 1, &mut host).unwrap();
    taken.fill(&area, &item(1, b"k", b"v"));
    assert!(table.take(1, 4000, &mut host).is_none());
    for _ in 0..10 {
        host.now_ns += WAIT_NS;
        assert!(table.take(1, 4000, &mut host).is_none());
    }
    table.check(1);
    assert_eq!(table.publish(taken, &mut host), None);
    table.upkeep(&mut host);
    table.check(0);
    assert!(load(&mut table, &mut host, &item(2, b"k", &[1; 4000])).is_some());
}

#[test]
fn the_upkeep_frees_and_evicts_without_requests() {
    let area = area_of(0, PAGE_BYTES, 1);
    let (mut table, mut host) = (table_of(&area, 0, Policy::Lru), TestHost::default());
    load_numbered(&mut table, &mut host, 0..64);
    let dying = table.usage().dying;
    host.now_ns += WAIT_NS + 1;
    table.upkeep(&mut host);
    assert!(dying > 0 && table.usage().dying == 0);
    table.check(0);
}

#[test]
fn the_only_chunk_of_a_class_stays_until_a_load_finds_none() {
    let area = area_of(0, 4096, 1);
    let (mut table, mut host) = (table_of(&area, 0, Policy::Lru), TestHost::default());
    let long = [1; 4000];
    load(&mut table, &mut host, &item(1, b"a", &long)).unwrap();
    table.upkeep(&mut host);
    assert_eq!((table.usage().living, table.counters().evicted), (1, 0));
    assert_eq!(load(&mut table, &mut host, &item(2, b"b", &long)), None);
    assert_eq!((table.usage().living, table.counters().evicted), (0, 1));
    host.now_ns += WAIT_NS + 1;
    assert!(load(&mut table, &mut host, &item(2, b"b", &long)).is_some());
    table.upkeep(&mut host);
    assert_eq!((table.usage().living, table.counters().evicted), (1, 1));
    table.check(0);
}

#[test]
fn a_class_whose_loads_keep_failing_gets_a_further_page_but_no_last_one() {
    let area = area_of(0, PAGE_BYTES, 3);
    let (mut table, mut host) = (table_of(&area, 0, Policy::Lru), TestHost::default());
    assert_eq!(load_numbered(&mut table, &mut host, 0..128), 128);
    let load_long = |number: u32, table: &mut Table, host: &mut TestHost| {
        let key = number.to_le_bytes();
        load(table, host, &item(hash_of(number), &key, &[1; 4000])).is_some()
    };
    assert!((1000..1004).all(|number| load_long(number, &mut table, &mut host)));
    // Few failures move no page.
    assert!((2000..2060).all(|number| !load_long(number, &mut table, &mut host)));
    assert_eq!(table.usage().living, 128 + 3);
    assert!((3000..3010).all(|number| !load_long(number, &mut table, &mut host)));
    table.check(0);
    host.now_ns += WAIT_NS + 1;
    table.upkeep(&mut host);
    host.now_ns += WAIT_NS + 1;
    table.upkeep(&mut host);
    assert_eq!(table.counters().pages_emptied, 1);
    // The further page, and the chunk that the failures had evicted. The other class has 4 spare chunks.
    assert!((4000..4005).all(|number| load_long(number, &mut table, &mut host)));
    assert_eq!(table.usage().living, 60 + 8);
    for number in 5000..5300 {
        load_long(number, &mut table, &mut host);
    }
    assert_eq!(table.counters().pages_emptied, 1);
    table.check(0);
}

/// Two classes that both want more keep what they have.
#[test]
fn a_page_does_not_leave_a_class_that_fails_as_often() {
    let area = area_of(0, PAGE_BYTES, 4);
    let (mut table, mut host) = (table_of(&area, 0, Policy::Lru), TestHost::default());
    for round in 0..1000_u32 {
        for value_bytes in [3000, 6000] {
            let number = round << 16 | value_bytes as u32;
            let value = vec![1; value_bytes];
            load(&mut table, &mut host, &item(hash_of(number), &number.to_le_bytes(), &value));
        }
    }
    assert!(table.counters().no_space > 1900);
    assert_eq!(table.counters().pages_emptied, 0);
    table.check(0);
}
