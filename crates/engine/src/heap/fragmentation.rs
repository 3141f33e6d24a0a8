//! Test of fragmentation: live bytes over the space at the first failure.
//!
//! The test fills a store while its items come and go. Each step replaces [`REPLACED`] random items
//! by new ones and adds one, until an allocation is refused. By then every item has been replaced
//! about that many times, so that the free space is as scattered as it gets.

use super::tests::Space;

const SPACE_BYTES: usize = if cfg!(miri) { 64 << 10 } else { 16 << 20 };
const ITEM_BYTES_MAX: usize = 8 << 10;
/// Items replaced for each that is added.
const REPLACED: usize = 10;

/// SplitMix64: the runs are the same each time.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % bound as u64) as usize
    }
}

/// Returns live bytes over space at the first failure. `item_bytes` returns a size, given the fill
/// of the space in thousandths.
fn utilization(mut item_bytes: impl FnMut(&mut Random, usize) -> usize) -> f64 {
    let space = Space::new(SPACE_BYTES / 8, ITEM_BYTES_MAX / 8);
    let heap = space.heap();
    let mut random = Random(1);
    let mut live: Vec<(usize, usize)> = Vec::new();
    let mut live_bytes = 0;
    loop {
        for replaced in 0..=REPLACED {
            if replaced < REPLACED && !live.is_empty() {
                let (block, bytes) = live.swap_remove(random.below(live.len()));
                heap.free(block);
                live_bytes -= bytes;
            }
            let bytes = item_bytes(&mut random, live_bytes * 1000 / SPACE_BYTES);
            let Some(block) = heap.allocate(bytes.div_ceil(8)) else {
                heap.check();
                return live_bytes as f64 / SPACE_BYTES as f64;
            };
            live.push((block, bytes));
            live_bytes += bytes;
        }
    }
}

fn assert_floor(name: &str, floor: f64, item_bytes: impl FnMut(&mut Random, usize) -> usize) {
    let utilization = utilization(item_bytes);
    println!("fragmentation, {name}: {:.1} % live at the first failure", utilization * 100.0);
    assert!(cfg!(miri) || utilization > floor, "{utilization}");
}

#[test]
fn uniform_sizes() {
    assert_floor("uniform 64 to 1024 bytes", 0.90, |random, _| 64 + random.below(961));
}

#[test]
fn bimodal_sizes() {
    assert_floor("bimodal, 9 of 10 of 64 to 128 and 1 of 2048 to 6144 bytes", 0.90, |random, _| {
        if random.below(10) > 0 { 64 + random.below(65) } else { 2048 + random.below(4097) }
    });
}

/// Proves that growing sizes leave no space stranded, as slabs of fixed classes do.
#[test]
fn growing_sizes() {
    assert_floor("drifting from 100 to 1000 bytes", 0.90, |random, full| {
        around(random, 100 + 900 * full / 1000)
    });
}

#[test]
fn shrinking_sizes() {
    assert_floor("drifting from 1000 to 100 bytes", 0.90, |random, full| {
        around(random, 1000 - 900 * full / 1000)
    });
}

/// Returns half to one and a half of the mean.
fn around(random: &mut Random, mean: usize) -> usize {
    mean / 2 + random.below(mean)
}
