//! Memory of a map, shared with programs.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use micanite_bpf::Map;

/// Words of an mmapable array.
#[derive(Debug)]
pub(crate) struct SharedWords {
    base: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the memory belongs to this value and is only handed out as atomics.
unsafe impl Send for SharedWords {}
// SAFETY: as above.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// Maps the first `words` of a map.
    pub fn new(map: &Map, words: usize) -> io::Result<Self> {
        let (protection, descriptor) = (libc::PROT_READ | libc::PROT_WRITE, map.as_fd().as_raw_fd());
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), words * 8, protection, libc::MAP_SHARED, descriptor, 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, words })
    }

    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has so many words, is aligned, and lives as long as self; all others
        // access whole words, too.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.words) }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: base and length are those of mmap; nothing refers to the mapping after the value.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.words * 8) };
    }
}
