//! A word of shared memory that says whether its owner lives.
//!
//! The owner is a thread. It enters the word into its list of robust futexes, which the kernel walks when
//! the thread ends, however it ends: by `kill -9`, by a panic, or by executing another program. The kernel
//! then sets a bit of the word. So another process learns of the end by one load.

use std::io;
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::Region;

/// Mask of the owner's number in the word, and the bit that the kernel sets, as Linux defines them
/// (`FUTEX_TID_MASK`, `FUTEX_OWNER_DIED`).
const TID_MASK: u64 = 0x3fff_ffff;
const OWNER_DIED: u64 = 0x4000_0000;

/// Returns whether the owner of a word lives.
#[inline]
pub fn is_owned(word: u64) -> bool {
    word & TID_MASK != 0 && word & OWNER_DIED == 0
}

/// An entry of the list, and its head (`struct robust_list`, `struct robust_list_head`).
#[repr(C)]
struct Entry {
    next: *const Entry,
}

#[repr(C)]
struct Head {
    list: Entry,
    /// Distance from an entry to its futex.
    offset: libc::c_long,
    pending: *const Entry,
}

/// The list of a thread with one entry, at addresses that stay.
struct List {
    head: Head,
    entry: Entry,
}

/// Ownership of a word by this thread, until it is dropped or the thread ends.
pub struct Owner {
    region: Arc<Region>,
    word: usize,
    /// The kernel reads it.
    list: *mut List,
    /// The list that the C library had entered.
    before: *const Head,
    _of_this_thread: PhantomData<*const ()>,
}

impl Owner {
    /// Makes this thread the owner of a word. The thread must not lock robust mutexes of the C library
    /// meanwhile, whose list this one replaces.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn new(region: Arc<Region>, word: usize) -> io::Result<Self> {
        let before = current_list()?;
        let list = Box::into_raw(Box::new(List {
            head: Head { list: Entry { next: ptr::null() }, offset: 0, pending: ptr::null() },
            entry: Entry { next: ptr::null() },
        }));
        let futex = ptr::from_ref(region.word(word)).addr();
        // SAFETY: the box lives, and nobody else knows of it.
        let all = unsafe { &mut *list };
        let (head, entry) = (&raw const all.head.list, &raw const all.entry);
        all.head.offset = (futex as libc::c_long).wrapping_sub(entry.addr() as libc::c_long);
        all.head.list.next = entry;
        all.entry.next = head;
        let owner = Self { region, word, list, before, _of_this_thread: PhantomData };
        set_list(&raw const all.head)?;
        // SAFETY: the call has no arguments and cannot fail.
        let thread = unsafe { libc::gettid() };
        owner.region.word(word).store(thread as u64 & TID_MASK, Ordering::Release);
        Ok(owner)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.region.word(self.word).store(0, Ordering::Release);
        // If the kernel refuses, it keeps the addresses of the list, which then has to stay.
        if set_list(self.before).is_ok() {
            // SAFETY: it was made by `new`, and the kernel has forgotten it.
            drop(unsafe { Box::from_raw(self.list) });
        }
    }
}

fn current_list() -> io::Result<*const Head> {
    let (mut head, mut bytes): (*const Head, usize) = (ptr::null(), 0);
    // SAFETY: zero is this thread, and the kernel writes into these two variables.
    let result = unsafe { libc::syscall(libc::SYS_get_robust_list, 0, &raw mut head, &raw mut bytes) };
    if result == 0 { Ok(head) } else { Err(io::Error::last_os_error()) }
}

fn set_list(head: *const Head) -> io::Result<()> {
    // SAFETY: the list is valid until the thread ends, or until another one is set.
    let result = unsafe { libc::syscall(libc::SYS_set_robust_list, head, size_of::<Head>()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(all(test, not(any(loom, miri))))]
mod tests {
    use super::*;
    use crate::PAGE_BYTES;
    use nix::sys::signal::{Signal, kill};
    use nix::sys::wait::waitpid;
    use nix::unistd::{ForkResult, fork};
    use std::time::{Duration, Instant};

    fn load(region: &Region) -> u64 {
        region.word(2).load(Ordering::Acquire)
    }

    #[test]
    fn the_end_of_a_thread_shows_in_the_word() {
        let region = Arc::new(Region::exchange(PAGE_BYTES).unwrap().0);
        assert!(!is_owned(load(&region)));
        let owned = Arc::clone(&region);
        std::thread::spawn(move || {
            let owner = Owner::new(Arc::clone(&owned), 2).unwrap();
            assert!(is_owned(load(&owned)));
            std::mem::forget(owner);
        })
        .join()
        .unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while is_owned(load(&region)) {
            assert!(Instant::now() < deadline, "the kernel has not marked the word");
        }
        // A dropped owner leaves no trace.
        drop(Owner::new(Arc::clone(&region), 2).unwrap());
        assert_eq!(load(&region), 0);
    }

    #[test]
    fn a_kill_shows_in_the_word() {
        let region = Arc::new(Region::exchange(PAGE_BYTES).unwrap().0);
        // SAFETY: the child makes system calls and spins; it allocates once, while no other thread of
        // the child exists that could hold the allocator's lock.
        match unsafe { fork() }.unwrap() {
            ForkResult::Child => {
                let _owner = Owner::new(Arc::clone(&region), 2);
                loop {
                    std::hint::spin_loop();
                }
            }
            ForkResult::Parent { child } => {
                let deadline = Instant::now() + Duration::from_secs(60);
                while !is_owned(load(&region)) {
                    assert!(Instant::now() < deadline, "the child has not come");
                }
                kill(child, Signal::SIGKILL).unwrap();
                waitpid(child, None).unwrap();
                assert!(!is_owned(load(&region)));
            }
        }
    }
}
