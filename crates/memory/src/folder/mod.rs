//! Opens and replaces files safely in directories that others may write.
//!
//! A server started by root writes with root's rights. In a directory that others may write, they
//! could replace a file by a link and so have the link's target overwritten. Therefore:
//!
//! - Files are opened relative to the descriptor of their directory, and a link as the last part of
//!   a path is never followed.
//! - A directory that others may write is refused, unless it is sticky (the system's temporary
//!   folder). In a sticky directory, and in another user's, an existing file has to belong to the
//!   user or to root.
//! - A file is replaced by writing a new file under an unused name and renaming it.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat, readlinkat, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};
use nix::sys::statvfs::fstatvfs;
use nix::unistd::{Gid, UnlinkatFlags, geteuid, unlinkat};

/// Maximum number of links to follow to a directory.
const LINKS_MAX: usize = 8;
/// Maximum number of temporary names to try.
const NAMES_MAX: usize = 100;
/// Maximum number of attempts when others create and remove the file at the same time.
const ATTEMPTS_MAX: usize = 16;

const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// An open directory.
#[derive(Debug)]
pub struct Folder {
    descriptor: OwnedFd,
    path: PathBuf,
    /// Others may create files here and remove their own, because of the mode or the owner.
    is_shared: bool,
}

/// A file as it was written. Another file of the same name belongs to somebody else.
#[derive(Debug)]
pub struct Placed {
    folder: Folder,
    name: OsString,
    identity: (u64, u64),
}

impl Folder {
    /// Opens a directory.
    ///
    /// # Errors
    /// Returns the kernel's error; refuses a directory that others may write.
    pub fn open(path: &Path) -> io::Result<Self> {
        // Drops a trailing slash, which would make the kernel follow a link.
        let path: &Path = &path.components().collect::<PathBuf>();
        let descriptor = open_directory(path, 0)?;
        let about = fstat(&descriptor)?;
        let open_to_others = may_be_written_by_others(&about);
        if open_to_others && about.st_mode & STICKY == 0 {
            let path = path.display();
            let text = format!("others may write to {path}: chmod go-w {path}, or choose another directory");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        Ok(Self { descriptor, path: path.to_owned(), is_shared: open_to_others || !is_trusted(&about) })
    }

    /// Opens a directory and creates it if it is missing.
    ///
    /// # Errors
    /// As for [`Folder::open`].
    pub fn make(path: &Path) -> io::Result<Self> {
        match Self::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                DirBuilder::new().recursive(true).mode(0o755).create(path)?;
                Self::open(path)
            }
            opened => opened,
        }
    }

    /// Opens the directory of a file; returns it with the file's name.
    ///
    /// # Errors
    /// As for [`Folder::open`]; `InvalidInput` for a path without a file name.
    pub fn of(path: &Path) -> io::Result<(Self, OsString)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let folder = Self::open(parent.unwrap_or(Path::new(".")))?;
        Ok((folder, name.to_owned()))
    }

    /// Returns the path as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates a new file for reading and writing.
    ///
    /// # Errors
    /// Returns the kernel's error: `AlreadyExists`, also for a dangling link.
    pub fn create_new(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<File> {
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW;
        self.open_at(name.as_ref(), flags, mode)
    }

    /// Opens an existing file for reading and writing. Does not follow a link.
    ///
    /// # Errors
    /// Returns the kernel's error; `PermissionDenied` for a link, for anything but a regular file, and
    /// for another user's file in a directory that others may write.
    pub fn existing(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        let name = name.as_ref();
        // Avoids blocking on anything but a regular file.
        let flags = OFlag::O_RDWR | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
        let file = self.open_at(name, flags, 0).map_err(|error| {
            match error.raw_os_error() == Some(Errno::ELOOP as i32) {
                true => self.refused(name, "it is a symbolic link, which is not followed"),
                false => error,
            }
        })?;
        self.check(name, &fstat(&file)?)?;
        Ok(file)
    }

    /// Opens a file and creates it if it is missing.
    ///
    /// # Errors
    /// As for [`Folder::existing`].
    pub fn existing_or_new(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<File> {
        let name = name.as_ref();
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for _ in 0..ATTEMPTS_MAX {
            match self.existing(name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                opened => return opened,
            }
            match self.create_new(name, mode) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
                created => return created,
            }
        }
        Err(last)
    }

    /// Writes a file with these bytes under a name, in one step. If the user may write the existing file
    /// but not its directory, the file is overwritten.
    ///
    /// # Errors
    /// Returns the kernel's error; `PermissionDenied` if the name is that of a link, or of anything but
    /// a regular file.
    pub fn replace(self, name: impl AsRef<OsStr>, bytes: &[u8]) -> io::Result<Placed> {
        let name = name.as_ref().to_owned();
        self.check_replaced(&name)?;
        let file = match self.create_beside(&name) {
            Ok((mut file, beside)) => {
                let renamed = file.write_all(bytes).and_then(|()| {
                    let (from, to) = (beside.as_os_str(), name.as_os_str());
                    Ok(renameat(&self.descriptor, from, &self.descriptor, to)?)
                });
                renamed.inspect_err(|_| self.remove(&beside))?;
                file
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let mut file = self.existing(&name).map_err(|_| error)?;
                file.set_len(0)?;
                file.write_all(bytes)?;
                file
            }
            Err(error) => return Err(error),
        };
        let identity = identity(&file)?;
        Ok(Placed { folder: self, name, identity })
    }

    /// Tries whether [`Self::replace`] could write a file of this name. Leaves everything as it is.
    ///
    /// # Errors
    /// As for [`Self::replace`].
    pub fn try_replace(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        let name = name.as_ref();
        self.check_replaced(name)?;
        match self.create_beside(name) {
            Ok((_, beside)) => {
                self.remove(beside);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.existing(name).map(drop).map_err(|_| error)
            }
            Err(error) => Err(error),
        }
    }

    /// Checks that a name is free, or that of a file.
    fn check_replaced(&self, name: &OsStr) -> io::Result<()> {
        match fstatat(&self.descriptor, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(about) => self.check_kind(name, &about),
            Err(Errno::ENOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates a file under an unused name; returns both.
    fn create_beside(&self, name: &OsStr) -> io::Result<(File, OsString)> {
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        for number in 0..NAMES_MAX {
            let mut beside = OsString::from(".");
            beside.push(name);
            beside.push(format!(".{}-{number}", std::process::id()));
            match self.create_new(&beside, 0o666) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
                created => return Ok((created?, beside)),
            }
        }
        Err(last)
    }

    /// Removes a file or a link, if it exists.
    pub fn remove(&self, name: impl AsRef<OsStr>) {
        // A missing file is fine, and a file that cannot be removed stays.
        let _ = unlinkat(&self.descriptor, name.as_ref(), UnlinkatFlags::NoRemoveDir);
    }

    /// Opens a directory in this one, if it exists.
    ///
    /// # Errors
    /// As for [`Folder::open`].
    pub fn inner(&self, name: &str) -> io::Result<Option<Self>> {
        match Self::open(&self.path.join(name)) {
            Ok(folder) => Ok(Some(folder)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Renames a file, or a directory, within this directory.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn rename_inner(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&self.descriptor, from, &self.descriptor, to)?)
    }

    /// Moves a file of this directory to another one, in place of a file of that name.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn rename_into(&self, name: impl AsRef<OsStr>, to: &Self) -> io::Result<()> {
        Ok(renameat(&self.descriptor, name.as_ref(), &to.descriptor, name.as_ref())?)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn remove_directory(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.descriptor, name, UnlinkatFlags::RemoveDir)?)
    }

    /// Returns device and inode of a name; for a link those of the link itself.
    pub(crate) fn identity_of(&self, name: impl AsRef<OsStr>) -> io::Result<(u64, u64)> {
        let about = fstatat(&self.descriptor, name.as_ref(), AtFlags::AT_SYMLINK_NOFOLLOW)?;
        Ok((about.st_dev, about.st_ino))
    }

    /// Returns a descriptor of the directory as a file for locking. All of them share one lock.
    pub(crate) fn as_file(&self) -> io::Result<File> {
        Ok(File::from(self.descriptor.try_clone()?))
    }

    /// Syncs the directory's entries to the disk.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn sync(&self) -> io::Result<()> {
        self.as_file()?.sync_all()
    }

    /// Returns how many bytes of the file system are free for this user.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn bytes_free(&self) -> io::Result<u64> {
        let about = fstatvfs(&self.descriptor)?;
        Ok(about.blocks_available().saturating_mul(about.fragment_size()))
    }

    fn open_at(&self, name: &OsStr, flags: OFlag, mode: u32) -> io::Result<File> {
        if name.as_bytes().contains(&b'/') {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mode = Mode::from_bits_truncate(mode);
        let descriptor = openat(&self.descriptor, name, flags | OFlag::O_CLOEXEC, mode)?;
        Ok(File::from(descriptor))
    }

    fn check(&self, name: &OsStr, about: &FileStat) -> io::Result<()> {
        self.check_kind(name, about)?;
        if self.is_shared && !is_trusted(about) {
            return Err(
                self.refused(name, "it belongs to another user, and others may write to its directory")
            );
        }
        Ok(())
    }

    fn check_kind(&self, name: &OsStr, about: &FileStat) -> io::Result<()> {
        match SFlag::from_bits_truncate(about.st_mode) & SFlag::S_IFMT {
            SFlag::S_IFREG => Ok(()),
            SFlag::S_IFLNK => Err(self.refused(name, "it is a symbolic link, which is not followed")),
            _ => Err(self.refused(name, "it is not a regular file")),
        }
    }

    fn refused(&self, name: &OsStr, why: &str) -> io::Error {
        let path = self.path.join(name);
        io::Error::new(io::ErrorKind::PermissionDenied, format!("{}: {why}", path.display()))
    }
}

impl Placed {
    /// Removes the file, unless another file has its name now.
    pub fn remove(&self) {
        if self.folder.identity_of(&self.name).is_ok_and(|it| it == self.identity) {
            self.folder.remove(&self.name);
        }
    }
}

/// Returns device and inode of a file.
pub(crate) fn identity(file: &File) -> io::Result<(u64, u64)> {
    let about = file.metadata()?;
    Ok((about.dev(), about.ino()))
}

/// Returns whether a file, link or directory belongs to the user or to root.
fn is_trusted(about: &FileStat) -> bool {
    about.st_uid == 0 || about.st_uid == geteuid().as_raw()
}

/// Returns whether users outside of the user's own group and root's may create and remove files in
/// a directory.
fn may_be_written_by_others(about: &FileStat) -> bool {
    let own_group = about.st_gid == 0 || about.st_gid == Gid::effective().as_raw();
    let by_group = about.st_mode & GROUP_WRITES != 0 && !own_group;
    by_group || about.st_mode & OTHERS_WRITE != 0
}

/// Opens a directory. Follows a link in its place if the link belongs to the user or to root.
fn open_directory(path: &Path, links: usize) -> io::Result<OwnedFd> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let error = match openat(AT_FDCWD, path, flags, Mode::empty()) {
        Ok(descriptor) => return Ok(descriptor),
        Err(error) => error,
    };
    if !matches!(error, Errno::ELOOP | Errno::ENOTDIR) || links == LINKS_MAX {
        return Err(error.into());
    }
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let link = openat(AT_FDCWD, path, flags, Mode::empty())?;
    let about = fstat(&link)?;
    let is_link = SFlag::from_bits_truncate(about.st_mode) & SFlag::S_IFMT == SFlag::S_IFLNK;
    if !is_link || !is_trusted(&about) {
        return Err(error.into());
    }
    let target = PathBuf::from(readlinkat(link.as_fd(), "")?);
    let beside = path.parent().unwrap_or(Path::new("."));
    open_directory(&beside.join(target), links + 1)
}

#[cfg(all(test, not(any(loom, miri))))]
mod tests;
