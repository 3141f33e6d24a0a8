//! A directory for images, on tmpfs where there is one.

use std::path::{Path, PathBuf};

use crate::Result;

/// A new directory, removed with this.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Result<Self> {
        let shared = Path::new("/dev/shm");
        let parent = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
        let directory = parent.join(format!("micanite-lab-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory)?;
        Ok(Self(directory))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("cannot remove {}: {error}", self.0.display());
        }
    }
}
