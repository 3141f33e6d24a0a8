//! A word on which a thread sleeps until another one changes it (futex(2)).

use crate::sync::AtomicU32;

/// The word. One thread sleeps at a time.
#[derive(Debug)]
pub struct Futex {
    word: AtomicU32,
    #[cfg(loom)]
    kernel: (loom::sync::Mutex<()>, loom::sync::Condvar),
}

impl Futex {
    /// Creates the word with a value.
    pub fn new(value: u32) -> Self {
        Self {
            word: AtomicU32::new(value),
            #[cfg(loom)]
            kernel: (loom::sync::Mutex::new(()), loom::sync::Condvar::new()),
        }
    }

    /// Returns the word.
    #[inline]
    pub fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// Sleeps until [`Self::wake`] is called, unless the word has another value. May return early.
    #[cfg(not(loom))]
    pub fn wait(&self, value: u32) {
        self.call(libc::FUTEX_WAIT, value);
    }

    /// Wakes the thread that sleeps. The word has another value by now.
    #[cfg(not(loom))]
    pub fn wake(&self) {
        self.call(libc::FUTEX_WAKE, 1);
    }

    #[cfg(not(loom))]
    fn call(&self, operation: libc::c_int, value: u32) {
        let (word, forever) = (self.word.as_ptr(), std::ptr::null::<libc::timespec>());
        // SAFETY: the word outlives the call, and the kernel reads it alone. Errors are early returns.
        unsafe { libc::syscall(libc::SYS_futex, word, operation | libc::FUTEX_PRIVATE_FLAG, value, forever) };
    }

    /// Does what the kernel does: it compares and enqueues in one step.
    #[cfg(loom)]
    pub fn wait(&self, value: u32) {
        let (queue, woken) = &self.kernel;
        let queue = queue.lock().unwrap();
        if self.word.load(crate::sync::Ordering::SeqCst) == value {
            drop(woken.wait(queue).unwrap());
        }
    }

    /// Wakes the thread that sleeps. The word has another value by now.
    #[cfg(loom)]
    pub fn wake(&self) {
        let (queue, woken) = &self.kernel;
        let _queue = queue.lock().unwrap();
        woken.notify_one();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::Ordering;

    #[test]
    fn a_thread_sleeps_until_it_is_woken() {
        let futex = Futex::new(1);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while futex.word().load(Ordering::Acquire) == 1 {
                    futex.wait(1);
                }
            });
            futex.word().store(2, Ordering::Release);
            futex.wake();
        });
        // The word has another value.
        futex.wait(1);
    }
}
