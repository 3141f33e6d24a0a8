//! Detects a fork without a system call.

use std::io;

use crate::sync::Ordering::Relaxed;
use crate::{PAGE_BYTES, Region};

/// A word that the kernel wipes in a child process.
#[derive(Debug)]
pub struct ForkMark(Region);

impl ForkMark {
    /// Makes a mark of this process.
    ///
    /// # Errors
    /// Returns the error of `mmap` or `madvise`.
    pub fn new() -> io::Result<Self> {
        let region = Region::private(PAGE_BYTES)?;
        region.wipe_on_fork()?;
        region.word(0).store(1, Relaxed);
        Ok(Self(region))
    }

    /// Returns whether this process made the mark, and is no child of the one that did.
    #[inline]
    pub fn is_of_this_process(&self) -> bool {
        self.0.word(0).load(Relaxed) == 1
    }
}

#[cfg(all(test, not(any(loom, miri))))]
mod tests {
    use super::*;
    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::{ForkResult, fork};

    /// A child sees that it is one; the parent does not change.
    #[test]
    fn a_child_does_not_take_the_mark_for_its_own() {
        let mark = ForkMark::new().unwrap();
        assert!(mark.is_of_this_process());
        // SAFETY: the child only loads a word and exits.
        match unsafe { fork() }.unwrap() {
            ForkResult::Child => {
                let code = i32::from(mark.is_of_this_process());
                // SAFETY: it ends the child without running destructors.
                unsafe { libc::_exit(code) }
            }
            ForkResult::Parent { child } => {
                assert_eq!(waitpid(child, None).unwrap(), WaitStatus::Exited(child, 0));
            }
        }
        assert!(mark.is_of_this_process());
    }
}
