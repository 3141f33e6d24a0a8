//! A region of mapped memory.

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::ptr::NonNull;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};

use crate::sync::AtomicU64;
use crate::{HEAD_WORDS, HUGE_PAGE_BYTES, PAGE_BYTES, Pages, WORD_BYTES};

/// Smallest region that gets huge pages. For a smaller one, rounding would waste too much.
const HUGE_REGION_BYTES_MIN: usize = HUGE_PAGE_BYTES;

/// Memory that other threads may read while one writes it: a sequence of atomic words.
///
/// It is zeroed at first (a file keeps its contents), aligned to 2 MiB, and unmapped on drop.
#[derive(Debug)]
pub struct Region {
    base: NonNull<AtomicU64>,
    words: usize,
    reservation: Reservation,
    pub(crate) pages: Pages,
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
        // SAFETY: start and bytes are what mmap returned; nothing refers to it after the region.
        unsafe { libc::munmap(self.start, self.bytes) };
    }
}

#[derive(Clone, Copy)]
enum Backing<'a> {
    Memory,
    Hugetlb,
    File(&'a File),
    /// A file of 2 MiB pages.
    HugeFile(&'a File),
    Descriptor(BorrowedFd<'a>),
    /// Memory that another process writes, and this one only reads.
    Foreign(BorrowedFd<'a>),
}

impl Region {
    /// Creates a region of `bytes`, rounded up to pages.
    ///
    /// # Errors
    /// Returns the error of `mmap`.
    pub fn private(bytes: usize) -> io::Result<Self> {
        let bytes = bytes.next_multiple_of(PAGE_BYTES);
        if bytes.is_multiple_of(HUGE_PAGE_BYTES)
            && let Ok(region) = Self::map(bytes, Backing::Hugetlb)
        {
            return Ok(region);
        }
        Self::map(bytes, Backing::Memory)
    }

    /// Creates a region of which much may never be used: like [`Self::private`], without reserved huge
    /// pages, because all of them would be taken at once.
    ///
    /// # Errors
    /// Returns the error of `mmap`.
    pub fn sparse(bytes: usize) -> io::Result<Self> {
        Self::map(bytes.next_multiple_of(PAGE_BYTES), Backing::Memory)
    }

    /// Maps the first `bytes` of a file, a multiple of the page size. Writes to the region go to the
    /// file, and stay there however the process ends. Touches nothing: the file may have holes. It gets huge
    /// pages by [`Self::probe_huge`] and [`Self::collapse`].
    ///
    /// # Errors
    /// Returns the error of `mmap`; `InvalidInput` for a file that is shorter.
    pub fn file(file: &File, bytes: usize) -> io::Result<Self> {
        if !bytes.is_multiple_of(PAGE_BYTES) || file.metadata()?.len() < bytes as u64 {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        Self::map(bytes, Backing::File(file))
    }

    /// Maps the first `bytes` behind a descriptor, a multiple of the page size: memory of the kernel that
    /// others also map, such as a BPF array. It is neither written to a disk nor collapsed into huge
    /// pages.
    ///
    /// # Errors
    /// Returns the error of `mmap`; `InvalidInput` for a file that is shorter, or in memory and may be cut.
    pub fn descriptor(descriptor: impl AsFd, bytes: usize) -> io::Result<Self> {
        let descriptor = descriptor.as_fd();
        check_length(descriptor, bytes)?;
        Self::map(bytes, Backing::Descriptor(descriptor))
    }

    /// Maps the first `bytes` behind a descriptor, a multiple of the page size, for loads alone: a store
    /// ends this process. Another process writes the memory.
    ///
    /// # Errors
    /// Returns the error of `mmap`; `InvalidInput` for a file that is shorter, or in memory and may be cut.
    pub fn foreign(descriptor: impl AsFd, bytes: usize) -> io::Result<Self> {
        let descriptor = descriptor.as_fd();
        check_length(descriptor, bytes)?;
        Self::map(bytes, Backing::Foreign(descriptor))
    }

    /// Maps a whole file in memory, and touches all of it.
    pub(crate) fn memory_file(file: &File, bytes: usize, are_huge: bool) -> io::Result<Self> {
        let backing = if are_huge { Backing::HugeFile(file) } else { Backing::File(file) };
        let mut region = Self::map(bytes, backing)?;
        region.probe_huge(0);
        region.populate();
        Ok(region)
    }

    /// Has the kernel zero the region in every child process.
    pub(crate) fn wipe_on_fork(&self) -> io::Result<()> {
        let base = self.base.as_ptr().cast();
        // SAFETY: the range is mapped by this region; the contents change in child processes alone.
        match unsafe { libc::madvise(base, self.bytes(), libc::MADV_WIPEONFORK) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn map(bytes: usize, backing: Backing<'_>) -> io::Result<Self> {
        if bytes < HEAD_WORDS * WORD_BYTES {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        let reservation = reserve(bytes + HUGE_PAGE_BYTES)?;
        let start = reservation.start.align_offset(HUGE_PAGE_BYTES);
        let base = reservation.start.wrapping_byte_add(start);
        if let Backing::Hugetlb = backing {
            probe_hugetlb(bytes)?;
        }
        // A mapping that fails over a reservation leaves a hole in it, which another thread may get
        // at once. The hole must not be unmapped then, so the address space is leaked.
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
            Backing::Hugetlb | Backing::HugeFile(_) => Pages::Hugetlb,
            Backing::Descriptor(_) | Backing::Foreign(_) => Pages::Small,
            _ if bytes >= HUGE_REGION_BYTES_MIN && region.advise_huge() => Pages::Transparent,
            _ => Pages::Small,
        };
        Ok(region)
    }

    /// Requests transparent huge pages. A private mapping gets them at its first touch. Returns whether it
    /// does.
    fn advise_huge(&self) -> bool {
        let base = self.base.as_ptr().cast();
        // SAFETY: the range is mapped by this region; the advice changes no contents.
        let advised = unsafe { libc::madvise(base, self.bytes(), libc::MADV_HUGEPAGE) } == 0;
        advised && !self.is_file
    }

    fn bytes(&self) -> usize {
        self.words * WORD_BYTES
    }

    /// Returns the number of words.
    #[inline]
    pub fn words(&self) -> usize {
        self.words
    }

    /// Returns the word at `index`. Panics beyond the end.
    #[inline]
    pub fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.words());
        let word = self.base.as_ptr().wrapping_add(index);
        // SAFETY: in bounds of the mapping, which is aligned, zeroed and lives as long as self; all
        // sharing is through atomics.
        unsafe { &*word }
    }

    /// Returns `N` words from `first` on, with one bounds check. Panics beyond the end.
    #[inline]
    pub fn array<const N: usize>(&self, first: usize) -> &[AtomicU64; N] {
        assert!(first < self.words && N <= self.words - first);
        let words = self.base.as_ptr().wrapping_add(first).cast();
        // SAFETY: as for one word.
        unsafe { &*words }
    }

    /// Returns the words of the first page, without a bounds check: every region has one.
    #[inline(always)]
    pub fn head(&self) -> &[AtomicU64; HEAD_WORDS] {
        let words = self.base.as_ptr().cast();
        // SAFETY: as for one word; no region is mapped with fewer words (`map`).
        unsafe { &*words }
    }

    /// Returns the word at `index`, without a bounds check if that is a constant within [`Self::head`].
    /// Panics beyond the end.
    #[inline(always)]
    pub fn head_word(&self, index: usize) -> &AtomicU64 {
        match self.head().get(index) {
            Some(word) => word,
            None => self.word(index),
        }
    }

    /// Returns `words` words from `first` on, with one bounds check. Panics beyond the end.
    #[inline]
    pub(crate) fn slice(&self, first: usize, words: usize) -> &[AtomicU64] {
        assert!(first <= self.words && words <= self.words - first);
        let start = self.base.as_ptr().wrapping_add(first);
        // SAFETY: in bounds of the mapping; all sharing is through atomics.
        unsafe { std::slice::from_raw_parts(start, words) }
    }

    /// Starts loading the cache line of a word. This is a hint: any index is fine.
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

    /// Returns the bytes from `first_byte` on, for a reader that knows that nobody writes them.
    ///
    /// # Safety
    /// While the slice lives, no thread writes any word of the range.
    #[inline]
    pub unsafe fn plain_bytes(&self, first_byte: usize, bytes: usize) -> &[u8] {
        assert!(bytes <= self.words() * WORD_BYTES && first_byte <= self.words() * WORD_BYTES - bytes);
        // SAFETY: in bounds (checked), and not written meanwhile (the contract of this function).
        unsafe { self.plain_bytes_within(first_byte, bytes) }
    }

    /// Returns bytes like [`Self::plain_bytes`], without a bounds check.
    ///
    /// # Safety
    /// The bytes lie in the region. While the slice lives, no thread writes any word of the range.
    #[inline(always)]
    pub unsafe fn plain_bytes_within(&self, first_byte: usize, bytes: usize) -> &[u8] {
        debug_assert!(first_byte + bytes <= self.words() * WORD_BYTES);
        let start = self.base.as_ptr().cast::<u8>().wrapping_add(first_byte);
        // SAFETY: the contract of this function.
        unsafe { std::slice::from_raw_parts(start, bytes) }
    }

    /// Returns whether the region is a file's.
    pub fn is_file(&self) -> bool {
        self.is_file
    }

    /// Returns the pages that the region got when it was created.
    pub fn pages(&self) -> Pages {
        self.pages
    }

    /// Writes all changes to the file, and waits until they are on the disk.
    ///
    /// # Errors
    /// Returns the error of `msync`.
    pub fn sync(&self) -> io::Result<()> {
        self.sync_first(self.bytes())
    }

    /// Writes changes of the first `bytes` to the file, and waits until they are on the disk.
    ///
    /// # Errors
    /// Returns the error of `msync`.
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

    /// Returns how many bytes of address space are reserved, for tests and reports.
    pub fn reserved_bytes(&self) -> usize {
        self.reservation.bytes
    }
}

/// Returns whether a file in memory may become shorter. Files of other kinds have no seals.
fn may_be_cut(descriptor: BorrowedFd<'_>) -> bool {
    let seals = fcntl(descriptor, FcntlArg::F_GET_SEALS);
    seals.is_ok_and(|seals| !SealFlag::from_bits_retain(seals).contains(SealFlag::F_SEAL_SHRINK))
}

/// Checks that a descriptor can be mapped so far.
/// Refuses what ends before `bytes`, or could do so later: a load behind the end would end this process. A
/// file with a name, such as one of an image, is trusted to keep its length.
fn check_length(descriptor: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    let metadata = File::from(descriptor.try_clone_to_owned()?).metadata()?;
    if metadata.nlink() == 0 && may_be_cut(descriptor) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the memory may be cut: it has no seal"));
    }
    // Only files have a length. The kernel checks that of everything else.
    let is_short = metadata.is_file() && metadata.len() < bytes as u64;
    if !bytes.is_multiple_of(PAGE_BYTES) || is_short {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    Ok(())
}

/// Reserves address space without memory.
fn reserve(bytes: usize) -> io::Result<Reservation> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(Reservation { start, bytes })
}

/// Checks whether the kernel has so many reserved huge pages, at an address where a refusal does no
/// harm.
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
        Backing::File(file) | Backing::HugeFile(file) => (file.as_raw_fd(), libc::MAP_SHARED),
        Backing::Descriptor(descriptor) | Backing::Foreign(descriptor) => {
            (descriptor.as_raw_fd(), libc::MAP_SHARED)
        }
        Backing::Hugetlb => (-1, private | libc::MAP_HUGETLB),
        Backing::Memory => (-1, private | libc::MAP_NORESERVE),
    };
    let protection = match backing {
        Backing::Foreign(_) => libc::PROT_READ,
        _ => libc::PROT_READ | libc::PROT_WRITE,
    };
    // SAFETY: the range lies in a reservation of this region, which nothing else uses.
    let mapped = unsafe { libc::mmap(address, bytes, protection, flags | libc::MAP_FIXED, fd, 0) };
    if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}
