//! The few commands of bpf(2) that a program with maps needs. Nothing is pinned: all of it ends with the process.

use std::ffi::c_long;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

const MAP_CREATE: c_long = 0;
const MAP_LOOKUP: c_long = 1;
const MAP_UPDATE: c_long = 2;
const PROGRAM_LOAD: c_long = 5;
#[cfg(all(test, xdp_program))]
const PROGRAM_RUN: c_long = 10;
const PROGRAM_BY_ID: c_long = 13;
const OBJECT_INFO: c_long = 15;
const LINK_CREATE: c_long = 28;

const PROGRAM_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
/// In the upper half of a register byte: the immediate is the descriptor of a map.
const SOURCE_MAP: u64 = 1 << 12;
/// Where `struct bpf_prog_info` has the name.
const INFO_NAME: usize = 64;

/// Kinds of maps.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(super) enum MapType {
    Hash = 1,
    Array = 2,
    PerCpuArray = 6,
    Sockets = 17,
}

/// A map of the kernel's.
#[derive(Debug)]
pub(super) struct Map {
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

impl Map {
    pub(super) fn create(
        (kind, name): (MapType, &str),
        key_bytes: usize,
        value_bytes: usize,
        entries: usize,
    ) -> io::Result<Self> {
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
        let mut create = Create {
            kind: kind as u32,
            key_bytes: key_bytes as u32,
            value_bytes: value_bytes as u32,
            entries: entries as u32,
            flags: 0,
            inner: 0,
            node: 0,
            name: object_name(name),
        };
        Ok(Self {
            descriptor: owned(call(MAP_CREATE, &mut create)?),
            key_bytes,
            value_bytes,
        })
    }

    pub(super) fn set(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        assert!(key.len() == self.key_bytes && value.len() == self.value_bytes);
        let mut element = self.element(key, value.as_ptr());
        call(MAP_UPDATE, &mut element).map(drop)
    }

    /// The values of a key of all CPUs, added.
    pub(super) fn sum(&self, key: u32, cpus: usize) -> io::Result<u64> {
        let (key, mut values) = (key.to_ne_bytes(), vec![0u64; cpus]);
        let mut element = self.element(&key, values.as_mut_ptr().cast::<u8>());
        call(MAP_LOOKUP, &mut element)?;
        Ok(values.iter().sum())
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

/// Loads an XDP program into the kernel; `maps` tells which instructions name which map.
///
/// # Errors
/// What the kernel says, with the verifier's last words.
pub(super) fn load_program(
    name: &str,
    instructions: &[u64],
    maps: &[(usize, &Map)],
) -> Result<OwnedFd, (io::Error, String)> {
    #[repr(C)]
    struct Load {
        kind: u32,
        instruction_count: u32,
        instructions: u64,
        license: u64,
        log_level: u32,
        log_bytes: u32,
        log: u64,
        kernel_version: u32,
        flags: u32,
        name: [u8; 16],
        interface: u32,
        attach: u32,
    }
    let mut instructions = instructions.to_vec();
    for (at, map) in maps {
        let descriptor = u64::from(map.descriptor.as_raw_fd() as u32);
        instructions[*at] = instructions[*at] & 0xffff_0fff | SOURCE_MAP | descriptor << 32;
    }
    let mut log = vec![0u8; 64 << 10];
    let mut load = Load {
        kind: PROGRAM_TYPE_XDP,
        instruction_count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        license: c"Apache-2.0".as_ptr() as u64,
        log_level: 0,
        log_bytes: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
        name: object_name(name),
        interface: 0,
        attach: ATTACH_XDP,
    };
    let error = match call(PROGRAM_LOAD, &mut load) {
        Ok(descriptor) => return Ok(owned(descriptor)),
        Err(error) => error,
    };
    // Once more, for the reason.
    (load.log_level, load.log_bytes) = (1, log.len() as u32);
    load.log = log.as_mut_ptr() as u64;
    drop(call(PROGRAM_LOAD, &mut load).map(owned));
    let text = String::from_utf8_lossy(&log);
    let lines: Vec<_> = text.trim_end_matches('\0').lines().collect();
    let last = lines[lines.len().saturating_sub(3)..].join("; ");
    Err((error, last))
}

/// Attaches a program to an interface by a link: it is detached when the link is closed. `mode` is
/// one of `XDP_FLAGS_*`.
pub(super) fn attach(program: BorrowedFd<'_>, interface: u32, mode: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Create {
        program: u32,
        interface: u32,
        attach: u32,
        flags: u32,
    }
    let mut create = Create {
        program: program.as_raw_fd() as u32,
        interface,
        attach: ATTACH_XDP,
        flags: mode,
    };
    call(LINK_CREATE, &mut create).map(owned)
}

/// The name of a program, for those who may ask.
pub(super) fn program_name(id: u32) -> io::Result<String> {
    #[repr(C)]
    struct ById {
        id: u32,
        next: u32,
        flags: u32,
    }
    #[repr(C)]
    struct Info {
        descriptor: u32,
        bytes: u32,
        info: u64,
    }
    let mut by_id = ById {
        id,
        next: 0,
        flags: 0,
    };
    let program = owned(call(PROGRAM_BY_ID, &mut by_id)?);
    let mut bytes = [0u8; INFO_NAME + 16];
    let mut info = Info {
        descriptor: program.as_raw_fd() as u32,
        bytes: bytes.len() as u32,
        info: bytes.as_mut_ptr() as u64,
    };
    call(OBJECT_INFO, &mut info)?;
    let name = bytes[INFO_NAME..].split(|byte| *byte == 0).next();
    Ok(String::from_utf8_lossy(name.unwrap_or_default()).into_owned())
}

/// What a program says to a frame that arrived on a queue of an interface.
#[cfg(all(test, xdp_program))]
pub(super) fn run(program: BorrowedFd<'_>, frame: &[u8]) -> io::Result<u32> {
    #[repr(C)]
    struct Run {
        program: u32,
        verdict: u32,
        bytes_in: u32,
        bytes_out: u32,
        frame: u64,
        out: u64,
        repeat: u32,
        duration: u32,
        context: [u64; 6],
    }
    let mut run = Run {
        program: program.as_raw_fd() as u32,
        verdict: 0,
        bytes_in: frame.len() as u32,
        bytes_out: 0,
        frame: frame.as_ptr() as u64,
        out: 0,
        repeat: 1,
        duration: 0,
        context: [0; 6],
    };
    call(PROGRAM_RUN, &mut run)?;
    Ok(run.verdict)
}

/// A name as the kernel takes it: at most 15 letters.
fn object_name(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    bytes
}

/// One command. Every pointer in `attributes` is valid for what the command does with it.
fn call<A>(command: c_long, attributes: &mut A) -> io::Result<RawFd> {
    let bytes = size_of::<A>();
    // SAFETY: the attributes are a structure of the command's form (zeroed padding, fields that the
    // kernel knows beyond it count as zero), and what they point at outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attributes, bytes) };
    match result {
        0.. => Ok(result as RawFd),
        _ => Err(io::Error::last_os_error()),
    }
}

fn owned(descriptor: RawFd) -> OwnedFd {
    // SAFETY: the kernel has just made it for us.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}
