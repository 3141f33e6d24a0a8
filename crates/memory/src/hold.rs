//! Locks a directory for one process, and finds the process that holds it.
//!
//! Both the directory and a file in it are locked. The directory's lock survives when somebody removes
//! the files. The file's lock works where directories cannot be locked (NFS).

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::folder::{Folder, identity};

/// Maximum number of attempts to open a lock file that others remove or replace.
const ATTEMPTS_MAX: usize = 16;
/// Maximum length of a command line in messages.
const COMMAND_BYTES_MAX: usize = 200;

/// The lock of a directory, until it is dropped.
#[derive(Debug)]
pub struct Hold {
    _directory: File,
    _file: File,
}

/// A process that holds a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub pid: u32,
    /// Command line, as far as it is readable.
    pub command: String,
}

/// Reasons why a directory is not locked.
#[derive(Debug)]
pub enum NotHeld {
    /// Another process holds it: this one, if it could be found.
    Held(Option<Holder>),
    /// This process holds it already.
    Own,
    /// The kernel returned an error.
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
    /// Locks the directory against other processes, with the lock file `name`.
    ///
    /// # Errors
    /// Described by [`NotHeld`].
    pub fn hold(&self, name: impl AsRef<OsStr>) -> Result<Hold, NotHeld> {
        let name = name.as_ref();
        let directory = self.as_file()?;
        match directory.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(held(&directory)),
            // Some file systems cannot lock directories. There the file's lock has to suffice.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        for _ in 0..ATTEMPTS_MAX {
            let file = self.existing_or_new(name, 0o600)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(held(&file)),
                Err(TryLockError::Error(error)) => return Err(error.into()),
            }
            // The locked file may have been removed or replaced since it was opened.
            if self.identity_of(name).ok() == Some(identity(&file)?) {
                return Ok(Hold { _directory: directory, _file: file });
            }
        }
        let text = "its lock file was replaced at every attempt";
        Err(io::Error::other(text).into())
    }
}

/// Returns the error for a lock that is taken.
fn held(file: &File) -> NotHeld {
    let is_own = |wanted| has_locked(std::process::id(), wanted);
    match identity(file).is_ok_and(is_own) {
        true => NotHeld::Own,
        false => NotHeld::Held(holder(file)),
    }
}

/// Finds another process that holds a lock of a file or directory, if /proc shows it.
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
    Some(Holder { pid, command: command.trim().chars().map(shown).collect() })
}

/// Returns whether a process has a file open with a lock on it.
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
