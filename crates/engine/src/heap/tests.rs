//! Tests of the heap against a naive twin, and at its limits.

use std::collections::BTreeMap;

use crate::region::Region;
use micanite_memory::sync::Ordering::Relaxed;
use proptest::prelude::*;

use super::classes::{self, CLASS_UNITS_EXACT, POSITION_BITS};
use super::{ALLOCATED_UNITS, BLOCK_UNITS_MIN, Heap, PREVIOUS_FREE};
use crate::limits::FIT_CANDIDATES_MAX;

/// A space of this many words behind the state of a heap, in a region of its own.
pub(super) struct Space {
    region: Region,
    units_max: usize,
    pub(super) first: usize,
}

impl Space {
    pub(super) fn new(words: usize, units_max: usize) -> Self {
        let first = 8 + Heap::state_words(units_max);
        let region = Region::private((first + words) * 8).unwrap();
        let space = Self { region, units_max, first };
        space.heap().format(first, first + words);
        space
    }

    pub(super) fn heap(&self) -> Heap<'_> {
        Heap::new(&self.region, 8, self.units_max)
    }
}

/// The naive twin: the allocated blocks, and the end of the space.
pub(super) struct Twin {
    pub(super) allocated: BTreeMap<usize, usize>,
    pub(super) first: usize,
    pub(super) end: usize,
}

impl Twin {
    fn free_intervals(&self) -> Vec<(usize, usize)> {
        let mut free = Vec::new();
        let mut reached = self.first;
        let ends = std::iter::once((self.end - 1, 0));
        for (block, units) in self.allocated.iter().map(|(&b, &u)| (b, u)).chain(ends) {
            if block > reached {
                free.push((reached, block - reached));
            }
            reached = block + units;
        }
        free
    }
}

#[derive(Clone, Debug)]
enum Step {
    Allocate(usize),
    Free(usize),
    Shrink(usize),
    Rebuild,
}

fn steps(units: impl Strategy<Value = usize> + 'static) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => units.prop_map(Step::Allocate),
        5 => any::<usize>().prop_map(Step::Free),
        1 => (0_usize..40).prop_map(Step::Shrink),
        1 => Just(Step::Rebuild),
    ];
    prop::collection::vec(step, 1..120)
}

/// Bits that the tests write into the caller's part of a header.
pub(super) const CALLERS: u64 = 0x0fff_ffff << 30;

fn run(words: usize, units_max: usize, steps: &[Step]) {
    let space = Space::new(words, units_max);
    let heap = space.heap();
    let mut twin = Twin { allocated: BTreeMap::new(), first: space.first, end: space.first + words };
    for step in steps {
        match *step {
            Step::Allocate(units) => allocate(&heap, &mut twin, units),
            Step::Free(any) if !twin.allocated.is_empty() => {
                let block = *twin.allocated.keys().nth(any % twin.allocated.len()).unwrap();
                twin.allocated.remove(&block);
                heap.free(block);
            }
            Step::Free(_) => {}
            Step::Shrink(units) => shrink(&heap, &mut twin, units),
            Step::Rebuild => {
                let items = twin.allocated.iter().map(|(&b, &u)| (b, u));
                assert!(heap.rebuild(twin.first, twin.end, items));
            }
        }
        compare(&heap, &twin);
    }
    for &block in twin.allocated.keys() {
        heap.free(block);
    }
    twin.allocated.clear();
    compare(&heap, &twin);
    assert_eq!(heap.units_free(), heap.units_largest(), "one region again");
}

fn allocate(heap: &Heap<'_>, twin: &mut Twin, units: usize) {
    let wanted = units.max(BLOCK_UNITS_MIN);
    let fitting = twin.free_intervals().into_iter().filter(|&(_, free)| free >= wanted);
    let fitting: BTreeMap<usize, usize> = fitting.collect();
    let before = image(heap);
    let Some(block) = heap.allocate(units) else {
        assert!(fitting.is_empty() || wanted > heap.units_max);
        assert_eq!(before, image(heap), "a refused allocation changed something");
        return;
    };
    let whole = fitting[&block];
    let smallest = *fitting.values().min().unwrap();
    assert_eq!(heap.class(whole), heap.class(smallest), "not the best fit");
    let header = heap.load(block);
    let units = header as usize & ALLOCATED_UNITS as usize;
    let rest = whole - wanted;
    assert_eq!(units, if rest < BLOCK_UNITS_MIN { whole } else { wanted });
    assert_eq!(header, units as u64);
    heap.store(block, header | CALLERS);
    for word in block + 1..block + units {
        heap.store(word, u64::MAX - block as u64);
    }
    twin.allocated.insert(block, units);
}

fn shrink(heap: &Heap<'_>, twin: &mut Twin, units: usize) {
    let free = twin.free_intervals();
    let last = free.last().filter(|&&(block, free)| block + free == twin.end - 1);
    let last_units = last.map_or(0, |&(_, units)| units);
    let rest = last_units.checked_sub(units);
    let expected = rest.is_some();
    let before = image(heap);
    assert_eq!(heap.lower_end(twin.end - units), expected);
    if let Some(rest) = rest.filter(|_| units > 0) {
        // A rest that is too small for a block goes, too.
        twin.end -= units + if rest < BLOCK_UNITS_MIN { rest } else { 0 };
    } else {
        assert_eq!(before, image(heap), "a refused shrink changed something");
    }
}

/// Returns every word of the region.
fn image(heap: &Heap<'_>) -> Vec<u64> {
    (0..heap.region.words()).map(|word| heap.load(word)).collect()
}

/// Checks that the heap is sound and equals the twin, and that no item was written.
pub(super) fn compare(heap: &Heap<'_>, twin: &Twin) {
    heap.check();
    assert_eq!(heap.end(), twin.end);
    let (mut allocated, mut free) = (BTreeMap::new(), Vec::new());
    heap.walk(|block, units, is_free| {
        if is_free {
            free.push((block, units));
        } else {
            allocated.insert(block, units);
        }
    });
    assert_eq!(allocated, twin.allocated);
    assert_eq!(free, twin.free_intervals());
    for (&block, &units) in &twin.allocated {
        let header = heap.load(block);
        assert_eq!(header & !PREVIOUS_FREE, CALLERS | units as u64);
        for word in block + 1..block + units {
            assert_eq!(heap.load(word), u64::MAX - block as u64, "an item was written");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 300 }))]

    /// Proves that sizes with classes of their own behave like the twin, in a space that fills up.
    #[test]
    fn small_blocks_like_the_twin(steps in steps(0_usize..40)) {
        run(400, 64, &steps);
    }

    /// Proves that sizes that share classes behave like the twin.
    #[test]
    fn large_blocks_like_the_twin(steps in steps(0_usize..600)) {
        // The exact classes end early, so that the lists and the first fit get some work.
        run(4000, 16, &steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 0 } else { 16 }))]

    /// Proves that sizes on both sides of the largest class of its own behave like the twin.
    #[test]
    fn huge_blocks_like_the_twin(steps in steps(CLASS_UNITS_EXACT - 20..CLASS_UNITS_EXACT + 9000)) {
        let steps = &steps[..steps.len().min(24)];
        run(6 * CLASS_UNITS_EXACT, CLASS_UNITS_EXACT + 8000, steps);
    }
}

#[test]
fn classes_grow_with_the_size() {
    for units_exact in [3, 16, 64, 1000, CLASS_UNITS_EXACT] {
        let mut previous = classes::class(BLOCK_UNITS_MIN, units_exact);
        assert_eq!(previous, BLOCK_UNITS_MIN);
        for units in BLOCK_UNITS_MIN + 1..4 * CLASS_UNITS_EXACT {
            let class = classes::class(units, units_exact);
            let step = class - previous;
            assert!(if units <= units_exact { step == 1 } else { step <= 1 || units < 128 });
            previous = class;
        }
        let last = classes::class((1 << POSITION_BITS) - 1, units_exact);
        assert_eq!(last + 1, classes::count(units_exact));
    }
}

#[test]
fn the_smallest_block_has_room_for_its_tags() {
    let space = Space::new(10, 8);
    let heap = space.heap();
    let blocks: Vec<_> = (0..3).map(|_| heap.allocate(1).unwrap()).collect();
    assert_eq!(heap.allocate(1), None);
    assert_eq!((heap.units_free(), heap.units_largest()), (0, 0));
    heap.check();
    for block in [blocks[1], blocks[0], blocks[2]] {
        heap.free(block);
        heap.check();
    }
    assert_eq!(heap.units_largest(), 9);
}

#[test]
fn a_rest_too_small_for_a_block_stays_with_the_block() {
    for (words, taken) in [(11, 10), (12, 11), (13, 9)] {
        let space = Space::new(words, 9);
        let heap = space.heap();
        let block = heap.allocate(9).unwrap();
        assert_eq!(heap.load(block), taken);
        assert_eq!(heap.units_free(), words - 1 - taken as usize);
        heap.check();
        heap.free(block);
        heap.check();
    }
}

#[test]
fn more_than_the_largest_block_is_refused() {
    let space = Space::new(1000, 100);
    assert_eq!(space.heap().allocate(101), None);
    assert_eq!(space.heap().allocate(usize::MAX), None);
    assert!(space.heap().allocate(100).is_some());
}

#[test]
fn the_first_block_that_is_large_enough_is_taken_from_a_shared_class() {
    let (units, more) = (CLASS_UNITS_EXACT + 3000, 500);
    let space = Space::new(4 * CLASS_UNITS_EXACT, units + more);
    let heap = space.heap();
    assert_eq!(heap.class(units), heap.class(units + more));
    let large = heap.allocate(units + more).unwrap();
    heap.allocate(3).unwrap();
    let small = heap.allocate(units).unwrap();
    heap.allocate(3).unwrap();
    heap.free(large);
    heap.free(small);
    heap.check();
    // The head of the list is too small.
    assert_eq!(heap.allocate(units + 1), Some(large));
    assert_eq!(heap.allocate(units), Some(small));
    heap.check();
}

/// Proves that an allocation examines a bounded number of blocks: after one too many small ones it
/// takes a block of a larger class, although a block that fits follows.
#[test]
fn a_long_list_of_blocks_that_are_too_small_is_given_up() {
    let (units, more) = (CLASS_UNITS_EXACT + 3000, 500);
    for too_small in [FIT_CANDIDATES_MAX - 1, FIT_CANDIDATES_MAX] {
        let space = Space::new((too_small + 4) * CLASS_UNITS_EXACT * 9 / 8, 2 * units);
        let heap = space.heap();
        let taken = |units| {
            let block = heap.allocate(units).unwrap();
            heap.allocate(3).unwrap();
            block
        };
        let (fitting, larger) = (taken(units + more), taken(units * 5 / 4));
        assert_eq!(heap.class(units), heap.class(units + more));
        let small: Vec<_> = (0..too_small).map(|_| taken(units)).collect();
        heap.free(fitting);
        heap.free(larger);
        small.into_iter().for_each(|block| heap.free(block));
        let expected = match too_small {
            FIT_CANDIDATES_MAX => larger,
            _ => fitting,
        };
        assert_eq!(heap.allocate(units + 1), Some(expected));
        heap.check();
    }
}

/// Proves that a block that fits is found, however many blocks before it are too small. A store
/// once refused a value that a free block had room for.
#[test]
fn a_free_block_that_fits_is_found_behind_others_of_its_class() {
    let units = CLASS_UNITS_EXACT + 3000;
    let too_small = FIT_CANDIDATES_MAX;
    let space = Space::new((too_small + 3) * CLASS_UNITS_EXACT * 9 / 8, 2 * units);
    let heap = space.heap();
    let taken = |units| {
        let block = heap.allocate(units).unwrap();
        heap.allocate(3).unwrap();
        block
    };
    let fitting = taken(units + 500);
    let small: Vec<_> = (0..too_small).map(|_| taken(units)).collect();
    while heap.allocate(units / 2).is_some() {}
    heap.free(fitting);
    small.into_iter().for_each(|block| heap.free(block));
    assert_eq!(heap.allocate(units + 1), Some(fitting));
    heap.check();
}

/// Proves that a second free of a merged block changes nothing. Where free blocks overlapped in a
/// damaged image, the process once ended.
#[test]
fn a_block_that_was_merged_is_not_freed_again() {
    let space = Space::new(100, 20);
    let heap = space.heap();
    let blocks = [heap.allocate(5).unwrap(), heap.allocate(6).unwrap()];
    heap.free(blocks[0]);
    heap.free(blocks[1]);
    heap.free(blocks[1]);
    heap.check();
    assert_eq!(heap.units_free(), 99);
}

/// Proves that the units of a list that was given up are not counted. They once were, and the store
/// was refused at its next start.
#[test]
fn a_list_that_was_given_up_is_not_counted() {
    let space = Space::new(100, 20);
    let heap = space.heap();
    let blocks: Vec<_> = (0..6).map(|_| heap.allocate(5).unwrap()).collect();
    heap.free(blocks[1]);
    heap.free(blocks[3]);
    space.region.word(blocks[3]).store(0, Relaxed); // the head of its list
    assert!(heap.allocate(5).is_some_and(|block| block > blocks[5]));
    assert_eq!(heap.units_free(), 99 - 7 * 5);
    heap.check_free(space.first, space.first + 100).unwrap();
}

#[test]
fn lists_that_the_heap_cannot_have_made_are_refused() {
    let space = Space::new(100, 20);
    let (heap, first) = (space.heap(), space.first);
    let end = first + 100;
    let rebuilt = |items: &[(usize, usize)]| {
        heap.rebuild(first, end, items.iter().map(|&(at, units)| (first + at, units)))
    };
    assert!(rebuilt(&[(0, 10), (10, 3), (16, 83)]));
    heap.check();
    assert!(!rebuilt(&[(0, 10), (9, 5)]), "overlap");
    assert!(!rebuilt(&[(20, 10), (0, 5)]), "order");
    assert!(!rebuilt(&[(0, 10), (12, 5)]), "gap");
    assert!(!rebuilt(&[(0, 2)]), "small");
    assert!(!rebuilt(&[(90, 10)]), "end");
    assert!(!rebuilt(&[(200, 3)]), "bounds");
    assert!(!rebuilt(&[(0, usize::MAX)]), "size");
}
