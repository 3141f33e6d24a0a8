//! Items move within the logs beside a reader.

use super::*;
use crate::log::LogKind;
use crate::region::LogField;
use crate::writer::Writer;

/// Returns the place of the oldest item of main.
fn at_head(cache: &Cache) -> crate::partition::Place {
    let log = cache.partitions[0].log(LogKind::Main);
    let offset = log.get(LogField::Head);
    crate::partition::Place { log: LogKind::Main, offset, position: log.position(offset) }
}

/// Reads an item while a writer moves it: the reader finds it.
fn read_beside(change: fn(&Writer<'_>, &Cache)) {
    model(move || {
        let cache = tiny(16);
        Client::new(&cache, 0).set(b"k", &OLD);
        let reader = spawn(&cache, |cache| {
            if let Some(value) = look(cache, b"k") {
                assert_eq!(value.as_deref(), Some(OLD.as_slice()), "not found, or torn");
            }
        });
        change(&cache.partitions[0].writer(0), &cache);
        reader.join().unwrap();
        assert_eq!(read(&cache, b"k").as_deref(), Some(OLD.as_slice()));
    });
}

/// Covers the check of the version, and its fence (`Bucket::version_is_still`): a reader with the
/// old entry may see the new head, one with the new entry earlier bytes.
#[test]
fn loom_a_read_beside_a_move_to_the_tail_finds_its_item() {
    read_beside(|writer, cache| assert!(writer.requeue(&writer.found_at(0, at_head(cache)))));
}

/// An insertion copies an item to a new place (reinsertion, touch). Two orderings guard its bytes:
/// the check of the version, and the fence after the entries (`Partition::candidate`). It fails
/// without both.
#[test]
fn loom_a_read_beside_a_relocation_finds_its_item() {
    read_beside(|writer, _| {
        let hash = writer.partition.hash_of(b"k");
        let found = writer.lookup(hash, b"k").expect("an item");
        writer.relocate(hash, b"k", &found, found.expiry).expect("space");
    });
}
