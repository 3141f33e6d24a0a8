//! Programs of the kernel's: the few commands of bpf(2) that they need, and their build.
//!
//! ```text
//!  build script   object.rs    clang, and its object as Rust source: instructions, what they name
//!  at run time    map.rs       maps: created, read, frozen, pinned
//!                 functions.rs where its functions begin
//!                 program.rs   loaded with its maps, attached by a link, tried on a frame
//! ```
//!
//! Nothing is pinned that the caller does not pin: descriptors end with the process, and with them
//! what hangs on them, however the process ends. That is why there is no library here: those that
//! are kept up attach in other ways where the kernel refuses a link (`docs/dependencies.md`).

#![expect(
    unsafe_code,
    reason = "bpf(2) has no safe face in any library that we use"
)]

mod functions;
mod map;
pub mod object;
mod program;

pub use map::{Map, MapOptions, MapType, possible_cpus};
pub use program::{
    Bound, MODE_GENERIC, MODE_NATIVE, Object, ProgramType, Refused, attach, attach_to_sockets,
    interface_of, load_program, program_name, run,
};

use std::ffi::c_long;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// A name as the kernel takes it: the first 15 letters.
fn object_name(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    let length = name.len().min(15);
    bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
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
