//! Where an image lies: files in a directory, or memory of the kernel.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

use micanite_memory::PAGE_BYTES;
use micanite_memory::sync::Ordering::Relaxed;

use crate::config::{Config, Maps};
use crate::error::CreateError;
use crate::layout::Layout;
use crate::partition::Field;
use crate::region::Region;

/// Words of the header that are looked at before anything is mapped.
const LOOK_WORDS: usize = 64;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source<'a> {
    Directory(&'a Path),
    Maps(&'a Maps),
}

impl fmt::Display for Source<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(directory) => directory.display().fmt(formatter),
            Self::Maps(_) => formatter.write_str("the maps"),
        }
    }
}

impl<'a> Source<'a> {
    /// Where a configuration wants its image, if it does.
    pub fn of(config: &'a Config) -> Result<Option<Self>, CreateError> {
        match (&config.image, &config.maps) {
            (None, None) => Ok(None),
            (Some(directory), None) => Ok(Some(Self::Directory(directory))),
            (None, Some(maps)) => Ok(Some(Self::Maps(maps))),
            (Some(_), Some(_)) => Err(CreateError::new(
                "an image lies in a directory or in maps, not in both".into(),
            )),
        }
    }

    /// Keeps other processes off a directory. Whoever made the maps answers for them.
    pub fn lock(&self) -> Result<Option<File>, CreateError> {
        let Self::Directory(directory) = self else {
            return Ok(None);
        };
        let failed = |what: &str, error: &dyn fmt::Display| {
            CreateError::new(format!("{what} {self}: {error}"))
        };
        fs::create_dir_all(directory).map_err(|error| failed("cannot make", &error))?;
        let lock = File::create(directory.join("lock")).map_err(|error| failed("in", &error))?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(lock)),
            Err(_) => Err(failed("cannot use", &"another process has this image open")),
        }
    }

    /// The header of the first partition, if there is one.
    pub fn header(&self) -> io::Result<Option<[u64; LOOK_WORDS]>> {
        match self {
            Self::Directory(directory) => header_of_file(&directory.join(file_name(0))),
            Self::Maps(maps) => header_of_maps(maps),
        }
    }

    /// Whether there are as many maps as partitions.
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

    /// Whether what is mapped as new may hold bytes of before.
    pub fn holds_what_was(&self) -> bool {
        matches!(self, Self::Maps(_))
    }

    /// Maps a partition; `new` for one that is to be formatted.
    pub fn map(&self, number: usize, bytes: usize, new: bool) -> io::Result<Region> {
        match self {
            Self::Directory(directory) => map_file(&directory.join(file_name(number)), bytes, new),
            Self::Maps(maps) => Region::descriptor(&*maps.descriptors[number], bytes),
        }
    }
}

/// The file of a partition.
pub(super) fn file_name(number: usize) -> String {
    format!("partition-{number:04}")
}

fn map_file(path: &Path, bytes: usize, new: bool) -> io::Result<Region> {
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    let file = options.create(new).truncate(new).open(path)?;
    // The header holds the secret of the index.
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
    }
    if new {
        file.set_len(bytes as u64)?;
    }
    Region::file(&file, bytes)
}

fn header_of_file(path: &Path) -> io::Result<Option<[u64; LOOK_WORDS]>> {
    use std::io::Read;
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = [0; LOOK_WORDS * 8];
    file.read_exact(&mut bytes)?;
    let (words, _) = bytes.as_chunks::<8>();
    let words = std::array::from_fn(|word| u64::from_le_bytes(words[word]));
    Ok(Some(words))
}

/// Maps that nobody has completed an image in hold none.
fn header_of_maps(maps: &Maps) -> io::Result<Option<[u64; LOOK_WORDS]>> {
    let Some(first) = maps.descriptors.first().filter(|_| maps.kept) else {
        return Ok(None);
    };
    let region = Region::descriptor(&**first, PAGE_BYTES)?;
    let words = std::array::from_fn(|word| region.word(word).load(Relaxed));
    Ok(Some(words).filter(|words| words[Field::Magic as usize] != 0))
}
