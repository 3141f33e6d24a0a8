//! An area, a host with a clock of its own, and reads as a client would do them.

use std::sync::Arc;

use micanite_memory::Region;
use micanite_memory::sync::{Ordering::Acquire, fence};
use micanite_wire::hash::KeyHash;

use crate::layout::HEADER_BYTES;
use crate::reader::{Accepted, Read, Refusal, Wanted, accept};
use crate::*;

pub const INCARNATION: u64 = 0x1234_5678_9abc_def0;
pub const LEASE_NS: u64 = 100_000_000;
/// Time after which a dead chunk is free.
pub const WAIT_NS: u64 = LEASE_NS / 100 * 103;

/// Host whose clock stands still until a test moves it.
#[derive(Debug, Default)]
pub struct TestHost {
    pub now_ns: u64,
    pub copied_back: Vec<Entry>,
    /// It drops what it is to copy back.
    pub drops: bool,
}

impl Host for TestHost {
    fn now_ns(&mut self) -> u64 {
        self.now_ns
    }

    fn copy_back(&mut self, area: &Area, chunk: &Chunk) -> CopyBack {
        assert!(chunk.is_dirty);
        assert_eq!(area.header(chunk.entry).map(|header| header.version), Some(chunk.entry.version));
        self.copied_back.push(chunk.entry);
        if self.drops { CopyBack::Dropped } else { CopyBack::Kept }
    }
}

/// Makes an area of so many pages in all.
pub fn area_of(partition_bits: u32, page_bytes: usize, pages: usize) -> Area {
    let start = Geometry::new(partition_bits, page_bytes, 1 << 30).unwrap().page_start(0);
    let geometry = Geometry::new(partition_bits, page_bytes, start + pages * page_bytes).unwrap();
    let region = Arc::new(Region::private(geometry.bytes()).unwrap());
    Area::new(region, geometry, INCARNATION).unwrap()
}

pub fn table_of(area: &Area, partition: usize, policy: Policy) -> Table {
    Table::new(area, partition, Config { policy, lease_ns: LEASE_NS }).unwrap()
}

/// Returns an item without flags that does not expire.
pub fn item<'a>(hash: u64, key: &'a [u8], value: &'a [u8]) -> Item<'a> {
    Item { hash: KeyHash(hash), key, value, flags: 0, expiry_s: 0 }
}

/// Takes, fills and publishes a chunk.
pub fn load(table: &mut Table, host: &mut impl Host, item: &Item<'_>) -> Option<Entry> {
    let mut taken = table.take(item.key.len(), item.value.len(), host)?;
    assert!(taken.fill(&table.area().clone(), item));
    table.publish(taken, host)
}

/// Bytes that the reads of a client brought.
pub struct Brought {
    pub record: Vec<u8>,
    pub chunk: Vec<u8>,
    pub second_header: Vec<u8>,
}

/// Reads record and chunk, and the header again if it is needed.
pub fn bring(area: &Area, hash: u64, entry: Entry) -> Brought {
    let [record, chunk] = area.geometry().ranges(KeyHash(hash), entry).unwrap();
    let copy = |first: usize, bytes: usize| {
        let mut target = vec![0; bytes];
        area.region().copy_out(first, &mut target);
        target
    };
    let first = (copy(record.start, record.len()), copy(chunk.start, chunk.len()));
    // The second read is posted after the first has completed.
    fence(Acquire);
    let second_header =
        if entry.needs_second_header() { copy(chunk.start, HEADER_BYTES) } else { Vec::new() };
    Brought { record: first.0, chunk: first.1, second_header }
}

impl Brought {
    /// Judges the bytes at second 1, as those of a fast read.
    pub fn accept(&self, hash: u64, key: &[u8], entry: Entry) -> Result<Accepted<'_>, Refusal> {
        let hash = KeyHash(hash);
        let wanted = Wanted { entry, key, hash, incarnation: INCARNATION, second_max: 1, lease_ns: LEASE_NS };
        let second_header = entry.needs_second_header().then_some(&self.second_header[..]);
        accept(&wanted, &Read { record: &self.record, chunk: &self.chunk, second_header, lasted_ns: 0 })
    }
}

/// Reads an item as a client does: its value, or the broken rule.
pub fn read(area: &Area, hash: u64, key: &[u8], entry: Entry) -> Result<Vec<u8>, Refusal> {
    bring(area, hash, entry).accept(hash, key, entry).map(|accepted| accepted.value.to_vec())
}
