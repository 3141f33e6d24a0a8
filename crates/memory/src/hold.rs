//! A directory that one process works in at a time, and who that is.
//!
//! The lock lies on the directory itself and on a file in it. The directory's is not lost when
//! somebody removes the files; the file's holds where directories cannot be locked (NFS).

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::folder::{Folder, identity};

/// How often a lock file that is removed or replaced meanwhile is opened anew.
const ATTEMPTS_MAX: usize = 16;
/// Bytes of a command line that are told.
const COMMAND_BYTES_MAX: usize = 200;

/// The right to work in a directory, until it is dropped.
#[derive(Debug)]
pub struct Hold {
    _directory: File,
    _file: File,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its number.
    pub pid: u32,
    /// Its command line, as far as it may be read.
    pub command: String,
}

/// Why a directory cannot be worked in.
#[derive(Debug)]
pub enum NotHeld {
    /// Another process works there, this one if it can be found.
    Held(Option<Holder>),
    /// This process works there already.
    Own,
    /// What the kernel says.
    Failed(io::Error),
}

impl From<io::Error> for NotHeld {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.command.as_str() {
            "" => write!(formatter, "process {}", self.pid),
            command => write!(formatter, "process {} ({command})", self.pid),
        }
    }
}

impl fmt::Display for NotHeld {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held(Some(holder)) => write!(formatter, "another process has it open: {holder}"),
            Self::Held(None) => formatter.write_str("another process has it open"),
            Self::Own => formatter.write_str("this process has it open"),
            Self::Failed(error) => error.fmt(formatter),
        }
    }
}

impl Folder {
    /// Keeps other processes off the directory, by itself and by the file of this name.
    ///
    /// # Errors
    /// See [`NotHeld`].
    pub fn hold(&self, name: impl AsRef<OsStr>) -> Result<Hold, NotHeld> {
        let name = name.as_ref();
        let directory = self.as_file()?;
        match directory.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(held(&directory)),
            // Some file systems lock no directories: the file's lock has to do.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        for _ in 0..ATTEMPTS_MAX {
            let file = self.existing_or_new(name, 0o600)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(held(&file)),
                Err(TryLockError::Error(error)) => return Err(error.into()),
            }
            // What was locked may have been removed, or replaced, since it was opened.
            if self.identity_of(name).ok() == Some(identity(&file)?) {
                return Ok(Hold {
                    _directory: directory,
                    _file: file,
                });
            }
        }
        let text = "its lock file is replaced all the time";
        Err(io::Error::other(text).into())
    }
}

/// Who holds the lock of a file or directory.
fn held(file: &File) -> NotHeld {
    let is_own = |wanted| has_locked(std::process::id(), wanted);
    match identity(file).is_ok_and(is_own) {
        true => NotHeld::Own,
        false => NotHeld::Held(holder(file)),
    }
}

/// The other process that holds a lock of a file or directory, if it may be looked for.
pub fn holder(file: &File) -> Option<Holder> {
    let wanted = identity(file).ok()?;
    let own = std::process::id();
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut others = pids.filter(|pid| *pid != own);
    let pid = others.find(|pid| has_locked(*pid, wanted))?;
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let command = &command[..command.len().min(COMMAND_BYTES_MAX)];
    let command = String::from_utf8_lossy(command).replace('\0', " ");
    let shown = |letter: char| if letter.is_control() { '?' } else { letter };
    Some(Holder {
        pid,
        command: command.trim().chars().map(shown).collect(),
    })
}

/// Whether a process has a file open, and a lock on it.
fn has_locked(pid: u32, wanted: (u64, u64)) -> bool {
    let process = Path::new("/proc").join(pid.to_string());
    let Ok(descriptors) = fs::read_dir(process.join("fd")) else {
        return false;
    };
    descriptors.flatten().any(|entry| {
        let about = fs::metadata(entry.path());
        about.is_ok_and(|about| (about.dev(), about.ino()) == wanted) && {
            let info = fs::read_to_string(process.join("fdinfo").join(entry.file_name()));
            info.is_ok_and(|info| info.contains("FLOCK"))
        }
    })
}
