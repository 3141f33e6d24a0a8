//! Maps.

use std::ffi::{CString, c_long};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::{call, object_name, owned};

const MAP_CREATE: c_long = 0;
const MAP_LOOKUP: c_long = 1;
const MAP_UPDATE: c_long = 2;
const MAP_DELETE: c_long = 3;
const OBJECT_PIN: c_long = 6;
const OBJECT_GET: c_long = 7;
const OBJECT_INFO: c_long = 15;
const MAP_FREEZE: c_long = 22;

const FLAG_PROGRAM_READS_ONLY: u32 = 1 << 7;
const FLAG_MMAPABLE: u32 = 1 << 10;

/// Kinds of maps (`enum bpf_map_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MapType {
    Hash = 1,
    Array = 2,
    PerCpuArray = 6,
    ArrayOfMaps = 12,
    SocketMap = 15,
    CpuMap = 16,
    XdpSockets = 17,
    SocketHash = 18,
}

/// Properties of a new map.
#[derive(Clone, Copy, Debug)]
pub struct MapOptions<'a> {
    pub kind: MapType,
    /// Name that tools show; only its first 15 bytes count.
    pub name: &'a str,
    pub key_bytes: usize,
    pub value_bytes: usize,
    /// Maximum number of entries.
    pub entries: usize,
    /// Processes may map its memory.
    pub mmapable: bool,
    /// Programs may only read it. After [`Map::freeze`] the verifier treats its values as
    /// constants.
    pub program_reads_only: bool,
    /// Template of the inner maps, for a map of maps.
    pub inner: Option<BorrowedFd<'a>>,
}

impl<'a> MapOptions<'a> {
    /// Creates options without special properties.
    pub const fn new(
        (kind, name): (MapType, &'a str),
        key_bytes: usize,
        value_bytes: usize,
        entries: usize,
    ) -> Self {
        Self {
            kind,
            name,
            key_bytes,
            value_bytes,
            entries,
            mmapable: false,
            program_reads_only: false,
            inner: None,
        }
    }
}

/// A map in the kernel.
#[derive(Debug)]
pub struct Map {
    descriptor: OwnedFd,
    key_bytes: usize,
    value_bytes: usize,
}

#[repr(C)]
struct MapElement {
    map: u32,
    _pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct Pin {
    path: u64,
    descriptor: u32,
    flags: u32,
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl From<Map> for OwnedFd {
    fn from(map: Map) -> Self {
        map.descriptor
    }
}

impl Map {
    /// Creates a map.
    ///
    /// # Errors
    /// Returns the kernel's error: missing rights (`EPERM`), too little memory, an unknown kind.
    pub fn create(options: &MapOptions<'_>) -> io::Result<Self> {
        #[repr(C)]
        struct Create {
            kind: u32,
            key_bytes: u32,
            value_bytes: u32,
            entries: u32,
            flags: u32,
            inner: u32,
            node: u32,
            name: [u8; 16],
        }
        let flag = |on: bool, flag: u32| if on { flag } else { 0 };
        let number = |number: usize| u32::try_from(number).map_err(|_| io::ErrorKind::InvalidInput);
        let mut create = Create {
            kind: options.kind as u32,
            key_bytes: number(options.key_bytes)?,
            value_bytes: number(options.value_bytes)?,
            entries: number(options.entries)?,
            flags: flag(options.mmapable, FLAG_MMAPABLE)
                | flag(options.program_reads_only, FLAG_PROGRAM_READS_ONLY),
            inner: options.inner.map_or(0, |inner| inner.as_raw_fd() as u32),
            node: 0,
            name: object_name(options.name),
        };
        Ok(Self {
            descriptor: owned(call(MAP_CREATE, &mut create)?),
            key_bytes: options.key_bytes,
            value_bytes: options.value_bytes,
        })
    }

    /// Opens the map that is pinned at a path of a BPF file system.
    ///
    /// # Errors
    /// Returns the kernel's error; `NotFound` if nothing is pinned there.
    pub fn pinned(path: &Path) -> io::Result<Self> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        let mut get = Pin { path: path.as_ptr() as u64, descriptor: 0, flags: 0 };
        Self::of_descriptor(owned(call(OBJECT_GET, &mut get)?))
    }

    /// Takes over the descriptor of a map.
    ///
    /// # Errors
    /// The descriptor is not that of a map.
    pub fn of_descriptor(descriptor: OwnedFd) -> io::Result<Self> {
        let [_, _, key_bytes, value_bytes, _] = info(&descriptor)?;
        Ok(Self { descriptor, key_bytes: key_bytes as usize, value_bytes: value_bytes as usize })
    }

    /// Returns the kernel's number of the map.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn id(&self) -> io::Result<u32> {
        Ok(info(&self.descriptor)?[1])
    }

    /// Pins the map at a path of a BPF file system, until that is removed.
    ///
    /// # Errors
    /// Returns the kernel's error: the path exists already, or the file system is of another kind.
    pub fn pin(&self, path: &Path) -> io::Result<()> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        let mut pin =
            Pin { path: path.as_ptr() as u64, descriptor: self.descriptor.as_raw_fd() as u32, flags: 0 };
        call(OBJECT_PIN, &mut pin).map(drop)
    }

    /// Returns the length of a value.
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// Returns the kernel's error.
    ///
    /// # Panics
    /// If `key` or `value` has another length than the map's.
    pub fn set(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        assert!(key.len() == self.key_bytes && value.len() == self.value_bytes);
        let mut element = self.element(key, value.as_ptr());
        call(MAP_UPDATE, &mut element).map(drop)
    }

    /// Removes a key.
    ///
    /// # Errors
    /// The key does not exist.
    ///
    /// # Panics
    /// If the key has another length than the map's.
    pub fn remove(&self, key: &[u8]) -> io::Result<()> {
        assert!(key.len() == self.key_bytes);
        let mut element = self.element(key, std::ptr::null());
        call(MAP_DELETE, &mut element).map(drop)
    }

    /// Adds the values of all CPUs of a key, in a per-CPU map of 64-bit values.
    ///
    /// # Errors
    /// Returns the kernel's error.
    ///
    /// # Panics
    /// If the map has another form.
    pub fn sum(&self, key: u32, cpus: usize) -> io::Result<u64> {
        assert!(self.key_bytes == 4 && self.value_bytes == 8);
        let (key, mut values) = (key.to_ne_bytes(), vec![0u64; cpus]);
        let mut element = self.element(&key, values.as_mut_ptr().cast::<u8>());
        call(MAP_LOOKUP, &mut element)?;
        Ok(values.iter().sum())
    }

    /// Forbids all further writes by processes.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn freeze(&self) -> io::Result<()> {
        let mut descriptor = self.descriptor.as_raw_fd() as u32;
        call(MAP_FREEZE, &mut descriptor).map(drop)
    }

    fn element(&self, key: &[u8], value: *const u8) -> MapElement {
        MapElement {
            map: self.descriptor.as_raw_fd() as u32,
            _pad: 0,
            key: key.as_ptr() as u64,
            value: value as u64,
            flags: 0,
        }
    }
}

/// Returns fields of `struct bpf_map_info`: kind, id, key bytes, value bytes, entries.
fn info(descriptor: &OwnedFd) -> io::Result<[u32; 5]> {
    #[repr(C)]
    struct Info {
        descriptor: u32,
        bytes: u32,
        info: u64,
    }
    let mut fields = [0u32; 5];
    let mut info = Info {
        descriptor: descriptor.as_raw_fd() as u32,
        bytes: size_of_val(&fields) as u32,
        info: fields.as_mut_ptr() as u64,
    };
    call(OBJECT_INFO, &mut info)?;
    Ok(fields)
}

/// Returns how many values a per-CPU map holds per key. All CPU numbers are smaller.
pub fn possible_cpus() -> usize {
    let text = fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = text.trim().rsplit(['-', ',']).next();
    // A number that is too large does no harm.
    last.and_then(|last| last.parse().ok()).map_or(8192, |last: usize| last + 1)
}
