//! Probes the requirements of a port that bypasses the kernel's stack, without side effects: for
//! `micanite ctl doctor`.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use libc::{c_int, c_void};

/// Frame size for registering memory.
const FRAME_BYTES: u32 = 4096;
const MAP_CREATE: c_int = 0;
const PROG_LOAD: c_int = 5;
/// `BPF_MAP_TYPE_XSKMAP`
const TYPE_XSK_MAP: u32 = 17;
const TYPE_XDP: u32 = 6;
/// `r0 = XDP_PASS; exit`
const PASS: [u64; 2] = [0x0000_0002_0000_00b7, 0x95];

/// The beginning of the kernel's `union bpf_attr` for `BPF_PROG_LOAD`.
#[repr(C)]
struct LoadAttributes {
    kind: u32,
    instructions: u32,
    instruction: u64,
    licence: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel: u32,
    flags: u32,
}

/// The beginning of `union bpf_attr` for `BPF_MAP_CREATE`.
#[repr(C)]
struct MapAttributes {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    flags: u32,
}

/// Opens an AF_XDP socket, and closes it.
///
/// # Errors
/// Returns the kernel's error: `EPERM` without `CAP_NET_RAW`, `EAFNOSUPPORT` without AF_XDP.
pub fn af_xdp_socket() -> io::Result<()> {
    xdp_socket().map(drop)
}

/// Registers `bytes` of new memory for the frames of an AF_XDP socket, and releases it.
///
/// # Errors
/// Returns the kernel's error: `ENOBUFS` if RLIMIT_MEMLOCK is too low.
pub fn frame_memory(bytes: usize) -> io::Result<()> {
    let socket = xdp_socket()?;
    let memory = Memory::new(bytes)?;
    // SAFETY: a structure of integers, which may all be zero.
    let mut request: libc::xdp_umem_reg = unsafe { mem::zeroed() };
    request.addr = memory.0 as u64;
    request.len = bytes as u64;
    request.chunk_size = FRAME_BYTES;
    // SAFETY: the request is valid for the call. The memory is mapped until after the socket is
    // closed, and nothing is ever received into it, because the socket is not bound.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_XDP,
            libc::XDP_UMEM_REG,
            ptr::from_ref(&request).cast(),
            size_of::<libc::xdp_umem_reg>() as u32,
        )
    };
    let answer = answer(result.into()).map(drop);
    drop(socket);
    drop(memory);
    answer
}

/// Loads an XDP program that does nothing, without attaching it, and unloads it.
///
/// # Errors
/// Returns the kernel's error: `EPERM` without `CAP_BPF` and `CAP_NET_ADMIN`, or if a filter forbids
/// the system call.
pub fn xdp_program() -> io::Result<()> {
    let attributes = LoadAttributes {
        kind: TYPE_XDP,
        instructions: PASS.len() as u32,
        instruction: PASS.as_ptr() as u64,
        licence: c"MIT".as_ptr() as u64,
        log_level: 0,
        log_bytes: 0,
        log: 0,
        kernel: 0,
        flags: 0,
    };
    bpf(PROG_LOAD, &attributes).map(drop)
}

/// Creates a map of AF_XDP sockets, and closes it.
///
/// # Errors
/// The same as for [`xdp_program`].
pub fn socket_map() -> io::Result<()> {
    let attributes = MapAttributes { kind: TYPE_XSK_MAP, key_bytes: 4, value_bytes: 4, entries: 1, flags: 0 };
    bpf(MAP_CREATE, &attributes).map(drop)
}

/// Executes a command. `T` begins like the kernel's `union bpf_attr` for the command, and
/// everything that it points to outlives the call.
fn bpf<T>(command: c_int, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads the attributes, whose length it is given, and what they point to,
    // which outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, ptr::from_ref(attributes), size_of::<T>()) };
    owned(answer(result)?)
}

fn xdp_socket() -> io::Result<OwnedFd> {
    // SAFETY: no memory is passed.
    let result = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    owned(answer(result.into())?)
}

fn answer(result: i64) -> io::Result<i64> {
    match result {
        ..0 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

fn owned(descriptor: i64) -> io::Result<OwnedFd> {
    let descriptor = c_int::try_from(descriptor).map_err(io::Error::other)?;
    // SAFETY: the kernel has just opened it for this call alone.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Mapped memory that was never touched.
struct Memory(*mut c_void, usize);

impl Memory {
    fn new(bytes: usize) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, at a place of the kernel's choice.
        let base = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
        match base {
            libc::MAP_FAILED => Err(io::Error::last_os_error()),
            base => Ok(Self(base, bytes)),
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: this mapping is its own, and nobody points into it.
        let _ = unsafe { libc::munmap(self.0, self.1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A forbidden probe returns an error. Nothing else fails, and no descriptor stays open.
    #[test]
    fn probes_leave_no_descriptor_open() {
        let probes: [fn() -> io::Result<()>; 4] =
            [af_xdp_socket, || frame_memory(1 << 20), xdp_program, socket_map];
        let refusals = [libc::EPERM, libc::EACCES, libc::EAFNOSUPPORT, libc::ENOSYS, libc::ENOBUFS];
        for (number, probe) in probes.iter().enumerate() {
            for _ in 0..100 {
                if let Err(error) = probe() {
                    let known = error.raw_os_error().is_some_and(|it| refusals.contains(&it));
                    assert!(known, "probe {number}: {error}");
                }
            }
        }
        // Other tests of this process open descriptors, too, for a while.
        let highest = || {
            let file = std::fs::File::open("/proc/self/status");
            file.unwrap().as_raw_fd()
        };
        assert!(
            (0..6000).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(10));
                highest() < 100
            }),
            "{}",
            highest()
        );
    }
}
