//! Files that are mapped: reserves the disk space before it is used, opens one again for readers.
//!
//! If the disk is full, a write to a hole of a mapped file kills the process (SIGBUS). So a file
//! gets all of its space when it is created or opened.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};

/// Unit of the fallback for file systems without fallocate. No hole is smaller.
const STEP_BYTES: usize = crate::PAGE_BYTES;

/// Reserves space for `bytes` of a file from a multiple of the page size on, and extends a file that ends
/// before. Existing contents stay.
///
/// # Errors
/// Returns the kernel's error: `StorageFull`, `QuotaExceeded`.
pub fn allocate(file: &File, first: usize, bytes: usize) -> io::Result<()> {
    loop {
        match fallocate(file, FallocateFlags::empty(), first as i64, bytes as i64) {
            Ok(()) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => return fill_holes(file, first, bytes),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Opens a file once more, for reading alone.
///
/// # Errors
/// Returns the kernel's error; there has to be a `/proc`.
pub fn reopen_for_loads(file: impl AsFd) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    Ok(File::open(path)?.into())
}

/// Fills holes by writing zeros over zeros, and past the end.
fn fill_holes(file: &File, first: usize, bytes: usize) -> io::Result<()> {
    let zeros = vec![0; STEP_BYTES];
    let mut piece = vec![0; STEP_BYTES];
    let end = first + bytes;
    for first in (first..end).step_by(STEP_BYTES) {
        let step = STEP_BYTES.min(end - first);
        let mut read = 0;
        while read < step {
            match file.read_at(&mut piece[read..step], (first + read) as u64)? {
                0 => break,
                count => read += count,
            }
        }
        if piece[..read] == zeros[..read] {
            file.write_all_at(&zeros[..step], first as u64)?;
        } else if read < step {
            file.write_all_at(&zeros[..step - read], (first + read) as u64)?;
        }
    }
    Ok(())
}

#[cfg(all(test, not(any(loom, miri))))]
mod tests {
    use super::*;
    use crate::folder::Folder;
    use std::os::unix::fs::MetadataExt;

    /// Both ways give a file all of its blocks, and keep its contents.
    #[test]
    fn a_file_has_all_its_blocks_and_keeps_its_bytes() {
        let folder = Folder::open(&std::env::temp_dir()).unwrap();
        for (number, take) in [allocate, fill_holes].into_iter().enumerate() {
            let name = format!("micanite-allocate-{}-{number}", std::process::id());
            let file = folder.create_new(&name, 0o600).unwrap();
            folder.remove(&name);
            let bytes = 5 * STEP_BYTES + 4096;
            file.set_len(bytes as u64 / 2).unwrap();
            file.write_all_at(b"here", STEP_BYTES as u64 + 5).unwrap();
            take(&file, 0, bytes).unwrap();
            let about = file.metadata().unwrap();
            assert_eq!(about.len(), bytes as u64);
            assert!(about.blocks() * 512 >= bytes as u64, "{} blocks", about.blocks());
            let mut read = [0; 6];
            file.read_exact_at(&mut read, STEP_BYTES as u64 + 4).unwrap();
            assert_eq!(&read, b"\0here\0");
        }
    }
}
