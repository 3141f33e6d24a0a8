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
pub(crate) const LINK_CREATE: c_long = 28;

const ATTACH_XDP: u32 = 37;
const ATTACH_SEGMENTS: u32 = 38;
/// `XDP_FLAGS_SKB_MODE` of linux/if_link.h.
pub const MODE_GENERIC: u32 = 1 << 1;
/// `XDP_FLAGS_DRV_MODE` of linux/if_link.h.
pub const MODE_NATIVE: u32 = 1 << 2;
/// Marks in the upper half of the register byte: the immediate is the descriptor of a map, or of a
/// map whose only value is addressed.
const SOURCE_MAP: u64 = 1 << 12;
const SOURCE_MAP_VALUE: u64 = 2 << 12;
/// Offset of the name in `struct bpf_prog_info`.
const INFO_NAME: usize = 64;
/// Words of `struct bpf_link_info`, and the one with the interface of an XDP program.
const LINK_INFO_WORDS: usize = 8;
const LINK_INFO_INTERFACE: usize = 4;
/// Maximum number of load attempts that a signal interrupts.
const LOADS_MAX: u32 = 100;
/// Size of the verifier's log, in a load for diagnosis.
const LOG_BYTES: usize = 4 << 20;

/// Argument of `OBJECT_INFO`.
#[repr(C)]
struct ObjectInfo {
    descriptor: u32,
    bytes: u32,
    info: u64,
}

/// Kinds of programs, with their attachment points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramType {
    /// Processes frames from the driver.
    Xdp,
    /// Processes frames that a CPU map sent to another CPU.
    XdpOnCpu,
    /// Processes segments received by stream sockets of a map, or datagrams.
    SocketSegments,
    /// Chooses the datagrams that enter a socket's queue.
    SocketFilter,
    /// Processes packets at the ingress of an interface.
    TrafficControl,
    /// Chooses the socket of a packet.
    SocketLookup,
    /// Processes packets at a hook of netfilter.
    Netfilter,
}

impl ProgramType {
    const fn numbers(self) -> (u32, u32) {
        match self {
            Self::Xdp => (6, ATTACH_XDP),
            Self::XdpOnCpu => (6, 35),
            Self::SocketSegments => (14, ATTACH_SEGMENTS),
            Self::SocketFilter => (1, 0),
            Self::TrafficControl => (3, 46),
            Self::SocketLookup => (30, 36),
            Self::Netfilter => (32, 45),
        }
    }
}

/// Map that an instruction refers to.
#[derive(Clone, Copy, Debug)]
pub enum Bound<'a> {
    /// The map itself, for helpers.
    Map(&'a Map),
    /// The address of the only value of an array.
    Value(&'a Map),
}

/// The kernel refused to load a program.
#[derive(Debug)]
pub struct Refused {
    pub error: io::Error,
    /// The verifier's complete log.
    pub log: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = self.log.lines().collect();
        let last = lines[lines.len().saturating_sub(3)..].join("; ");
        write!(formatter, "{}; {last}", self.error)
    }
}

/// A compiled program, as written by [`crate::object`].
#[derive(Clone, Copy, Debug)]
pub struct Object {
    pub instructions: &'static [u64],
    /// Instructions that refer to maps, with the names of the maps.
    pub names: &'static [(usize, &'static str)],
    /// Functions: first instruction, name, whether it is global.
    pub functions: &'static [(usize, &'static str, bool)],
}

impl Object {
    /// Stands in for a program that was not compiled.
    pub const NONE: Self = Self { instructions: &[], names: &[], functions: &[] };
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

/// Loads a program into the kernel. `bound` resolves the names of maps.
///
/// # Errors
/// Returns the kernel's error with the verifier's log.
pub fn load_program<'a>(
    (kind, name): (ProgramType, &str),
    object: &Object,
    bound: impl Fn(&str) -> Bound<'a>,
) -> Result<OwnedFd, Refused> {
    let functions = match object.functions {
        [_, _, ..] => Some(Functions::load(object.functions)),
        _ => None,
    };
    let functions = functions
        .transpose()
        .map_err(|error| Refused { error, log: "its functions cannot be described".to_owned() })?;
    let mut instructions = object.instructions.to_vec();
    for (at, name) in object.names {
        let (source, map) = match bound(name) {
            Bound::Map(map) => (SOURCE_MAP, map),
            Bound::Value(map) => (SOURCE_MAP_VALUE, map),
        };
        let descriptor = u64::from(map.as_fd().as_raw_fd() as u32);
        // The compiler stores an offset into the value here. It belongs in the second half.
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
    // Load it once more for the verifier's log.
    let mut log = vec![0u8; LOG_BYTES];
    (load.log_level, load.log_bytes) = (1, log.len() as u32);
    load.log = log.as_mut_ptr() as u64;
    drop(load_patiently(&mut load));
    // Text behind the final zero is left over from states that the verifier discarded.
    let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
    let log = String::from_utf8_lossy(&log[..end]).into_owned();
    Err(Refused { error, log })
}

/// Retries on `EAGAIN`, like libbpf: the verifier gives up when a signal arrives.
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

/// Attaches an XDP program to an interface by a link. Closing the link detaches it. `mode` is
/// [`MODE_NATIVE`] or [`MODE_GENERIC`].
///
/// # Errors
/// Returns the kernel's error.
pub fn attach(program: BorrowedFd<'_>, interface: u32, mode: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Create {
        program: u32,
        interface: u32,
        attach: u32,
        flags: u32,
    }
    let mut create =
        Create { program: program.as_raw_fd() as u32, interface, attach: ATTACH_XDP, flags: mode };
    call(LINK_CREATE, &mut create).map(owned)
}

/// Returns the number of the interface that a link of [`attach`] holds its program at; 0 after the
/// program was detached or the interface removed. Kernels before 5.19 require `CAP_BPF` for this.
///
/// # Errors
/// Returns the kernel's error.
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

/// Runs a program of the kind [`ProgramType::SocketSegments`] for every socket that is added to a
/// map from now on. Closing the map detaches it.
///
/// # Errors
/// Returns the kernel's error.
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

/// Returns the name of a program; this requires `CAP_SYS_ADMIN`.
///
/// # Errors
/// Returns the kernel's error.
pub fn program_name(id: u32) -> io::Result<String> {
    #[repr(C)]
    struct ById {
        id: u32,
        next: u32,
        flags: u32,
    }
    let mut by_id = ById { id, next: 0, flags: 0 };
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

/// Runs an XDP program on a frame (BPF_PROG_TEST_RUN); returns its verdict, the resulting frame, and
/// the nanoseconds of one run. Of `repeat` runs each gets the frame that the previous one left.
///
/// # Errors
/// Returns the kernel's error.
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
