//! The mapped region.

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use crate::sync::AtomicU64;
use crate::{HUGE_PAGE_BYTES, PAGE_BYTES, Pages, WORD_BYTES};

/// Regions smaller than this do not ask for huge pages: rounding would waste too much.
const HUGE_REGION_BYTES_MIN: usize = HUGE_PAGE_BYTES;

/// Memory that may be read while it is written: words, all of them atomics.
///
/// Zeroed at first (a file's as the file was), aligned to 2 MiB, unmapped on drop.
#[derive(Debug)]
pub struct Region {
    base: NonNull<AtomicU64>,
    words: usize,
    reservation: Reservation,
    pages: Pages,
    is_file: bool,
}

// SAFETY: the memory is owned by the region and only handed out as atomics, or as bytes under a
// contract that forbids concurrent writes.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

/// Address space, unmapped on drop.
#[derive(Debug)]
struct Reservation {
    start: *mut libc::c_void,
    bytes: usize,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: start and bytes are what mmap gave; nothing refers to it after the region.
        unsafe { libc::munmap(self.start, self.bytes) };
    }
}

/// What a region maps.
#[derive(Clone, Copy)]
enum Backing<'a> {
    Memory,
    Hugetlb,
    File(&'a File),
    Descriptor(BorrowedFd<'a>),
}

impl Region {
    /// A region of `bytes`, rounded up to pages.
    ///
    /// # Errors
    /// What `mmap` says.
    pub fn private(bytes: usize) -> io::Result<Self> {
        let bytes = bytes.next_multiple_of(PAGE_BYTES);
        if bytes.is_multiple_of(HUGE_PAGE_BYTES)
            && let Ok(region) = Self::map(bytes, Backing::Hugetlb)
        {
            return Ok(region);
        }
        Self::map(bytes, Backing::Memory)
    }

    /// The first `bytes` of a file, a multiple of the page size: what is written here is written
    /// to the file, and stays when the process ends, however it ends.
    ///
    /// # Errors
    /// What `mmap` says; `InvalidInput` for a file that is shorter.
    pub fn file(file: &File, bytes: usize) -> io::Result<Self> {
        if !bytes.is_multiple_of(PAGE_BYTES) || file.metadata()?.len() < bytes as u64 {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        Self::map(bytes, Backing::File(file))
    }

    /// The first `bytes` of what a descriptor stands for, a multiple of the page size: memory of
    /// the kernel that others map, too, such as a BPF array. It is neither written to a disk nor
    /// collapsed into huge pages.
    ///
    /// # Errors
    /// What `mmap` says; `InvalidInput` for a file that is shorter.
    pub fn descriptor(descriptor: impl AsFd, bytes: usize) -> io::Result<Self> {
        let descriptor = descriptor.as_fd();
        let metadata = File::from(descriptor.try_clone_to_owned()?).metadata()?;
        // Only files have a length; the kernel checks that of everything else.
        let is_short = metadata.is_file() && metadata.len() < bytes as u64;
        if !bytes.is_multiple_of(PAGE_BYTES) || is_short {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        Self::map(bytes, Backing::Descriptor(descriptor))
    }

    fn map(bytes: usize, backing: Backing<'_>) -> io::Result<Self> {
        let reservation = reserve(bytes + HUGE_PAGE_BYTES)?;
        let start = reservation.start.align_offset(HUGE_PAGE_BYTES);
        let base = reservation.start.wrapping_byte_add(start);
        if let Backing::Hugetlb = backing {
            probe_hugetlb(bytes)?;
        }
        // A mapping that fails over a reservation leaves a hole in it, which another thread may
        // get at once: it must not be unmapped then. The address space is given up.
        let reservation = ManuallyDrop::new(reservation);
        map_fixed(base, bytes, backing)?;
        let mut region = Self {
            base: NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?,
            words: bytes / WORD_BYTES,
            reservation: ManuallyDrop::into_inner(reservation),
            pages: Pages::Small,
            is_file: matches!(backing, Backing::File(_)),
        };
        region.pages = match backing {
            Backing::Hugetlb => Pages::Hugetlb,
            Backing::Descriptor(_) => Pages::Small,
            _ if bytes >= HUGE_REGION_BYTES_MIN && region.advise_huge() => Pages::Transparent,
            _ => Pages::Small,
        };
        Ok(region)
    }

    /// Asks for transparent huge pages. A private mapping gets them at its first touch; a file's
    /// only by collapsing what was touched, which is tried once on its first 2 MiB.
    fn advise_huge(&self) -> bool {
        let base = self.base.as_ptr().cast();
        // SAFETY: the range is mapped by this region; the advice changes no contents.
        let advised = unsafe { libc::madvise(base, self.bytes(), libc::MADV_HUGEPAGE) } == 0;
        if self.is_file {
            self.collapse(0, HUGE_PAGE_BYTES)
        } else {
            advised
        }
    }

    fn bytes(&self) -> usize {
        self.words * WORD_BYTES
    }

    /// Words that may be addressed.
    #[inline]
    pub fn words(&self) -> usize {
        self.words
    }

    /// The word at `index`. Panics beyond the end.
    #[inline]
    pub fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.words());
        let word = self.base.as_ptr().wrapping_add(index);
        // SAFETY: in bounds of the mapping, which is aligned, zeroed and lives as long as self;
        // all sharing is through atomics.
        unsafe { &*word }
    }

    /// `N` words from `first` on, checked once. Panics beyond the end.
    #[inline]
    pub fn array<const N: usize>(&self, first: usize) -> &[AtomicU64; N] {
        assert!(first < self.words && N <= self.words - first);
        let words = self.base.as_ptr().wrapping_add(first).cast();
        // SAFETY: as for one word.
        unsafe { &*words }
    }

    /// `words` words from `first` on, checked once. Panics beyond the end.
    #[inline]
    pub(crate) fn slice(&self, first: usize, words: usize) -> &[AtomicU64] {
        assert!(first <= self.words && words <= self.words - first);
        let start = self.base.as_ptr().wrapping_add(first);
        // SAFETY: in bounds of the mapping; all sharing is through atomics.
        unsafe { std::slice::from_raw_parts(start, words) }
    }

    /// Starts loading the cache line of a word; a hint, any index is fine.
    #[inline]
    pub fn prefetch(&self, word: usize) {
        let line = self.base.as_ptr().wrapping_add(word);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch does not access memory in the sense of the language and never faults.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(line.cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        std::hint::black_box(line);
    }

    /// The bytes from `first_byte` on, for a reader that knows that nobody writes them.
    ///
    /// # Safety
    /// While the slice lives, no thread writes any word of the range.
    #[inline]
    pub unsafe fn plain_bytes(&self, first_byte: usize, bytes: usize) -> &[u8] {
        assert!(
            bytes <= self.words() * WORD_BYTES && first_byte <= self.words() * WORD_BYTES - bytes
        );
        let start = self.base.as_ptr().cast::<u8>().wrapping_add(first_byte);
        // SAFETY: in bounds (checked), and not written meanwhile (the contract of this function).
        unsafe { std::slice::from_raw_parts(start, bytes) }
    }

    /// The pages that back the region, as far as they could be had when it was made.
    pub fn pages(&self) -> Pages {
        self.pages
    }

    /// Puts transparent huge pages under a range (rounded outwards to 2 MiB), which becomes
    /// resident. Others may use the memory meanwhile. Returns whether it worked for all of it.
    pub fn collapse(&self, first_byte: usize, bytes: usize) -> bool {
        if self.pages == Pages::Hugetlb {
            return true;
        }
        let end = (first_byte + bytes).min(self.bytes());
        let first = first_byte / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
        let mut collapsed = true;
        for chunk in (first..end).step_by(HUGE_PAGE_BYTES) {
            // A chunk without any page is refused: make one present.
            std::hint::black_box(self.word(chunk / WORD_BYTES).load(Ordering::Relaxed));
            collapsed &= self.collapse_chunk(chunk, HUGE_PAGE_BYTES.min(self.bytes() - chunk));
        }
        collapsed
    }

    /// Writes what has changed to the file, and waits until it is there.
    ///
    /// # Errors
    /// What `msync` says.
    pub fn sync(&self) -> io::Result<()> {
        self.sync_first(self.bytes())
    }

    /// Writes what has changed of the first `bytes` to the file, and waits until it is there.
    ///
    /// # Errors
    /// What `msync` says.
    pub fn sync_first(&self, bytes: usize) -> io::Result<()> {
        if !self.is_file {
            return Ok(());
        }
        let base = self.base.as_ptr().cast();
        // SAFETY: the range is mapped by this region.
        match unsafe { libc::msync(base, bytes.min(self.bytes()), libc::MS_SYNC) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn collapse_chunk(&self, first_byte: usize, bytes: usize) -> bool {
        let start = self.base.as_ptr().wrapping_byte_add(first_byte);
        // SAFETY: the range is mapped by this region; collapsing keeps the contents.
        unsafe { libc::madvise(start.cast(), bytes, libc::MADV_COLLAPSE) == 0 }
    }

    /// Touches every page, so that later writes find it there; as huge pages where they can be
    /// had.
    pub fn populate(&self) {
        if self.is_file {
            self.collapse(0, self.bytes());
        }
        for page in (0..self.bytes()).step_by(PAGE_BYTES) {
            // What is there instead of itself makes a page present for writing, whoever writes it
            // meanwhile. (Adding nothing is compiled to a load, which finds a page of zeros.)
            let word = self.word(page / WORD_BYTES);
            let there = word.load(Ordering::Relaxed);
            let _ = word.compare_exchange(there, there, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Bytes of address space taken, for tests and reports.
    pub fn reserved_bytes(&self) -> usize {
        self.reservation.bytes
    }
}

/// Address space without memory.
fn reserve(bytes: usize) -> io::Result<Reservation> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(Reservation { start, bytes })
}

/// Whether the kernel has so many reserved huge pages: asked where a refusal does no harm.
fn probe_hugetlb(bytes: usize) -> io::Result<()> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB;
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    drop(Reservation { start, bytes });
    Ok(())
}

/// Maps `bytes` of a backing at `address`, over the reservation.
fn map_fixed(address: *mut libc::c_void, bytes: usize, backing: Backing<'_>) -> io::Result<()> {
    let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let (fd, flags) = match backing {
        Backing::File(file) => (file.as_raw_fd(), libc::MAP_SHARED),
        Backing::Descriptor(descriptor) => (descriptor.as_raw_fd(), libc::MAP_SHARED),
        Backing::Hugetlb => (-1, private | libc::MAP_HUGETLB),
        Backing::Memory => (-1, private | libc::MAP_NORESERVE),
    };
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the range lies in a reservation of this region, which nothing else uses.
    let mapped = unsafe { libc::mmap(address, bytes, protection, flags | libc::MAP_FIXED, fd, 0) };
    if mapped == libc::MAP_FAILED {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
