//! Programs, and the links that attach them.

use std::ffi::c_long;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::functions::Functions;
use crate::{Map, call, object_name, owned};

const PROGRAM_LOAD: c_long = 5;
const PROGRAM_ATTACH: c_long = 8;
const PROGRAM_RUN: c_long = 10;
const PROGRAM_BY_ID: c_long = 13;
const OBJECT_INFO: c_long = 15;
const LINK_CREATE: c_long = 28;

const ATTACH_XDP: u32 = 37;
const ATTACH_SEGMENTS: u32 = 38;
/// Of linux/if_link.h.
pub const MODE_GENERIC: u32 = 1 << 1;
/// Of linux/if_link.h.
pub const MODE_NATIVE: u32 = 1 << 2;
/// In the upper half of a register byte: the immediate is the descriptor of a map, or that of a map
/// whose only value is meant.
const SOURCE_MAP: u64 = 1 << 12;
const SOURCE_MAP_VALUE: u64 = 2 << 12;
/// Where `struct bpf_prog_info` has the name.
const INFO_NAME: usize = 64;
/// Words of `struct bpf_link_info`, and which of them is the interface of an XDP program.
const LINK_INFO_WORDS: usize = 8;
const LINK_INFO_INTERFACE: usize = 4;
/// Signals that may come while a program is loaded.
const LOADS_MAX: u32 = 100;
/// The verifier's log, where one is wanted.
const LOG_BYTES: usize = 4 << 20;

/// What to tell of a descriptor, and where.
#[repr(C)]
struct ObjectInfo {
    descriptor: u32,
    bytes: u32,
    info: u64,
}

/// Kinds of programs, with what they are attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramType {
    /// Frames as they come from the driver.
    Xdp,
    /// Frames that were sent to another CPU by a map.
    XdpOnCpu,
    /// Segments that a stream socket of a map receives.
    SocketSegments,
}

impl ProgramType {
    const fn numbers(self) -> (u32, u32) {
        match self {
            Self::Xdp => (6, ATTACH_XDP),
            Self::XdpOnCpu => (6, 35),
            Self::SocketSegments => (14, ATTACH_SEGMENTS),
        }
    }
}

/// What an instruction that names a map is to get.
#[derive(Clone, Copy, Debug)]
pub enum Bound<'a> {
    /// The map, for helpers.
    Map(&'a Map),
    /// The address of the only value of an array.
    Value(&'a Map),
}

/// Why the kernel does not load a program.
#[derive(Debug)]
pub struct Refused {
    /// What it says.
    pub error: io::Error,
    /// All that the verifier has written.
    pub log: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = self.log.lines().collect();
        let last = lines[lines.len().saturating_sub(3)..].join("; ");
        write!(formatter, "{}; {last}", self.error)
    }
}

/// A compiled program, as [`crate::object`] writes it.
#[derive(Clone, Copy, Debug)]
pub struct Object {
    /// One instruction each.
    pub instructions: &'static [u64],
    /// Which of them name what.
    pub names: &'static [(usize, &'static str)],
    /// At which of them functions begin, their names, and whether they are not `static`.
    pub functions: &'static [(usize, &'static str, bool)],
}

impl Object {
    /// What is there when nothing was compiled.
    pub const NONE: Self = Self {
        instructions: &[],
        names: &[],
        functions: &[],
    };
}

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
    types: u32,
    function_bytes: u32,
    functions: u64,
    function_count: u32,
}

/// Loads a program into the kernel; `bound` tells what the names in it are.
///
/// # Errors
/// What the kernel says, with the verifier's log.
pub fn load_program<'a>(
    (kind, name): (ProgramType, &str),
    object: &Object,
    bound: impl Fn(&str) -> Bound<'a>,
) -> Result<OwnedFd, Refused> {
    let functions = match object.functions {
        [_, _, ..] => Some(Functions::load(object.functions)),
        _ => None,
    };
    let functions = functions.transpose().map_err(|error| Refused {
        error,
        log: "its functions cannot be described".to_owned(),
    })?;
    let mut instructions = object.instructions.to_vec();
    for (at, name) in object.names {
        let (source, map) = match bound(name) {
            Bound::Map(map) => (SOURCE_MAP, map),
            Bound::Value(map) => (SOURCE_MAP_VALUE, map),
        };
        let descriptor = u64::from(map.as_fd().as_raw_fd() as u32);
        // What the compiler has put there is an offset into the value; it belongs in the other half.
        let offset = instructions[*at] >> 32;
        instructions[*at] = instructions[*at] & 0xffff_0fff | source | descriptor << 32;
        instructions[*at + 1] = instructions[*at + 1] & 0xffff_ffff | offset << 32;
    }
    let (kind, attach) = kind.numbers();
    let mut load = Load {
        kind,
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
        attach,
        types: 0,
        function_bytes: 0,
        functions: 0,
        function_count: 0,
    };
    if let Some(functions) = &functions {
        load.types = functions.types.as_raw_fd() as u32;
        load.function_bytes = size_of::<[u32; 2]>() as u32;
        load.functions = functions.info.as_ptr() as u64;
        load.function_count = functions.info.len() as u32;
    }
    let error = match load_patiently(&mut load) {
        Ok(descriptor) => return Ok(descriptor),
        Err(error) => error,
    };
    // Once more, for the reason.
    let mut log = vec![0u8; LOG_BYTES];
    (load.log_level, load.log_bytes) = (1, log.len() as u32);
    load.log = log.as_mut_ptr() as u64;
    drop(load_patiently(&mut load));
    // Behind its end stands what the verifier has taken back.
    let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
    let log = String::from_utf8_lossy(&log[..end]).into_owned();
    Err(Refused { error, log })
}

/// The verifier gives up (`EAGAIN`) when a signal comes: once more, then, as libbpf does.
fn load_patiently(load: &mut Load) -> io::Result<OwnedFd> {
    let mut tries = 0;
    loop {
        tries += 1;
        match call(PROGRAM_LOAD, load) {
            Ok(descriptor) => return Ok(owned(descriptor)),
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) && tries < LOADS_MAX => {}
            Err(error) => return Err(error),
        }
    }
}

/// Attaches an XDP program to an interface by a link: it is detached when the link is closed.
/// `mode` is [`MODE_NATIVE`] or [`MODE_GENERIC`].
///
/// # Errors
/// What the kernel says.
pub fn attach(program: BorrowedFd<'_>, interface: u32, mode: u32) -> io::Result<OwnedFd> {
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

/// The number of the interface that a link of [`attach`] holds its program at; 0 when that is detached
/// or the interface is gone. Kernels before 5.19 tell nobody without `CAP_BPF`.
///
/// # Errors
/// What the kernel says.
pub fn interface_of(link: BorrowedFd<'_>) -> io::Result<u32> {
    let mut info = [0u32; LINK_INFO_WORDS];
    let mut ask = ObjectInfo {
        descriptor: link.as_raw_fd() as u32,
        bytes: size_of_val(&info) as u32,
        info: info.as_mut_ptr() as u64,
    };
    call(OBJECT_INFO, &mut ask)?;
    Ok(info[LINK_INFO_INTERFACE])
}

/// Has a program of the kind [`ProgramType::SocketSegments`] run for the sockets of a map, those that
/// are there already excepted. It is detached when the map is closed.
///
/// # Errors
/// What the kernel says.
pub fn attach_to_sockets(program: BorrowedFd<'_>, sockets: &Map) -> io::Result<()> {
    #[repr(C)]
    struct Attach {
        map: u32,
        program: u32,
        attach: u32,
        flags: u32,
    }
    let mut attach = Attach {
        map: sockets.as_fd().as_raw_fd() as u32,
        program: program.as_raw_fd() as u32,
        attach: ATTACH_SEGMENTS,
        flags: 0,
    };
    call(PROGRAM_ATTACH, &mut attach).map(drop)
}

/// The name of a program, for those who may ask.
///
/// # Errors
/// What the kernel says.
pub fn program_name(id: u32) -> io::Result<String> {
    #[repr(C)]
    struct ById {
        id: u32,
        next: u32,
        flags: u32,
    }
    let mut by_id = ById {
        id,
        next: 0,
        flags: 0,
    };
    let program = owned(call(PROGRAM_BY_ID, &mut by_id)?);
    let mut bytes = [0u8; INFO_NAME + 16];
    let mut info = ObjectInfo {
        descriptor: program.as_raw_fd() as u32,
        bytes: bytes.len() as u32,
        info: bytes.as_mut_ptr() as u64,
    };
    call(OBJECT_INFO, &mut info)?;
    let name = bytes[INFO_NAME..].split(|byte| *byte == 0).next();
    Ok(String::from_utf8_lossy(name.unwrap_or_default()).into_owned())
}

/// What an XDP program says to a frame, and what it makes of it (BPF_PROG_TEST_RUN). Runs it
/// `repeat` times (on the same frame, as the run before has left it) and tells the nanoseconds of one.
///
/// # Errors
/// What the kernel says.
pub fn run(program: BorrowedFd<'_>, frame: &[u8], repeat: u32) -> io::Result<(u32, Vec<u8>, u32)> {
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
    let mut out = vec![0u8; 4096];
    let mut run = Run {
        program: program.as_raw_fd() as u32,
        verdict: 0,
        bytes_in: frame.len() as u32,
        bytes_out: out.len() as u32,
        frame: frame.as_ptr() as u64,
        out: out.as_mut_ptr() as u64,
        repeat,
        duration: 0,
        context: [0; 6],
    };
    call(PROGRAM_RUN, &mut run)?;
    out.truncate(run.bytes_out as usize);
    Ok((run.verdict, out, run.duration))
}
