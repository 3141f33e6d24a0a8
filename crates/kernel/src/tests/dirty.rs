//! Items whose newest value is in the cache area of one-sided reads only.

use std::sync::Arc;

use micanite_chunks::{Area, Geometry, Policy};
use micanite_engine::{ChunkConfig, ChunkWrite, Condition, Config, Expiry, Operation};
use micanite_memory::Region;

use super::fixture::{Fixture, can_load, now_s};

const PAGE_BYTES: usize = 2 << 20;

#[test]
fn dirty_items_are_passed_to_the_owner() {
    if !can_load() {
        return;
    }
    let mut fixture = Fixture::new(Config { memory_bytes: 16 << 20, ..Config::default() });
    let partitions = fixture.cache.layout().partitions;
    let geometry = Geometry::new(partitions.ilog2(), PAGE_BYTES, (1 + partitions) * PAGE_BYTES).unwrap();
    let area = Area::new(Arc::new(Region::private(geometry.bytes()).unwrap()), geometry, 1).unwrap();
    let config = ChunkConfig { policy: Policy::Lru, lease_ns: 1000, write: ChunkWrite::Back };
    fixture.cache.attach_area(&area, config).unwrap();

    fixture.set("key", b"old", 0, Expiry::NEVER);
    fixture.execute(b"key", Operation::GetEntry);
    assert_eq!(fixture.ask("get key\r\n").as_deref(), Some("VALUE key 0 3\r\nold\r\nEND\r\n"));
    let (condition, value) = (Condition::Always, b"new".as_slice());
    fixture.execute(b"key", Operation::StoreEntry { condition, value, flags: 0, expiry: Expiry::NEVER });
    assert_eq!(fixture.cache.dirty_chunks(), 1);
    assert_eq!(fixture.ask("get key\r\n"), None);
    assert_eq!(fixture.counters().passed_dirty, 1);

    fixture.cache.end_write_back();
    fixture.worker.maintain(now_s());
    assert_eq!(fixture.cache.dirty_chunks(), 0);
    assert_eq!(fixture.ask("get key\r\n").as_deref(), Some("VALUE key 0 3\r\nnew\r\nEND\r\n"));
}
