//! A small cache area, and a client that reads it one-sided.

use std::sync::Arc;
use std::time::Instant;

use micanite_chunks::reader::{Read, Wanted, accept};
use micanite_chunks::{Area, Geometry as AreaGeometry, Policy};
use micanite_memory::Region;

use crate::*;

const INCARNATION: u64 = 77;
/// A client of the model reads at once, so chunks may be used again soon.
pub(crate) const LEASE_NS: u64 = 1_000;
/// Pages of each partition: few, so that chunks are evicted and pages change their class.
const PAGES: usize = 3;
/// Bytes before the pages, for up to 64 partitions.
const HEAD_BYTES: usize = 8192;

/// Attaches an area that holds a part of the items.
pub(crate) fn attach(cache: &Cache, write: ChunkWrite, lease_ns: u64) {
    let partitions = cache.layout().partitions;
    let page_bytes = (cache.value_bytes_max() + 320).next_multiple_of(1024);
    let bytes = HEAD_BYTES + page_bytes * PAGES * partitions;
    let geometry = AreaGeometry::new(partitions.ilog2(), page_bytes, bytes).unwrap();
    let region = Arc::new(Region::private(geometry.bytes()).unwrap());
    let area = Area::new(region, geometry, INCARNATION).unwrap();
    cache.attach_area(&area, ChunkConfig { policy: Policy::Lru, lease_ns, write }).unwrap();
}

/// Returns value and flags, if a client that knows the entry accepts the bytes of the area.
pub(crate) fn read(
    cache: &Cache,
    (hash, key): (KeyHash, &[u8]),
    entry: ChunkEntry,
    now_s: u32,
    lease_ns: u64,
) -> Option<(Vec<u8>, u32)> {
    let area = cache.partitions[0].chunks.get()?.area();
    let bytes = |range: std::ops::Range<usize>| {
        let mut bytes = vec![0; range.len()];
        area.region().copy_out(range.start, &mut bytes);
        bytes
    };
    let [record, chunk] = area.geometry().ranges(hash, entry)?;
    let posted = Instant::now();
    let (record, chunk) = (bytes(record), bytes(chunk));
    let lasted_ns = if lease_ns == LEASE_NS { 0 } else { posted.elapsed().as_nanos() as u64 };
    let wanted =
        Wanted { entry, key, hash, incarnation: INCARNATION, second_max: u64::from(now_s), lease_ns };
    let read = Read { record: &record, chunk: &chunk, second_header: None, lasted_ns };
    accept(&wanted, &read).ok().map(|accepted| (accepted.value.to_vec(), accepted.flags))
}
