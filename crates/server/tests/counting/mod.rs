//! The system's allocator with a counter of calls.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

/// Returns the calls of this thread. The test harness and a recording's writer have threads of their own,
/// which may allocate.
pub fn calls() -> u64 {
    CALLS.with(Cell::get)
}

fn count() {
    CALLS.with(|calls| calls.set(calls.get() + 1));
}

#[expect(unsafe_code, reason = "the trait is unsafe")]
// SAFETY: everything is passed on to the system's allocator, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count();
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
