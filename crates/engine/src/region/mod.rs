//! The memory of a partition, the words of its header, and the budget of copies within it. In unit
//! tests a watch can observe every store to the memory, so that a test can stop a writer at each of
//! them (`tests/kill`).

pub(crate) mod copy_budget;
pub(crate) mod fields;
#[cfg(not(any(loom, miri)))]
pub(crate) mod short;

pub(crate) use fields::{Field, LogField};
#[cfg(not(all(test, not(any(loom, miri)))))]
pub(crate) use micanite_memory::Region;
#[cfg(all(test, not(any(loom, miri))))]
pub(crate) use watched::{Region, watch};

/// A word of a region.
#[cfg(not(all(test, not(any(loom, miri)))))]
pub(crate) type Word<'a> = &'a micanite_memory::sync::AtomicU64;
#[cfg(all(test, not(any(loom, miri))))]
pub(crate) use watched::Word;

#[cfg(all(test, not(any(loom, miri))))]
mod watched {
    use std::cell::RefCell;
    use std::fs::File;
    use std::io;
    use std::ops::{Deref, Range};
    use std::os::fd::{AsFd, OwnedFd};

    use micanite_memory::WORD_BYTES;
    use micanite_memory::sync::{AtomicU64, Ordering};

    /// A callback before each store, and the addresses that count.
    struct Watch {
        addresses: Range<usize>,
        before_store: Box<dyn FnMut()>,
    }

    thread_local! {
        static WATCH: RefCell<Option<Watch>> = const { RefCell::new(None) };
    }

    /// A region whose stores can be watched. It is otherwise the same.
    #[derive(Debug)]
    pub(crate) struct Region(micanite_memory::Region);

    impl Deref for Region {
        type Target = micanite_memory::Region;

        fn deref(&self) -> &micanite_memory::Region {
            &self.0
        }
    }

    impl Region {
        pub fn private(bytes: usize) -> io::Result<Self> {
            micanite_memory::Region::private(bytes).map(Self)
        }

        pub fn sparse(bytes: usize) -> io::Result<Self> {
            micanite_memory::Region::sparse(bytes).map(Self)
        }

        pub fn file(file: &File, bytes: usize) -> io::Result<Self> {
            micanite_memory::Region::file(file, bytes).map(Self)
        }

        pub fn descriptor(descriptor: impl AsFd, bytes: usize) -> io::Result<Self> {
            micanite_memory::Region::descriptor(descriptor, bytes).map(Self)
        }

        pub fn foreign(descriptor: impl AsFd, bytes: usize) -> io::Result<Self> {
            micanite_memory::Region::foreign(descriptor, bytes).map(Self)
        }

        pub fn readable(bytes: usize) -> io::Result<(Self, OwnedFd)> {
            let (region, readers) = micanite_memory::Region::readable(bytes)?;
            Ok((Self(region), readers))
        }

        pub fn probe_huge(&mut self, first_byte: usize) {
            self.0.probe_huge(first_byte);
        }

        pub fn word(&self, index: usize) -> Word<'_> {
            Word(self.0.word(index))
        }

        pub fn head_word(&self, index: usize) -> Word<'_> {
            Word(self.0.head_word(index))
        }

        /// Copies word by word, like the region itself.
        pub fn copy_in(&self, first_byte: usize, source: &[u8]) {
            let mut done = 0;
            while done < source.len() {
                let at = first_byte + done;
                let step = (WORD_BYTES - at % WORD_BYTES).min(source.len() - done);
                notify(self.0.word(at / WORD_BYTES));
                self.0.copy_in(at, &source[done..done + step]);
                done += step;
            }
        }

        pub fn copy_within(&self, from_byte: usize, to_byte: usize, bytes: usize) {
            let mut value = vec![0; bytes];
            self.0.copy_out(from_byte, &mut value);
            self.copy_in(to_byte, &value);
        }
    }

    /// A word whose stores can be watched.
    #[derive(Clone, Copy)]
    pub(crate) struct Word<'a>(&'a AtomicU64);

    impl Word<'_> {
        pub fn load(self, ordering: Ordering) -> u64 {
            self.0.load(ordering)
        }

        pub fn store(self, value: u64, ordering: Ordering) {
            notify(self.0);
            self.0.store(value, ordering);
        }

        pub fn fetch_add(self, value: u64, ordering: Ordering) -> u64 {
            notify(self.0);
            self.0.fetch_add(value, ordering)
        }
    }

    /// Calls the watch before a store; stores of the watch itself are not watched.
    fn notify(word: &AtomicU64) {
        let address = std::ptr::from_ref(word).addr();
        let watch = WATCH.take();
        if let Some(mut watch) = watch {
            if watch.addresses.contains(&address) {
                (watch.before_store)();
            }
            WATCH.set(Some(watch));
        }
    }

    /// Runs `run`, and calls `before_store` before each store of this thread to a region meanwhile.
    pub(crate) fn watch<R>(
        region: &Region,
        before_store: impl FnMut() + 'static,
        run: impl FnOnce() -> R,
    ) -> R {
        let first = std::ptr::from_ref(region.0.word(0)).addr();
        let watch = Watch {
            addresses: first..first + region.words() * WORD_BYTES,
            before_store: Box::new(before_store),
        };
        let outer = WATCH.replace(Some(watch));
        assert!(outer.is_none(), "one watch at a time");
        let result = run();
        WATCH.set(None);
        result
    }
}
