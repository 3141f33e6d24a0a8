//! Small engines: each is short of something else.

use crate::tests::support::Setup;
use crate::*;

pub(crate) const CACHE_SHAPES: usize = 5;
pub(crate) const STORE_SHAPES: usize = 5;

/// Returns a cache of a shape; draws policy, number of partitions, workers, first access mode and
/// backing.
pub(crate) fn cache_geometry(shape: usize, drawn: usize) -> Setup {
    let (buckets, data_units, offset_bits, value_bytes_max, grows) = match shape % CACHE_SHAPES {
        0 => (64, 16 * 512, 45, 300, false), // room for everything
        1 => (4, 1024, 13, 300, false),      // log and buckets too small, offsets that wrap often
        2 => (2, 512, 12, 2000, false),      // items of half a log
        3 => (48, 512, 11, 40, false),       // offsets of 11 bits: they repeat after 4 logs
        _ if drawn.is_multiple_of(2) => (2, 2048, 20, 100, true), // an index that grows
        _ => (2, 2048, 45, 100, true),       // the same in images of an earlier version
    };
    Setup {
        partition_bits: (drawn / 10 % 3).saturating_sub(1) as u32,
        buckets,
        data_units,
        grows,
        offset_bits,
        value_bytes_max,
        eviction: Eviction::ALL[drawn % 5],
        workers: 1 + drawn / 5 % 2,
        access: access(drawn),
        maps: in_maps(drawn),
        area: area(drawn),
        ..Setup::default()
    }
}

/// Returns a store of a shape; the rest is drawn.
pub(crate) fn store_geometry(shape: usize, drawn: usize) -> Setup {
    let (buckets, data_units, value_bytes_max, grows) = match shape % STORE_SHAPES {
        0 => (64, 16 * 1024, 300, false), // room for everything
        1 => (32, 400, 300, false),       // too little space
        2 => (2, 4096, 1100, false),      // too few entries
        3 => (2, 2048, 100, true),        // an index that grows
        _ => (2, 900, 400, true),         // an index that grows where long items lie
    };
    Setup {
        partition_bits: (drawn / 2 % 3).saturating_sub(1) as u32,
        buckets,
        data_units,
        grows,
        value_bytes_max,
        semantics: Semantics::Store,
        workers: 1 + drawn % 2,
        access: access(drawn),
        maps: in_maps(drawn),
        area: area(drawn),
        ..Setup::default()
    }
}

/// Draws maps; the checkers cannot map.
fn in_maps(drawn: usize) -> bool {
    drawn % 3 == 2 && !cfg!(any(miri, loom))
}

/// Draws a cache area; miri has no clock for it.
fn area(drawn: usize) -> Option<ChunkWrite> {
    match drawn / 2 % 3 {
        _ if cfg!(miri) => None,
        0 => None,
        1 => Some(ChunkWrite::Through),
        _ => Some(ChunkWrite::Back),
    }
}

fn access(drawn: usize) -> Access {
    [Access::Crcw, Access::Erew, Access::Crew][drawn / 7 % 3]
}
