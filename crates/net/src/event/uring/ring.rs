//! The kernel's ring. Entries wait for the next enter.

use std::io;

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{CompletionQueue, IoUring, Submitter, squeue};
use nix::errno::Errno;

use crate::limits::{URING_COMPLETIONS, URING_SUBMISSIONS};

/// Flags of `io_uring_enter`.
const ENTER_GETEVENTS: u32 = 1;
const ENTER_EXT_ARG: u32 = 1 << 3;
/// Linux 6.15: a waiting thread does not count as waiting for disks.
const ENTER_NO_IOWAIT: u32 = 1 << 7;

/// An io_uring of one thread.
pub(super) struct Ring {
    ring: IoUring,
    wait_flags: u32,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Ring").finish_non_exhaustive()
    }
}

impl Ring {
    /// Creates a ring for this thread.
    pub fn new() -> io::Result<Self> {
        let ring = IoUring::builder()
            .dontfork()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_clamp()
            .setup_cqsize(URING_COMPLETIONS)
            .build(URING_SUBMISSIONS)?;
        let params = ring.params();
        if !params.is_feature_ext_arg() || !params.is_feature_nodrop() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let mut wait_flags = ENTER_GETEVENTS | ENTER_EXT_ARG;
        if params.is_feature_no_iowait() {
            wait_flags |= ENTER_NO_IOWAIT;
        }
        // Faster, but not available everywhere.
        let _ = ring.submitter().register_ring_fd();
        Ok(Self { ring, wait_flags })
    }

    /// Returns the submitter, to register with the ring.
    pub fn submitter(&self) -> Submitter<'_> {
        self.ring.submitter()
    }

    #[inline]
    pub fn completions(&mut self) -> CompletionQueue<'_> {
        self.ring.completion()
    }

    /// Returns whether the kernel holds completions that had no room in the queue.
    #[inline]
    pub fn has_overflown(&mut self) -> bool {
        self.ring.submission().cq_overflow()
    }

    /// Queues an entry for the next enter; `false` when the queue is full.
    pub fn push(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: none of our entries points to memory. Their descriptors are open until they are
        // submitted; a receive keeps its socket, and the buffers it fills are the pool's, which
        // outlives the ring.
        unsafe { self.ring.submission().push(entry) }.is_ok()
    }

    /// Submits queued entries, without waiting.
    pub fn submit(&mut self) -> io::Result<()> {
        let submit = self.ring.submission().len() as u32;
        if submit == 0 {
            return Ok(());
        }
        let submitter = self.ring.submitter();
        // SAFETY: there are no arguments.
        unsafe { submitter.enter::<libc::sigset_t>(submit, 0, 0, None) }.map(drop)
    }

    /// Returns whether an enter without waiting would do anything.
    pub fn has_something(&mut self) -> bool {
        let queue = self.ring.submission();
        !queue.is_empty() || queue.taskrun() || queue.cq_overflow()
    }

    /// Submits, and waits for a completion.
    pub fn enter(&mut self, timeout_ms: u16) -> io::Result<()> {
        let submit = self.ring.submission().len() as u32;
        let time =
            Timespec::new().sec(u64::from(timeout_ms / 1000)).nsec(u32::from(timeout_ms % 1000) * 1_000_000);
        let arguments = SubmitArgs::new().timespec(&time);
        let least = u32::from(timeout_ms > 0);
        let flags = self.wait_flags;
        let submitter = self.ring.submitter();
        // SAFETY: the arguments are those that the flags announce, and live during the call.
        let entered = unsafe { submitter.enter(submit, least, flags, Some(&arguments)) };
        match entered.map_err(|error| error.raw_os_error().map(Errno::from_raw)) {
            Ok(_) => Ok(()),
            // The time is over, a signal arrived, or completions have to be processed first.
            Err(Some(Errno::ETIME | Errno::EINTR | Errno::EBUSY | Errno::EAGAIN)) => Ok(()),
            Err(errno) => Err(errno.unwrap_or(Errno::EIO).into()),
        }
    }
}
