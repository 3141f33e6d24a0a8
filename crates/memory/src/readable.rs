//! Memory that one process writes and others map: files in memory (memfd), sealed by their maker.
//!
//! A reader gets a descriptor that was opened for reading. It cannot map the memory for writing, not even
//! after opening it again through `/proc/self/fd`, because the seal on future writes belongs to the file,
//! not to the descriptor. The other seals keep the length, so that no access ever meets the end of the file.

use std::fs::{File, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::{HUGE_PAGE_BYTES, PAGE_BYTES, Region, allocate, reopen_for_loads};

/// Name of the files, as `/proc` shows it.
const NAME: &str = "micanite";

/// Seals of memory that both sides write: its length stays.
const EXCHANGE_SEALS: SealFlag =
    SealFlag::F_SEAL_SHRINK.union(SealFlag::F_SEAL_GROW).union(SealFlag::F_SEAL_SEAL);

impl Region {
    /// Creates zeroed memory of `bytes`, a multiple of the page size, and a descriptor with which other
    /// processes can map it for loads. All of it is present, on huge pages where the kernel has them:
    /// a reader never makes the kernel allocate.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn readable(bytes: usize) -> io::Result<(Self, OwnedFd)> {
        let (region, file) = match Self::in_huge_file(bytes) {
            Some(made) => made,
            None => Self::in_file(bytes)?,
        };
        // The mapping of this process stays writable. All later ones are not.
        let future_write = SealFlag::from_bits_retain(libc::F_SEAL_FUTURE_WRITE);
        seal(&file, EXCHANGE_SEALS | future_write)?;
        let readers = reopen_for_loads(&file)?;
        Ok((region, readers))
    }

    /// Creates zeroed memory of `bytes`, a multiple of the page size, that both sides write, and its
    /// descriptor. Neither side can change its length.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn exchange(bytes: usize) -> io::Result<(Self, OwnedFd)> {
        let (region, file) = Self::in_file(bytes)?;
        seal(&file, EXCHANGE_SEALS)?;
        Ok((region, file.into()))
    }

    fn in_file(bytes: usize) -> io::Result<(Self, File)> {
        let file = make(bytes, MFdFlags::empty())?;
        let region = Self::memory_file(&file, bytes, false)?;
        Ok((region, file))
    }

    /// Creates the memory on reserved 2 MiB pages, if there are enough of them.
    fn in_huge_file(bytes: usize) -> Option<(Self, File)> {
        if !bytes.is_multiple_of(HUGE_PAGE_BYTES) {
            return None;
        }
        let file = make(bytes, MFdFlags::MFD_HUGETLB | MFdFlags::MFD_HUGE_2MB).ok()?;
        allocate(&file, 0, bytes).ok()?;
        let region = Self::memory_file(&file, bytes, true).ok()?;
        Some((region, file))
    }
}

/// Makes a file in memory that only this user may open.
fn make(bytes: usize, flags: MFdFlags) -> io::Result<File> {
    if !bytes.is_multiple_of(PAGE_BYTES) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING | flags;
    let file = File::from(memfd_create(NAME, flags)?);
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.set_len(bytes as u64)?;
    Ok(file)
}

fn seal(file: &File, seals: SealFlag) -> io::Result<()> {
    fcntl(file, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pages;
    use crate::sync::Ordering::Relaxed;
    use nix::sys::mman::{MapFlags, ProtFlags, mmap, mprotect, munmap};
    use std::num::NonZeroUsize;
    use std::os::fd::{AsFd, AsRawFd};
    use std::os::unix::fs::{FileExt, MetadataExt};

    const BYTES: usize = 2 * HUGE_PAGE_BYTES;

    fn open_for_writing(descriptor: &OwnedFd) -> File {
        let path = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
        File::options().read(true).write(true).open(path).unwrap()
    }

    /// Returns whether the kernel maps a descriptor for stores.
    fn maps_for_stores(descriptor: impl AsFd) -> bool {
        let bytes = NonZeroUsize::new(PAGE_BYTES).unwrap();
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let mapped = unsafe { mmap(None, bytes, protection, MapFlags::MAP_SHARED, descriptor, 0) };
        // SAFETY: nothing refers to the mapping.
        mapped.is_ok_and(|address| unsafe { munmap(address, PAGE_BYTES) }.is_ok())
    }

    /// Both ends see the same words, and the pages are there before a reader comes.
    #[test]
    fn a_reader_sees_the_writers_words_and_finds_no_hole() {
        let (region, readers) = Region::readable(BYTES).unwrap();
        let blocks = File::from(readers.try_clone().unwrap()).metadata().unwrap().blocks();
        assert!(blocks * 512 >= BYTES as u64 || region.pages() == Pages::Hugetlb, "{blocks} blocks");
        let reader = Region::foreign(&readers, BYTES).unwrap();
        region.word(5).store(77, Relaxed);
        region.word(BYTES / 8 - 1).store(78, Relaxed);
        assert_eq!(reader.word(5).load(Relaxed), 77);
        assert_eq!(reader.word(BYTES / 8 - 1).load(Relaxed), 78);
    }

    /// Neither the descriptor, nor one that root opens for writing by its name in /proc, changes a byte.
    #[test]
    fn nobody_else_writes_or_shortens_the_memory() {
        let (region, readers) = Region::readable(BYTES).unwrap();
        region.word(0).store(7, Relaxed);
        assert!(!maps_for_stores(&readers));
        let reader = Region::foreign(&readers, BYTES).unwrap();
        let base = std::ptr::NonNull::from(reader.word(0)).cast();
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: it is refused, as the test shows; no reference is affected.
        assert!(unsafe { mprotect(base, PAGE_BYTES, protection) }.is_err());
        let writable = open_for_writing(&readers);
        assert!(!maps_for_stores(&writable));
        assert!(writable.write_at(&[1], 0).is_err());
        assert!(writable.set_len(0).is_err());
        assert!(writable.set_len(2 * BYTES as u64).is_err());
        let hole = nix::fcntl::FallocateFlags::FALLOC_FL_PUNCH_HOLE
            | nix::fcntl::FallocateFlags::FALLOC_FL_KEEP_SIZE;
        assert!(nix::fcntl::fallocate(&writable, hole, 0, PAGE_BYTES as i64).is_err());
        assert!(fcntl(&writable, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_WRITE)).is_err());
        assert_eq!(region.word(0).load(Relaxed), 7);
        region.word(0).store(8, Relaxed);
        assert_eq!(reader.word(0).load(Relaxed), 8);
    }

    /// A file in memory that anybody may cut is refused, for loads and for stores.
    #[test]
    fn memory_that_may_be_cut_is_not_mapped() {
        let file = make(PAGE_BYTES, MFdFlags::empty()).unwrap();
        assert!(
            Region::foreign(&file, PAGE_BYTES).is_err() && Region::descriptor(&file, PAGE_BYTES).is_err()
        );
        seal(&file, SealFlag::F_SEAL_SHRINK).unwrap();
        assert!(Region::foreign(&file, PAGE_BYTES).is_ok() && Region::descriptor(&file, PAGE_BYTES).is_ok());
        assert!(Region::foreign(&file, 2 * PAGE_BYTES).is_err());
    }

    /// Both sides of a ring write it, and neither takes its memory away from the other.
    #[test]
    fn exchanged_memory_keeps_its_length() {
        let (region, other) = Region::exchange(PAGE_BYTES).unwrap();
        let theirs = Region::descriptor(&other, PAGE_BYTES).unwrap();
        theirs.word(3).store(9, Relaxed);
        assert_eq!(region.word(3).load(Relaxed), 9);
        let file = File::from(other);
        assert!(file.set_len(0).is_err());
        assert!(file.set_len(2 * PAGE_BYTES as u64).is_err());
    }
}
