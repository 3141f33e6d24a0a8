//! Directories that a server keeps files in.
//!
//! A server that root has started writes with root's rights. In a directory where others may write,
//! they could put a link in the place of a file, and have the file that it leads to overwritten. So:
//!
//! - Files are opened relative to the descriptor of their directory, and the last part of a path
//!   is never followed if it is a link.
//! - A directory that others may write is refused, unless it is sticky (the system's temporary
//!   folder). In a sticky one, and in one that is another user's, a file that is there has to be the
//!   user's own, or root's.
//! - A file that is replaced is written under another name, which nobody has, and renamed.

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

/// Links that are followed on the way to a directory.
const LINKS_MAX: usize = 8;
/// Names that are tried for a file that is to be renamed.
const NAMES_MAX: usize = 100;
/// How often a file that others make and remove meanwhile is looked for.
const ATTEMPTS_MAX: usize = 16;

const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// An open directory. See the module.
#[derive(Debug)]
pub struct Folder {
    descriptor: OwnedFd,
    path: PathBuf,
    /// Others may make files here, and remove their own: everybody, or whoever the directory belongs to.
    is_shared: bool,
}

/// A file as it was when it was written: another one of the same name is somebody else's.
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
    /// What the kernel says, and directories that others may write.
    pub fn open(path: &Path) -> io::Result<Self> {
        // Without a slash at its end, behind which a link would be followed.
        let path: &Path = &path.components().collect::<PathBuf>();
        let descriptor = open_directory(path, 0)?;
        let about = fstat(&descriptor)?;
        let by_many = may_be_written_by_others(&about);
        if by_many && about.st_mode & STICKY == 0 {
            let path = path.display();
            let text = format!(
                "others may write to {path}: chmod go-w {path}, or choose another directory"
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        Ok(Self {
            descriptor,
            path: path.to_owned(),
            is_shared: by_many || !is_trusted(&about),
        })
    }

    /// Opens a directory, which is made if it is not there.
    ///
    /// # Errors
    /// As of [`Folder::open`].
    pub fn make(path: &Path) -> io::Result<Self> {
        match Self::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                DirBuilder::new().recursive(true).mode(0o755).create(path)?;
                Self::open(path)
            }
            opened => opened,
        }
    }

    /// The directory of a file, and the file's name in it.
    ///
    /// # Errors
    /// As of [`Folder::open`]; `InvalidInput` for a path without a name.
    pub fn of(path: &Path) -> io::Result<(Self, OsString)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let parent = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        let folder = Self::open(parent.unwrap_or(Path::new(".")))?;
        Ok((folder, name.to_owned()))
    }

    /// Its path, as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a file that is not there yet, to be read and written.
    ///
    /// # Errors
    /// What the kernel says: `AlreadyExists`, also for a link that leads nowhere.
    pub fn create_new(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<File> {
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW;
        self.open_at(name.as_ref(), flags, mode)
    }

    /// Opens a file that is there, to be read and written. A link is not followed.
    ///
    /// # Errors
    /// What the kernel says; `PermissionDenied` for links, for what is no file, and for files of
    /// others in a directory that others may write.
    pub fn existing(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        let name = name.as_ref();
        // What is no file is not waited for.
        let flags = OFlag::O_RDWR | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
        let file = self.open_at(name, flags, 0).map_err(|error| {
            match error.raw_os_error() == Some(Errno::ELOOP as i32) {
                true => self.refused(name, "it is a link, which is not followed"),
                false => error,
            }
        })?;
        self.check(name, &fstat(&file)?)?;
        Ok(file)
    }

    /// Opens a file, which is made if it is not there.
    ///
    /// # Errors
    /// As of [`Folder::existing`].
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

    /// Puts a file with these bytes under a name, all at once. Where the user may write the file that
    /// is there, and not its directory, that file is overwritten.
    ///
    /// # Errors
    /// What the kernel says; `PermissionDenied` where the name is that of a link, or of no file.
    pub fn replace(self, name: impl AsRef<OsStr>, bytes: &[u8]) -> io::Result<Placed> {
        let name = name.as_ref().to_owned();
        match fstatat(
            &self.descriptor,
            name.as_os_str(),
            AtFlags::AT_SYMLINK_NOFOLLOW,
        ) {
            Ok(about) => self.check_kind(&name, &about)?,
            Err(Errno::ENOENT) => {}
            Err(error) => return Err(error.into()),
        }
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
        Ok(Placed {
            folder: self,
            name,
            identity,
        })
    }

    /// A file under a name that nobody has, and the name.
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

    /// Removes a file, or a link, if it is there.
    pub fn remove(&self, name: impl AsRef<OsStr>) {
        // Gone already, or not to be removed: nothing to be done.
        let _ = unlinkat(&self.descriptor, name.as_ref(), UnlinkatFlags::NoRemoveDir);
    }

    /// Device and number of what has a name; a link's own.
    pub(crate) fn identity_of(&self, name: impl AsRef<OsStr>) -> io::Result<(u64, u64)> {
        let about = fstatat(
            &self.descriptor,
            name.as_ref(),
            AtFlags::AT_SYMLINK_NOFOLLOW,
        )?;
        Ok((about.st_dev, about.st_ino))
    }

    /// A descriptor of the directory, as a file to be locked: all of these share one lock.
    pub(crate) fn as_file(&self) -> io::Result<File> {
        Ok(File::from(self.descriptor.try_clone()?))
    }

    /// Writes the names that were made and removed to the disk.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn sync(&self) -> io::Result<()> {
        self.as_file()?.sync_all()
    }

    /// Bytes that the file system has left for this user.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn bytes_free(&self) -> io::Result<u64> {
        let about = fstatvfs(&self.descriptor)?;
        Ok(about
            .blocks_available()
            .saturating_mul(about.fragment_size()))
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
            return Err(self.refused(name, "it is another user's, where others may write"));
        }
        Ok(())
    }

    fn check_kind(&self, name: &OsStr, about: &FileStat) -> io::Result<()> {
        match SFlag::from_bits_truncate(about.st_mode) & SFlag::S_IFMT {
            SFlag::S_IFREG => Ok(()),
            SFlag::S_IFLNK => Err(self.refused(name, "it is a link, which is not followed")),
            _ => Err(self.refused(name, "it is no file")),
        }
    }

    fn refused(&self, name: &OsStr, why: &str) -> io::Error {
        let path = self.path.join(name);
        io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("{}: {why}", path.display()),
        )
    }
}

impl Placed {
    /// Removes the file, unless another one has its name by now.
    pub fn remove(&self) {
        if self
            .folder
            .identity_of(&self.name)
            .is_ok_and(|it| it == self.identity)
        {
            self.folder.remove(&self.name);
        }
    }
}

/// Device and number of a file.
pub(crate) fn identity(file: &File) -> io::Result<(u64, u64)> {
    let about = file.metadata()?;
    Ok((about.dev(), about.ino()))
}

/// Whether a file, link or directory is the user's own, or root's.
fn is_trusted(about: &FileStat) -> bool {
    about.st_uid == 0 || about.st_uid == geteuid().as_raw()
}

/// Whether others than the user, their group and root's may make and remove files in a directory.
fn may_be_written_by_others(about: &FileStat) -> bool {
    let own_group = about.st_gid == 0 || about.st_gid == Gid::effective().as_raw();
    let by_group = about.st_mode & GROUP_WRITES != 0 && !own_group;
    by_group || about.st_mode & OTHERS_WRITE != 0
}

/// Opens a directory. A link in its place is followed if it is the user's own, or root's.
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
