//! Builds, loads and attaches BPF programs, with the few commands of bpf(2) that this needs.
//!
//! ```text
//!  build script   object.rs    clang, and its object as Rust source: instructions and references
//!  at run time    map.rs       maps: created, read, frozen, pinned
//!                 functions.rs BTF descriptions of functions
//!                 program.rs   loads a program with its maps, attaches it, runs it on a frame
//!                 places.rs    attaches programs of benchmarks to places in the stack
//! ```
//!
//! Only the caller pins objects. Everything else ends with its descriptor, and so with the process,
//! however that ends. No library is used here, because the maintained ones attach programs in other
//! ways where the kernel refuses a link (`docs/dependencies.md`).

#![expect(unsafe_code, reason = "bpf(2) has no safe face in any library that we use")]

mod functions;
mod map;
pub mod object;
mod places;
mod program;

pub use map::{Map, MapOptions, MapType, possible_cpus};
pub use places::{attach_before_routing, attach_to_ingress, attach_to_lookups, filter_socket};
pub use program::{
    Bound, MODE_GENERIC, MODE_NATIVE, Object, ProgramType, Refused, attach, attach_to_sockets, interface_of,
    load_program, program_name, run,
};

use std::ffi::c_long;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// Converts a name to the kernel's form: its first 15 bytes.
fn object_name(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    let length = name.len().min(15);
    bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
    bytes
}

/// Executes one command. Every pointer in `attributes` is valid for the command's use of it.
fn call<A>(command: c_long, attributes: &mut A) -> io::Result<RawFd> {
    let bytes = size_of::<A>();
    // SAFETY: the attributes are a structure of the command's form (zeroed padding; fields that the
    // kernel knows beyond it count as zero), and what they point at outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attributes, bytes) };
    match result {
        0.. => Ok(result as RawFd),
        _ => Err(io::Error::last_os_error()),
    }
}

fn owned(descriptor: RawFd) -> OwnedFd {
    // SAFETY: the kernel has just created the descriptor for this process.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}
