//! Huge pages for the peers: a hash table on 4 KiB pages beside an engine on 2 MiB pages would
//! measure the pages. An allocator, because the C library's own switch for this
//! (`glibc.malloc.hugetlb=1`) takes effect at some starts and not at others with glibc 2.36, and
//! leaves out most of what grows. What the peers got is measured and reported.

use std::alloc::{GlobalAlloc, Layout, System};

const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Allocations from here on are aligned to huge pages and ask for them.
const LARGE_BYTES: usize = 2 * HUGE_PAGE_BYTES;

/// The system's allocator, with transparent huge pages under what is large.
pub(crate) struct HugePages;

#[global_allocator]
static ALLOCATOR: HugePages = HugePages;

/// The layout as it is asked for from the system.
fn aligned(layout: Layout) -> Layout {
    if layout.size() < LARGE_BYTES {
        return layout;
    }
    layout.align_to(HUGE_PAGE_BYTES).unwrap_or(layout)
}

#[expect(unsafe_code, reason = "an allocator; benchmarks only")]
// SAFETY: every call goes to the system's allocator, with a layout that depends on nothing but
// the layout given, at least as strict, and the same for alloc and dealloc.
unsafe impl GlobalAlloc for HugePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract; the size is the caller's, not zero.
        let start = unsafe { System.alloc(aligned(layout)) };
        if layout.size() >= LARGE_BYTES && !start.is_null() {
            // SAFETY: advice about memory that was just allocated; it changes no contents, and
            // may fail.
            unsafe { libc::madvise(start.cast(), layout.size(), libc::MADV_HUGEPAGE) };
        }
        start
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: as allocated above, with the same layout.
        unsafe { System.dealloc(start, aligned(layout)) };
    }
}
