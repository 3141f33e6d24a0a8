//! The image's memory: one array of one element for each partition, and the array of them.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use micanite_bpf::{Map, MapOptions, MapType};

/// The most bytes of one partition: the verifier follows offsets up to here.
pub const IMAGE_BYTES_MAX: usize = 512 << 20;

/// The memory of all partitions. What was written stays as long as a descriptor does.
#[derive(Debug)]
pub struct ImageMaps {
    partitions: Vec<Arc<OwnedFd>>,
    outer: Map,
    partition_bytes: usize,
}

impl ImageMaps {
    /// New memory, all zeros: it takes seconds per GiB, for the kernel fills it with pages.
    ///
    /// # Errors
    /// In words for the user: missing rights, or memory.
    pub fn create(partitions: usize, partition_bytes: usize) -> Result<Self, String> {
        let one = |_| {
            let map = Map::create(&partition(partition_bytes))?;
            Ok(Arc::new(OwnedFd::from(map)))
        };
        let maps: io::Result<Vec<_>> = (0..partitions).map(one).collect();
        let maps = maps.map_err(|error| refused(&error, partitions * partition_bytes))?;
        Self::of(maps, partition_bytes)
    }

    /// The memory that is pinned in a directory of a BPF file system, or new memory, which is then pinned there. With it comes
    /// whether it was there before: then it may hold an image.
    ///
    /// # Errors
    /// In words for the user: missing rights, or memory; no such file system; memory of another size.
    pub fn pinned(
        directory: &Path,
        partitions: usize,
        partition_bytes: usize,
    ) -> Result<(Self, bool), String> {
        if !Self::are_pinned(directory) {
            return Ok((
                Self::pin_new(directory, partitions, partition_bytes)?,
                false,
            ));
        }
        let open = |number| {
            let path = path_of(directory, number);
            let map = Map::pinned(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            match map.value_bytes() == partition_bytes {
                true => Ok(Arc::new(OwnedFd::from(map))),
                false => Err(other_size(directory, partitions, partition_bytes)),
            }
        };
        if path_of(directory, partitions).exists() || !path_of(directory, partitions - 1).exists() {
            return Err(other_size(directory, partitions, partition_bytes));
        }
        let maps: Result<Vec<_>, String> = (0..partitions).map(open).collect();
        Ok((Self::of(maps?, partition_bytes)?, true))
    }

    fn pin_new(
        directory: &Path,
        partitions: usize,
        partition_bytes: usize,
    ) -> Result<Self, String> {
        clear(directory)?;
        let this = Self::create(partitions, partition_bytes)?;
        this.pin_all(directory)?;
        Ok(this)
    }

    /// Pins all partitions, the first one last.
    fn pin_all(&self, directory: &Path) -> Result<(), String> {
        clear(directory)?;
        for (number, partition) in self.partitions.iter().enumerate().rev() {
            let map = partition.try_clone().and_then(Map::of_descriptor);
            map.and_then(|map| map.pin(&path_of(directory, number)))
                .map_err(|error| no_directory(directory, &error))?;
        }
        Ok(())
    }

    /// Sees to it that this memory is what is pinned in a directory: it is already, or nothing is, and it is pinned there.
    ///
    /// # Errors
    /// In words for the user: something else is pinned there, or it is no such file system.
    pub fn pin_as(&self, directory: &Path) -> Result<(), String> {
        let id_of = |map: io::Result<Map>| map.and_then(|map| map.id());
        let own = |number: usize| {
            let map = self.partitions[number].try_clone();
            id_of(map.and_then(Map::of_descriptor)).map_err(|error| error.to_string())
        };
        if !Self::are_pinned(directory) {
            return self.pin_all(directory);
        }
        for number in 0..self.partitions.len() {
            let path = path_of(directory, number);
            let there = id_of(Map::pinned(&path));
            if there.map_err(|error| format!("{}: {error}", path.display()))? != own(number)? {
                return Err(Self::others_pinned(directory));
            }
        }
        Ok(())
    }

    /// Whether memory is pinned in a directory.
    pub fn are_pinned(directory: &Path) -> bool {
        // Of a set that was not completed, it is the first that is missing.
        path_of(directory, 0).exists()
    }

    /// Why other memory cannot be pinned in a directory, and what can be done.
    pub fn others_pinned(directory: &Path) -> String {
        let directory = directory.display();
        format!(
            "{directory} holds another image than the server has now: another directory, or without its data: rm {directory}/partition-*"
        )
    }

    /// Memory of before, one descriptor per partition.
    ///
    /// # Errors
    /// In words for the user: it is something else.
    pub fn of(partitions: Vec<Arc<OwnedFd>>, partition_bytes: usize) -> Result<Self, String> {
        let outer = Self::outer(&partitions);
        let outer = outer.map_err(|error| format!("the kernel refuses a BPF map: {error}"))?;
        Ok(Self {
            partitions,
            outer,
            partition_bytes,
        })
    }

    fn outer(partitions: &[Arc<OwnedFd>]) -> io::Result<Map> {
        let first = partitions.first().ok_or(io::ErrorKind::InvalidInput)?;
        let name = (MapType::ArrayOfMaps, "micanite_parts");
        let outer = Map::create(&MapOptions {
            inner: Some(first.as_fd()),
            ..MapOptions::new(name, 4, 4, partitions.len())
        })?;
        for (number, partition) in partitions.iter().enumerate() {
            use std::os::fd::AsRawFd;
            let descriptor = partition.as_raw_fd().to_ne_bytes();
            outer.set(&(number as u32).to_ne_bytes(), &descriptor)?;
        }
        Ok(outer)
    }

    /// One descriptor per partition, in order; each can be mapped.
    pub fn descriptors(&self) -> &[Arc<OwnedFd>] {
        &self.partitions
    }

    /// Bytes of each partition.
    pub fn partition_bytes(&self) -> usize {
        self.partition_bytes
    }

    pub(crate) fn outer_map(&self) -> &Map {
        &self.outer
    }
}

/// Partitions of an image, at most: their numbers have ten bits.
const PARTITIONS_MAX: usize = 1 << 10;

fn path_of(directory: &Path, partition: usize) -> PathBuf {
    directory.join(format!("partition-{partition:04}"))
}

/// Makes the directory, and removes what was not completed there.
fn clear(directory: &Path) -> Result<(), String> {
    fs::create_dir_all(directory).map_err(|error| no_directory(directory, &error))?;
    for number in 0..PARTITIONS_MAX {
        match fs::remove_file(path_of(directory, number)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(no_directory(directory, &error));
            }
            _ => {}
        }
    }
    Ok(())
}

fn no_directory(directory: &Path, error: &io::Error) -> String {
    let what = "is no directory of a BPF file system that can be written";
    let help = "mount -t bpf bpf /sys/fs/bpf, and a directory in that";
    format!("{} {what}: {error} ({help})", directory.display())
}

fn other_size(directory: &Path, partitions: usize, partition_bytes: usize) -> String {
    let directory = directory.display();
    format!(
        "{directory} holds an image of other sizes than {partitions} partitions of {partition_bytes} bytes: \
         start with the options of before (-m, -I, -t, --semantics), or without its data: rm {directory}/partition-*"
    )
}

fn partition(bytes: usize) -> MapOptions<'static> {
    MapOptions {
        mmapable: true,
        ..MapOptions::new((MapType::Array, "micanite_image"), 4, bytes, 1)
    }
}

fn refused(error: &io::Error, bytes: usize) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM) => {
            "making BPF maps needs root, or the capabilities CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON"
                .to_owned()
        }
        Some(libc::ENOMEM) => format!(
            "the kernel has no {} MiB for BPF maps; a smaller -m, or more memory",
            bytes >> 20
        ),
        Some(libc::E2BIG) => {
            "this kernel has no BPF maps of that size: Linux 6.0 or later is needed".to_owned()
        }
        _ => format!("the kernel refuses a BPF map of {bytes} bytes: {error}"),
    }
}
