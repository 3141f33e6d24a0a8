//! Memory that the start of a killed store takes beside its image.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use micanite_engine::*;

/// The system's allocator, with a record of the most bytes taken at a time.
struct Measuring;

thread_local! {
    /// Bytes that this thread has, and the most of them.
    static BYTES: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

fn note(more: isize) {
    BYTES.with(|bytes| {
        let (now, most) = bytes.get();
        bytes.set((now + more, most.max(now + more)));
    });
}

#[expect(unsafe_code, reason = "the trait is unsafe")]
// SAFETY: every call goes to the system's allocator, which keeps the contract.
unsafe impl GlobalAlloc for Measuring {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as isize);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note(-(layout.size() as isize));
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Measuring = Measuring;

/// Bytes of a cache that are not the image: its tables, names, texts.
const ELSE_BYTES: usize = 256 << 10;

/// Proves that recovery takes a bit for each word of a partition. It once took 48 bytes for each
/// item: under a limit that left room for what is printed at the start, each recovery was killed.
#[test]
fn a_recovery_takes_a_bit_for_each_word_of_a_partition() {
    let path = std::env::temp_dir().join(format!("micanite-recovery-{}", std::process::id()));
    let config = Config {
        memory_bytes: 32 << 20,
        partition_bytes_max: 32 << 20,
        value_bytes_max: 10_000,
        semantics: Semantics::Store,
        image: Some(path.clone()),
        ..Config::default()
    };
    let cache = Arc::new(Cache::new(&config).unwrap());
    let mut worker = cache.worker(0).unwrap();
    let mut items = 0u64;
    while worker.set(&items.to_le_bytes(), b"value", Expiry::NEVER, 1000) == Outcome::Stored {
        items += 1;
    }
    drop(worker);
    drop(cache); // as by a kill
    let before = BYTES.get().0;
    BYTES.set((before, before));
    let cache = Cache::new(&config).unwrap();
    let taken = (BYTES.get().1 - before) as usize;
    std::fs::remove_dir_all(path).unwrap();
    assert_eq!(*cache.image_state(), ImageState::Recovered);
    assert_eq!(cache.stats().items_live, items);
    let most = cache.layout().recovery_bytes() + ELSE_BYTES;
    assert!(taken <= most && most < items as usize * 4, "{taken} bytes for {items} items");
}
