//! Pages of a region: they go back to the system, and come again; they become huge ones.

use std::io;
use std::ptr;

use crate::sync::Ordering;
use crate::{HUGE_PAGE_BYTES, PAGE_BYTES, Pages, Region, WORD_BYTES};

impl Region {
    /// Returns the bytes of the pages that can go back alone.
    pub fn page_bytes(&self) -> usize {
        if self.pages() == Pages::Hugetlb { HUGE_PAGE_BYTES } else { PAGE_BYTES }
    }

    /// Gives whole pages back to the system, those of a file also on its disk. They read as zeros afterwards,
    /// also in other processes, and a store makes them present again. In a file call [`Self::commit`] first.
    ///
    /// # Errors
    /// Returns the kernel's error: file systems without holes, sealed memory, memory of the kernel.
    pub fn give_back(&self, first_byte: usize, bytes: usize) -> io::Result<()> {
        if self.is_file() {
            return self.advise(first_byte, bytes, libc::MADV_REMOVE);
        }
        // Locked pages need the first of them, which kernels before 5.18 do not have.
        let locked = self.advise(first_byte, bytes, libc::MADV_DONTNEED_LOCKED);
        locked.or_else(|_| self.advise(first_byte, bytes, libc::MADV_DONTNEED))
    }

    /// Makes whole pages of a file present, with space on its disk. Other memory needs nothing.
    ///
    /// # Errors
    /// Returns `StorageFull` if the file system has no space, and the kernel's error otherwise.
    pub fn commit(&self, first_byte: usize, bytes: usize) -> io::Result<()> {
        if !self.is_file() {
            return Ok(());
        }
        self.advise(first_byte, bytes, libc::MADV_POPULATE_WRITE).map_err(|error| {
            match error.raw_os_error() {
                // A store would end the process.
                Some(libc::EFAULT) => io::ErrorKind::StorageFull.into(),
                _ => error,
            }
        })
    }

    /// Tries whether the pages of a file can become huge ones, on the 2 MiB from `first_byte` on, a multiple
    /// of 2 MiB. The file must have no hole there.
    pub fn probe_huge(&mut self, first_byte: usize) {
        let fits = first_byte + HUGE_PAGE_BYTES <= self.words() * WORD_BYTES;
        if self.is_file() && fits && self.collapse(first_byte, HUGE_PAGE_BYTES) {
            self.pages = Pages::Transparent;
        }
    }

    /// Collapses the pieces of 2 MiB that lie wholly in a range into transparent huge pages, and makes them
    /// resident: the range must have no page that is to stay absent. Others may use the memory meanwhile.
    /// Returns whether all of them were collapsed.
    pub fn collapse(&self, first_byte: usize, bytes: usize) -> bool {
        if self.pages() == Pages::Hugetlb {
            return true;
        }
        let end = (first_byte + bytes).min(self.words() * WORD_BYTES) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
        let first = first_byte.next_multiple_of(HUGE_PAGE_BYTES);
        let mut collapsed = true;
        for chunk in (first..end).step_by(HUGE_PAGE_BYTES) {
            // The kernel refuses a chunk without any page, so make one present.
            std::hint::black_box(self.word(chunk / WORD_BYTES).load(Ordering::Relaxed));
            collapsed &= self.advise(chunk, HUGE_PAGE_BYTES, libc::MADV_COLLAPSE).is_ok();
        }
        collapsed
    }

    /// Touches every page, so that later writes find it present; as huge pages if possible.
    pub fn populate(&self) {
        self.populate_range(0, self.words() * WORD_BYTES);
    }

    /// Touches every page from a multiple of the page size on, like [`Self::populate`].
    pub fn populate_range(&self, first_byte: usize, bytes: usize) {
        if self.is_file() {
            self.collapse(first_byte, bytes);
        }
        for page in (first_byte..first_byte + bytes).step_by(PAGE_BYTES) {
            // Replacing a word by itself makes its page present for writing, even while others
            // write it. (An addition of 0 is compiled to a load, which maps the page of zeros.)
            let word = self.word(page / WORD_BYTES);
            let there = word.load(Ordering::Relaxed);
            let _ = word.compare_exchange(there, there, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    fn advise(&self, first_byte: usize, bytes: usize, advice: libc::c_int) -> io::Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let (first, last) = (first_byte / WORD_BYTES, (first_byte + bytes) / WORD_BYTES - 1);
        assert!(first <= last && last < self.words());
        let start = ptr::from_ref(self.word(first)).cast_mut().cast();
        // SAFETY: the range is mapped by this region (both ends exist). Its contents become zeros at most,
        // which every word may be: the memory is handed out as atomics only, or under a contract that
        // nobody writes it, which the caller of this function would break as by a store.
        match unsafe { libc::madvise(start, bytes, advice) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(all(test, not(any(loom, miri))))]
mod tests {
    use super::*;
    use crate::allocate;
    use crate::folder::Folder;
    use crate::sync::Ordering::Relaxed;
    use micanite_test_skip::skip;
    use std::os::unix::fs::MetadataExt;

    const BYTES: usize = 4 << 20;

    fn check(region: &Region) {
        for word in (0..BYTES / 8).step_by(64) {
            region.word(word).store(7, Relaxed);
        }
        region.give_back(BYTES / 4, BYTES / 2).unwrap();
        let word = |byte: usize| region.word(byte / 8).load(Relaxed);
        assert_eq!((word(0), word(BYTES / 4), word(BYTES / 4 * 3)), (7, 0, 7));
        region.commit(BYTES / 4, BYTES / 4).unwrap();
        region.word(BYTES / 32).store(8, Relaxed);
        assert_eq!((word(BYTES / 4), region.word(BYTES / 64).load(Relaxed)), (8, 7));
    }

    /// Pages that are given back are zeros, and can be used again; those beside them stay.
    #[test]
    fn memory_goes_back_and_comes_again() {
        check(&Region::sparse(BYTES).unwrap());
        let folder = Folder::open(&std::env::temp_dir()).unwrap();
        let name = format!("micanite-commit-{}", std::process::id());
        let file = folder.create_new(&name, 0o600).unwrap();
        folder.remove(&name);
        allocate(&file, 0, BYTES).unwrap();
        let region = Region::file(&file, BYTES).unwrap();
        match region.give_back(0, 4096) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                return skip("the file system of temporary files has no holes");
            }
            given => given.unwrap(),
        }
        check(&region);
        let blocks = file.metadata().unwrap().blocks() * 512;
        assert!(blocks <= (BYTES / 4 * 3 + (64 << 10)) as u64, "{blocks}");
    }

    /// Sealed memory that others read does not change.
    #[test]
    fn sealed_memory_is_not_given_back() {
        let (region, _readers) = Region::readable(BYTES).unwrap();
        region.word(0).store(7, Relaxed);
        if region.pages() != Pages::Hugetlb {
            assert!(region.give_back(0, PAGE_BYTES).is_err());
        }
        assert_eq!(region.word(0).load(Relaxed), 7);
    }
}
