//! Memory of the image: an array of one element per partition, and the array of these arrays.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use micanite_bpf::{Map, MapOptions, MapType};

/// Largest partition. The verifier tracks offsets up to this limit.
pub const IMAGE_BYTES_MAX: usize = 512 << 20;

/// Memory of all partitions. It lives as long as any descriptor of it.
#[derive(Debug)]
pub struct ImageMaps {
    partitions: Vec<Arc<OwnedFd>>,
    outer: Map,
    partition_bytes: usize,
}

impl ImageMaps {
    /// Creates zeroed memory. This takes seconds per GiB, because the kernel allocates all pages.
    ///
    /// # Errors
    /// Describes the problem for users: missing rights, or too little memory.
    pub fn create(partitions: usize, partition_bytes: usize) -> Result<Self, String> {
        let one = |_| {
            let map = Map::create(&partition(partition_bytes))?;
            Ok(Arc::new(OwnedFd::from(map)))
        };
        let maps: io::Result<Vec<_>> = (0..partitions).map(one).collect();
        let maps = maps.map_err(|error| refused(&error, partitions * partition_bytes))?;
        Self::of(maps, partition_bytes)
    }

    /// Opens the memory that is pinned in a directory of a BPF file system, or creates memory and pins it
    /// there. Also returns whether it existed before: then it may hold an image.
    ///
    /// # Errors
    /// Describes the problem for users: missing rights, too little memory, another file system, or
    /// memory of another size.
    pub fn pinned(
        directory: &Path,
        partitions: usize,
        partition_bytes: usize,
    ) -> Result<(Self, bool), String> {
        if !Self::are_pinned(directory) {
            return Ok((Self::pin_new(directory, partitions, partition_bytes)?, false));
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

    fn pin_new(directory: &Path, partitions: usize, partition_bytes: usize) -> Result<Self, String> {
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

    /// Ensures that this memory is pinned in a directory. Pins it there if nothing is pinned yet.
    ///
    /// # Errors
    /// Describes the problem for users: other memory is pinned there, or the file system is of another
    /// kind.
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

    /// Returns whether memory is pinned in a directory.
    pub fn are_pinned(directory: &Path) -> bool {
        // An incomplete set lacks the first partition.
        path_of(directory, 0).exists()
    }

    /// Returns the error for a directory with other pinned memory.
    pub fn others_pinned(directory: &Path) -> String {
        let directory = directory.display();
        format!(
            "{directory} holds another image than the server has now: \
             choose another directory, or delete its data: rm {directory}/partition-*"
        )
    }

    /// Takes over existing memory, one descriptor per partition.
    ///
    /// # Errors
    /// Describes the problem for users: the descriptors are not those of such memory.
    pub fn of(partitions: Vec<Arc<OwnedFd>>, partition_bytes: usize) -> Result<Self, String> {
        let outer = Self::outer(&partitions);
        let outer = outer.map_err(|error| format!("the kernel refuses a BPF map: {error}"))?;
        Ok(Self { partitions, outer, partition_bytes })
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

    /// Returns one descriptor per partition, in order. Each can be mapped.
    pub fn descriptors(&self) -> &[Arc<OwnedFd>] {
        &self.partitions
    }

    /// Returns the size of a partition.
    pub fn partition_bytes(&self) -> usize {
        self.partition_bytes
    }

    pub(crate) fn outer_map(&self) -> &Map {
        &self.outer
    }
}

/// Maximum number of partitions of an image: their numbers have ten bits.
const PARTITIONS_MAX: usize = 1 << 10;

fn path_of(directory: &Path, partition: usize) -> PathBuf {
    directory.join(format!("partition-{partition:04}"))
}

/// Creates the directory, and removes an incomplete set from it.
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
    let what = "is not a writable directory of a BPF file system";
    let help = "mount -t bpf bpf /sys/fs/bpf, and use a directory in it";
    format!("{} {what}: {error} ({help})", directory.display())
}

fn other_size(directory: &Path, partitions: usize, partition_bytes: usize) -> String {
    let directory = directory.display();
    format!(
        "{directory} holds an image of other sizes than {partitions} partitions of {partition_bytes} bytes: \
         start with the previous options (-m, -I, -t, --semantics), or delete its data: \
         rm {directory}/partition-*"
    )
}

fn partition(bytes: usize) -> MapOptions<'static> {
    MapOptions { mmapable: true, ..MapOptions::new((MapType::Array, "micanite_image"), 4, bytes, 1) }
}

fn refused(error: &io::Error, bytes: usize) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM) => {
            "creating BPF maps requires root, or the capabilities CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON"
                .to_owned()
        }
        Some(libc::ENOMEM) => {
            format!("the kernel has no {} MiB for BPF maps: choose a smaller -m, or add memory", bytes >> 20)
        }
        Some(libc::E2BIG) => {
            "this kernel supports no BPF maps of that size: use Linux 6.0 or later".to_owned()
        }
        _ => format!("the kernel refuses a BPF map of {bytes} bytes: {error}"),
    }
}
