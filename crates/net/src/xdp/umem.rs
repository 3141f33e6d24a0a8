//! Memory of a queue's frames (UMEM): chunks of 4 KiB, in huge pages if possible.

use std::io;
use std::ptr::{self, NonNull};

/// Bytes of a chunk: a frame of an MTU of 1,500 with its reply behind it, or one frame of 3,800
/// bytes.
pub(super) const CHUNK_BYTES: usize = 4096;
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// 2 MiB pages, whatever the machine's default size is. With 1 GiB pages each queue would take a
/// whole one.
const HUGE_PAGES: i32 = libc::MAP_HUGETLB | libc::MAP_HUGE_2MB;

/// The chunks of one queue, zeroed at first, unmapped on drop.
#[derive(Debug)]
pub(super) struct Umem {
    base: NonNull<u8>,
    bytes: usize,
    /// The whole mapping, which is larger because of the alignment to huge pages.
    mapping: (*mut libc::c_void, usize),
    pages: &'static str,
}

impl Umem {
    /// Allocates `chunks`.
    pub(super) fn new(chunks: usize) -> io::Result<Self> {
        let bytes = (chunks * CHUNK_BYTES).next_multiple_of(HUGE_PAGE_BYTES);
        if let Ok(mapped) = map(bytes, HUGE_PAGES | libc::MAP_POPULATE) {
            let base = NonNull::new(mapped.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
            return Ok(Self { base, bytes, mapping: (mapped, bytes), pages: "hugetlb 2 MiB pages" });
        }
        let mapping = (map(bytes + HUGE_PAGE_BYTES, 0)?, bytes + HUGE_PAGE_BYTES);
        let offset = mapping.0.align_offset(HUGE_PAGE_BYTES);
        let base = mapping.0.wrapping_byte_add(offset);
        // SAFETY: the range lies in the mapping that was just made; the advice changes no contents.
        let advised = unsafe { libc::madvise(base, bytes, libc::MADV_HUGEPAGE) } == 0;
        Ok(Self {
            base: NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?,
            bytes,
            mapping,
            pages: match advised {
                true => "transparent huge pages",
                false => "4 KiB pages",
            },
        })
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) const fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Describes the pages.
    pub(super) const fn pages(&self) -> &'static str {
        self.pages
    }

    /// Returns the chunk at an offset.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub(super) fn chunk(&self, offset: usize) -> NonNull<u8> {
        assert!(offset.is_multiple_of(CHUNK_BYTES) && offset < self.bytes);
        // SAFETY: it lies in the mapping, as was just seen.
        unsafe { self.base.add(offset) }
    }
}

impl Drop for Umem {
    fn drop(&mut self) {
        let (start, bytes) = self.mapping;
        // SAFETY: it was mapped like this, and nobody has a frame of the queue any more.
        unsafe { libc::munmap(start, bytes) };
    }
}

fn map(bytes: usize, flags: i32) -> io::Result<*mut libc::c_void> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh mapping where the kernel likes, which replaces nothing.
    let start = unsafe { libc::mmap(ptr::null_mut(), bytes, access, flags, -1, 0) };
    match start {
        libc::MAP_FAILED => Err(io::Error::last_os_error()),
        start => Ok(start),
    }
}

/// Starts loading a cache line. This is a hint: any address is fine.
#[inline]
pub(super) fn prefetch(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch does not access memory in the sense of the language and never faults.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(line.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::hint::black_box(line);
}
