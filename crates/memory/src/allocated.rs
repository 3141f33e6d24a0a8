//! Memory that the allocator has given out.

/// Returns the bytes that the process has allocated now, regions not included; `None` where the C library
/// does not count them.
#[cfg(all(target_env = "gnu", not(any(loom, miri))))]
pub fn allocated_bytes() -> Option<usize> {
    // SAFETY: takes no arguments, locks what it reads, and returns numbers.
    let found = unsafe { libc::mallinfo2() };
    Some(found.uordblks + found.hblkhd)
}

/// Returns `None`: the allocator does not count.
#[cfg(not(all(target_env = "gnu", not(any(loom, miri)))))]
pub fn allocated_bytes() -> Option<usize> {
    None
}

#[cfg(all(test, target_env = "gnu", not(any(loom, miri))))]
mod tests {
    use super::*;

    #[test]
    fn a_long_allocation_counts() {
        const BYTES: usize = 256 << 20;
        let before = allocated_bytes().unwrap();
        let held = std::hint::black_box(Vec::<u8>::with_capacity(BYTES));
        let during = allocated_bytes().unwrap();
        drop(held);
        // Other tests allocate meanwhile, much less.
        assert!(during > before + BYTES / 2, "{before} {during}");
        assert!(allocated_bytes().unwrap() < during - BYTES / 2);
    }
}
