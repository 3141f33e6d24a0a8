//! Time slices of a thread.

/// Slice of a thread that others wait for.
const SLICE_NS: u64 = 100_000;

/// Asks the kernel for short time slices for the calling thread. It has its share of the CPU as before, but
/// runs soon after it is woken, also beside programs that use up the CPU in slices of milliseconds. Kernels
/// before Linux 6.12 ignore it. Returns whether the kernel takes it.
pub fn shorten_slices() -> bool {
    let mut attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the kernel writes the attributes of this thread, at most as many bytes as it is told.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, attributes.size, 0) };
    // Other policies have another meaning of it.
    if got != 0 || attributes.sched_policy != libc::SCHED_OTHER as u32 {
        return false;
    }
    attributes.sched_runtime = SLICE_NS;
    // SAFETY: the kernel reads the attributes alone.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) == 0 }
}

#[cfg(all(test, not(any(loom, miri))))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_its_priority_with_short_slices() {
        // SAFETY: it takes numbers alone.
        let nice = || unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        let before = nice();
        assert!(shorten_slices());
        assert_eq!(nice(), before);
    }
}
