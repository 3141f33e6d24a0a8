//! A directory for an image.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A directory that is removed with its test.
pub struct Directory(pub PathBuf);

impl Directory {
    /// Names a directory that does not exist.
    pub fn new(parent: &Path, name: &str) -> Self {
        let path = parent.join(format!("micanite-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    /// Returns the bytes that the files take on the disk.
    pub fn allocated_bytes(&self) -> usize {
        let files = fs::read_dir(&self.0).unwrap();
        files.map(|file| file.unwrap().metadata().unwrap().blocks() as usize * 512).sum()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
