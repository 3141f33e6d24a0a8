//! Models of one writer and one reader, on the crate's own code.
//!
//! loom lets relaxed loads return any value that they may, so a read here is torn in every way that words
//! allow. The chunks have 64 or 128 bytes, and the limit of checked items is 64 bytes.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use micanite_wire::hash::KeyHash;

use super::support::*;
use crate::reader::Refusal;
use crate::*;

const HASH: u64 = 7;
const KEY: &[u8] = b"k";

fn model(preemptions: usize, test: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 100_000;
    builder.check(test);
}

/// Makes an area of one page, which is one chunk.
fn one_chunk(bytes: usize) -> (Area, Table, TestHost) {
    let area = area_of(0, bytes, 1);
    let table = table_of(&area, 0, Policy::Fifo);
    (area, table, TestHost::default())
}

fn kill(table: &mut Table, host: &mut TestHost) {
    let chunk = table.find(KeyHash(HASH), KEY).unwrap();
    assert!(table.kill(&chunk, host));
}

/// Reads `old` on another thread while this one kills the chunk and uses it again, as if the lease had ended
/// in the middle of the read.
fn reuse_beside_a_read(preemptions: usize, chunk_bytes: usize, value_bytes: usize) {
    model(preemptions, move || {
        let (area, mut table, mut host) = one_chunk(chunk_bytes);
        let values = [vec![1; value_bytes], vec![2; value_bytes]];
        let old = load(&mut table, &mut host, &item(HASH, KEY, &values[0])).unwrap();
        let reader = {
            let (area, value) = (area.clone(), values[0].clone());
            thread::spawn(move || match read(&area, HASH, KEY, old) {
                Ok(read) => assert!(read == value, "torn: {read:?}"),
                Err(refusal) => assert!(refusal.may_retry() || refusal == Refusal::Version),
            })
        };
        kill(&mut table, &mut host);
        host.now_ns += WAIT_NS + 1;
        let new = load(&mut table, &mut host, &item(HASH, KEY, &values[1])).unwrap();
        assert_eq!(new.offset, old.offset);
        reader.join().unwrap();
        assert_eq!(read(&area, HASH, KEY, new).unwrap(), values[1]);
    });
}

/// The checksum refuses mixtures.
#[test]
fn loom_a_short_read_beside_the_reuse_of_its_chunk_sees_the_old_value_or_nothing() {
    reuse_beside_a_read(2, 64, 7);
}

/// The second header refuses mixtures: the fence of `Area::fill` pairs with the order of the two reads.
#[test]
fn loom_a_long_read_beside_the_reuse_of_its_chunk_sees_the_old_value_or_nothing() {
    reuse_beside_a_read(1, 128, 8);
}

/// The second header refuses mixtures with the versions of new, shorter chunks: the fence of `Area::carve`
/// pairs with the order of the two reads.
#[test]
fn loom_a_long_read_beside_the_carving_of_its_page_sees_the_old_value_or_nothing() {
    model(2, || {
        let (area, mut table, mut host) = one_chunk(128);
        // The version of the page's second short chunk lies in the value.
        let value = [1; 16];
        let old = load(&mut table, &mut host, &item(HASH, KEY, &value)).unwrap();
        let reader = {
            let area = area.clone();
            thread::spawn(move || {
                if let Ok(read) = read(&area, HASH, KEY, old) {
                    assert!(read == value, "torn: {read:?}");
                }
            })
        };
        kill(&mut table, &mut host);
        host.now_ns += WAIT_NS + 1;
        assert!(table.take(1, 1, &mut host).is_none());
        let taken = [table.take(1, 1, &mut host), table.take(1, 1, &mut host)];
        assert!(taken.iter().all(Option::is_some));
        reader.join().unwrap();
    });
}

/// A client forges the entry of a chunk that is not published yet.
#[test]
fn loom_a_read_beside_the_publication_sees_the_whole_value_or_nothing() {
    model(2, || {
        let (area, mut table, mut host) = one_chunk(64);
        let old = load(&mut table, &mut host, &item(HASH, KEY, b"old")).unwrap();
        kill(&mut table, &mut host);
        host.now_ns += WAIT_NS + 1;
        let forged = Entry { version: crate::layout::spread(2), ..old };
        let reader = {
            let area = area.clone();
            thread::spawn(move || {
                if let Ok(value) = read(&area, HASH, KEY, forged) {
                    assert_eq!(value, b"new");
                }
            })
        };
        let new = load(&mut table, &mut host, &item(HASH, KEY, b"new")).unwrap();
        assert_eq!(new, forged);
        reader.join().unwrap();
    });
}

/// Runs `end` and makes a change visible. A read that begins after the change was seen is refused.
fn ended_before_visible(refusal: Refusal, end: impl Fn(&mut Table, &mut TestHost) + Send + Sync + 'static) {
    model(2, move || {
        let (area, mut table, mut host) = one_chunk(64);
        let entry = load(&mut table, &mut host, &item(HASH, KEY, b"old")).unwrap();
        let visible = Arc::new(AtomicU64::new(0));
        let reader = {
            let (area, visible) = (area.clone(), Arc::clone(&visible));
            thread::spawn(move || {
                if visible.load(Ordering::Acquire) == 1 {
                    assert_eq!(read(&area, HASH, KEY, entry), Err(refusal));
                }
            })
        };
        end(&mut table, &mut host);
        visible.store(1, Ordering::Release);
        reader.join().unwrap();
    });
}

#[test]
fn loom_a_read_after_a_visible_change_does_not_see_the_killed_chunk() {
    ended_before_visible(Refusal::Version, kill);
}

#[test]
fn loom_a_read_after_a_visible_flush_sees_no_void_chunk() {
    ended_before_visible(Refusal::Void, |table, _| table.raise_void());
}
