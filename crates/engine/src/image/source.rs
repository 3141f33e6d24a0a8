//! Sources of an image: files in a directory, or memory of the kernel.

use std::fmt;
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use micanite_memory::folder::Folder;
use micanite_memory::hold::{Hold, NotHeld};
use micanite_memory::sync::Ordering::Relaxed;
use micanite_memory::{PAGE_BYTES, allocate, reopen_for_loads};
use micanite_wire::hash::PARTITION_BITS;

use crate::cache::config::{Config, Maps};
use crate::cache::error::{CreateError, CreateErrorKind};
use crate::cache::layout::Layout;
use crate::partition::limit::Gaps;
use crate::partition::{Partition, PartitionLayout};
use crate::region::fields::MAGIC;
use crate::region::{Field, Region};

/// Words of the header that are read before anything is mapped.
const HEADER_READ_WORDS: usize = 64;
/// Bytes at the end of a file that are zero if its header is zero and it was never completed: the
/// index begins there.
const END_READ_BYTES: u64 = 64 << 10;
/// Most partitions of an image.
const PARTITIONS_MAX: usize = 1 << PARTITION_BITS;
/// File that is locked by the process that uses a directory.
pub(super) const LOCK: &str = "lock";

/// Words of a header that are read.
pub(crate) type HeaderWords = [u64; HEADER_READ_WORDS];

/// The file or map of the first partition, which is made last.
pub(crate) enum First {
    Missing,
    /// A process was killed while it made an image.
    Incomplete,
    Header(Box<HeaderWords>),
}

/// Source of an image.
#[derive(Debug)]
pub(crate) enum Source<'a> {
    Directory(Folder),
    Maps(&'a Maps),
}

impl fmt::Display for Source<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(folder) => folder.path().display().fmt(formatter),
            Self::Maps(_) => formatter.write_str("the maps"),
        }
    }
}

impl<'a> Source<'a> {
    /// Returns the source in a configuration, if it has one.
    pub fn of(config: &'a Config) -> Result<Option<Self>, CreateError> {
        match (&config.image, &config.maps) {
            (None, None) => Ok(None),
            (Some(directory), None) => Self::directory(directory).map(Some),
            (None, Some(maps)) => Ok(Some(Self::Maps(maps))),
            (Some(_), Some(_)) => {
                Err(CreateError::new("an image lies in a directory or in maps, not in both".into()))
            }
        }
    }

    /// Opens a directory, and makes it if it does not exist.
    pub fn directory(path: &Path) -> Result<Self, CreateError> {
        let folder = Folder::make(path).map_err(|error| {
            let path = path.display();
            CreateError::new(format!("cannot keep an image in {path}: {error}"))
        })?;
        Ok(Self::Directory(folder))
    }

    /// Keeps other processes from using a directory. For maps, their maker is responsible.
    pub fn lock(&self) -> Result<Option<Hold>, CreateError> {
        let Self::Directory(folder) = self else {
            return Ok(None);
        };
        folder.hold(LOCK).map(Some).map_err(|error| {
            let kind = match &error {
                NotHeld::Held(_) | NotHeld::Own => CreateErrorKind::InUse,
                NotHeld::Failed(_) => CreateErrorKind::Refused,
            };
            CreateError::of(kind, format!("cannot use the image in {self}: {error}"))
        })
    }

    /// Reads the first partition.
    pub fn first(&self) -> io::Result<First> {
        let header = match self {
            Self::Directory(folder) => match folder.existing(file_name(0)) {
                Ok(file) => {
                    let header = header_of_file(&file)?;
                    if is_incomplete(&header, &file)? {
                        return Ok(First::Incomplete);
                    }
                    Some(header)
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            },
            Self::Maps(maps) => header_of_maps(maps)?,
        };
        Ok(header.map_or(First::Missing, |header| First::Header(Box::new(header))))
    }

    /// Removes the files of a process that was killed while it made an image, or, with `discarded`,
    /// the files of a cache. If a file holds more than that, changes nothing and returns a
    /// description.
    pub fn remove_incomplete(&self, discarded: bool) -> io::Result<Result<(), String>> {
        let Self::Directory(folder) = self else {
            return Ok(Ok(()));
        };
        for number in 1..PARTITIONS_MAX {
            let file = match folder.existing(file_name(number)) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let header = header_of_file(&file)?;
            let is_image = header[Field::Magic as usize] == MAGIC;
            let may_go = is_image && (!is_used(&header) || discarded && !is_of_store(&header));
            if !may_go && !is_incomplete(&header, &file)? {
                let (first, other) = (file_name(0), file_name(number));
                return Ok(Err(format!("{other} is in use, and {first} is missing or empty")));
            }
        }
        self.remove_all();
        Ok(Ok(()))
    }

    /// Checks that there are as many maps as partitions.
    pub fn check_count(&self, layout: &Layout) -> Result<(), CreateError> {
        match self {
            Self::Maps(maps) if maps.descriptors.len() != layout.partitions => {
                let (count, wanted) = (maps.descriptors.len(), layout.partitions);
                let text = format!("there are {count} maps for {wanted} partitions");
                Err(CreateError::new(text))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether memory mapped as new may hold earlier bytes.
    pub fn may_hold_earlier_bytes(&self) -> bool {
        matches!(self, Self::Maps(_))
    }

    /// Maps an existing partition.
    pub fn map(&self, number: usize, bytes: usize) -> io::Result<Region> {
        match self {
            Self::Directory(folder) => {
                let file = folder.existing(file_name(number))?;
                let found = file.metadata()?.len();
                if found != bytes as u64 {
                    let name = file_name(number);
                    let text = format!("{name} has {found} bytes, not {bytes}");
                    return Err(io::Error::new(io::ErrorKind::InvalidData, text));
                }
                Region::file(&file, bytes)
            }
            Self::Maps(maps) => Region::descriptor(&*maps.descriptors[number], bytes),
        }
    }

    /// Maps a partition that is to be formatted. Allocates the space on the disk that it uses.
    pub fn map_new(&self, of: &PartitionLayout) -> io::Result<Region> {
        let bytes = of.region_words as usize * 8;
        match self {
            Self::Directory(folder) => {
                let file = folder.create_new(file_name(of.number), 0o600)?;
                allocate_used(&file, of, of.gaps(of.limit_words), of.buckets)?;
                Region::file(&file, bytes)
            }
            Self::Maps(_) => self.map(of.number, bytes),
        }
    }

    /// Fills holes in what partitions use: copies may have some. Contents stay. The sizes in the headers are
    /// checked.
    pub fn allocate(&self, partitions: &[Partition]) -> Result<(), CreateError> {
        let Self::Directory(folder) = self else {
            return Ok(());
        };
        partitions.iter().try_for_each(|partition| {
            let file = folder.existing(file_name(partition.layout.number));
            let allocated = file.and_then(|file| {
                let all = allocate_used(&file, &partition.layout, partition.gaps(), partition.buckets());
                all.or_else(|error| {
                    if !is_full(&error) {
                        return Err(error);
                    }
                    partition.go_without_margin();
                    allocate_beside(&file, &partition.layout, partition.holes_without_margin())
                })
            });
            let bytes = partitions.iter().map(|partition| partition.used_words() as usize * 8).sum();
            allocated.map_err(|error| self.no_space(bytes, &error))
        })
    }

    /// Gives the files of sound partitions the access of new ones, because copies may differ: for the owner
    /// alone, because the header holds the secret of the index.
    pub fn adopt(&self, partitions: &[Partition]) -> Result<(), CreateError> {
        let Self::Directory(folder) = self else {
            return Ok(());
        };
        partitions.iter().try_for_each(|partition| {
            let number = partition.layout.number;
            let failed =
                |error: io::Error| CreateError::new(format!("cannot use the image in {self}: {error}"));
            let file = folder.existing(file_name(number)).map_err(failed)?;
            let about = file.metadata().map_err(failed)?;
            if about.permissions().mode() & 0o077 != 0 {
                let restricted = file.set_permissions(Permissions::from_mode(0o600));
                restricted.map_err(|error| self.not_restricted(&file_name(number), &error))?;
            }
            Ok(())
        })
    }

    /// Returns the error for a file whose mode cannot be changed.
    fn not_restricted(&self, name: &str, error: &io::Error) -> CreateError {
        CreateError::new(format!(
            "others may read or write {name} in {self}, and its mode cannot be changed ({error}): it has to \
             belong to the user that serves"
        ))
    }

    /// Opens the file of a partition for readers in other processes.
    pub fn reader(&self, number: usize) -> io::Result<OwnedFd> {
        match self {
            Self::Directory(folder) => reopen_for_loads(folder.existing(file_name(number))?),
            Self::Maps(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Removes the files of partitions, the first one last.
    pub fn remove(&self, partitions: usize) {
        if let Self::Directory(folder) = self {
            let numbers = (0..partitions).rev();
            numbers.for_each(|number| folder.remove(file_name(number)));
        }
    }

    /// Removes the files of partitions, however many there are, the first one last.
    pub fn remove_all(&self) {
        self.remove(PARTITIONS_MAX);
    }

    /// Discards an image of any number of partitions. The first file is emptied before, and stays as a mark
    /// until [`Self::remove`]: a process that finds the rest makes a new image.
    pub fn discard(&self) -> io::Result<()> {
        let Self::Directory(folder) = self else {
            return Ok(());
        };
        let first = folder.existing(file_name(0))?;
        first.set_len(0)?;
        first.sync_all()?;
        (1..PARTITIONS_MAX).for_each(|number| folder.remove(file_name(number)));
        Ok(())
    }

    /// Returns how many bytes of the file system are free; `None` if there is none, or it does not say.
    pub fn bytes_free(&self) -> Option<u64> {
        match self {
            Self::Directory(folder) => folder.bytes_free().ok(),
            Self::Maps(_) => None,
        }
    }

    /// Checks that the file system has room for an image, if it says how much it has.
    pub fn check_space(&self, bytes: usize) -> Result<(), CreateError> {
        match self.bytes_free() {
            Some(free_bytes) if free_bytes < bytes as u64 => {
                Err(self.no_space(bytes, &io::ErrorKind::StorageFull.into()))
            }
            _ => Ok(()),
        }
    }

    /// Returns the error for lack of space for an image.
    pub fn no_space(&self, bytes: usize, error: &io::Error) -> CreateError {
        let text = match self {
            Self::Directory(folder) if is_full(error) => {
                let free = folder.bytes_free().unwrap_or(0) >> 20;
                format!(
                    "an image of {} MiB (-m) does not fit in {self}: {free} MiB are free there ({error})",
                    bytes >> 20
                )
            }
            _ => format!("cannot make {bytes} bytes in {self}: {error}"),
        };
        CreateError::of(CreateErrorKind::NoSpace, text)
    }

    /// Writes the names of new files to the disk.
    pub fn sync_names(&self) -> io::Result<()> {
        match self {
            Self::Directory(folder) => folder.sync(),
            Self::Maps(_) => Ok(()),
        }
    }
}

/// Returns whether a file system, or a quota, has no more space.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Allocates the space of a partition on the disk, except for what a limit leaves unused.
fn allocate_used(file: &File, of: &PartitionLayout, gaps: Gaps, buckets: u64) -> io::Result<()> {
    allocate_beside(file, of, of.holes(gaps, buckets, PAGE_BYTES))
}

/// Allocates the space of a partition on the disk, except for two ranges of bytes.
fn allocate_beside(file: &File, of: &PartitionLayout, [small, main]: [(u64, u64); 2]) -> io::Result<()> {
    let end = of.region_words * 8;
    debug_assert!(small.0 <= small.1 && small.1 <= main.0 && main.0 <= main.1 && main.1 <= end);
    let used = [(0, small.0), (small.1, main.0), (main.1, end)];
    used.into_iter()
        .filter(|(first, end)| first < end)
        .try_for_each(|(first, end)| allocate(file, first as usize, (end - first) as usize))
}

/// Returns the file name of a partition.
pub(super) fn file_name(number: usize) -> String {
    format!("partition-{number:04}")
}

pub(super) fn header_of_file(file: &File) -> io::Result<HeaderWords> {
    let mut bytes = [0; HEADER_READ_WORDS * 8];
    match file.read_exact_at(&mut bytes, 0) {
        // A file that is too short has no magic.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => bytes.fill(0),
        read => read?,
    }
    let (words, _) = bytes.as_chunks::<8>();
    Ok(std::array::from_fn(|word| u64::from_le_bytes(words[word])))
}

/// Returns whether a file belongs to a store.
fn is_of_store(header: &HeaderWords) -> bool {
    header[Field::Shape as usize] >> 63 == 1
}

/// Returns whether items were stored in an image, or it was closed.
fn is_used(header: &HeaderWords) -> bool {
    let fields = [Field::Clean, Field::ItemsLive, Field::ItemsInserted, Field::Stamp];
    fields.iter().any(|field| header[*field as usize] != 0)
}

/// Returns whether a file was never completed: the magic is written last.
fn is_incomplete(header: &HeaderWords, file: &File) -> io::Result<bool> {
    if header[Field::Magic as usize] != 0 || is_used(header) {
        return Ok(false);
    }
    if header.iter().any(|word| *word != 0) {
        return Ok(true); // it was being formatted
    }
    let bytes = file.metadata()?.len();
    let first = bytes.saturating_sub(END_READ_BYTES);
    let mut end = vec![0; (bytes - first) as usize];
    file.read_exact_at(&mut end, first)?;
    Ok(end.iter().all(|byte| *byte == 0))
}

/// Returns the header of maps, or none if no image was completed in them.
fn header_of_maps(maps: &Maps) -> io::Result<Option<HeaderWords>> {
    let Some(first) = maps.descriptors.first().filter(|_| maps.kept) else {
        return Ok(None);
    };
    let region = Region::descriptor(&**first, PAGE_BYTES)?;
    let words = std::array::from_fn(|word| region.word(word).load(Relaxed));
    Ok(Some(words).filter(|words| words[Field::Magic as usize] != 0))
}
