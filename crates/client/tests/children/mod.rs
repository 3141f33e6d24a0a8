//! Children of a fork.

use std::panic::{AssertUnwindSafe, catch_unwind};

use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, alarm, fork};

/// Time after which a child that hangs is ended by a signal.
const ALARM_S: u32 = 60;

/// A child that does some work. It is waited for by [`Child::end`].
pub struct Child(Pid);

impl Child {
    /// Forks. The child works, and ends; its status says whether all was well.
    #[expect(unsafe_code, reason = "fork is unsafe")]
    pub fn start(work: impl FnOnce() -> bool) -> Self {
        // SAFETY: the child runs on a copy of this thread alone, allocates by an allocator that is prepared
        // for forks, and ends without destructors.
        match unsafe { fork() }.unwrap() {
            ForkResult::Child => {
                alarm::set(ALARM_S);
                let code = match catch_unwind(AssertUnwindSafe(work)) {
                    Ok(true) => 0,
                    Ok(false) => 1,
                    Err(_) => 2,
                };
                // SAFETY: it ends the process, and takes a number.
                unsafe { libc::_exit(code) }
            }
            ForkResult::Parent { child } => Self(child),
        }
    }

    /// Waits for the child, all of whose work was well.
    pub fn end(self) {
        assert_eq!(waitpid(self.0, None).unwrap(), WaitStatus::Exited(self.0, 0));
    }
}
