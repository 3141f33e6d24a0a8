//! Further places for programs, which only benchmarks use: where the stack meets a packet.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use crate::program::LINK_CREATE;
use crate::{call, owned};

const ATTACH_LOOKUP: u32 = 36;
const ATTACH_NETFILTER: u32 = 45;
const ATTACH_INGRESS: u32 = 46;
/// `NFPROTO_IPV4`, `NF_INET_PRE_ROUTING`, and a priority before that of all tables.
const NETFILTER_IPV4: u32 = 2;
const HOOK_PRE_ROUTING: u32 = 0;
const PRIORITY_FIRST: i32 = -500;

/// Attaches a program of the type [`crate::ProgramType::Netfilter`] to IPv4's `PRE_ROUTING` of this network,
/// in front of every table. Closing the link detaches it.
///
/// # Errors
/// Returns the kernel's error: before Linux 6.4 there are no such programs.
pub fn attach_before_routing(program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let at = [NETFILTER_IPV4, HOOK_PRE_ROUTING, PRIORITY_FIRST as u32, 0];
    link(program, 0, ATTACH_NETFILTER, at)
}

/// Attaches a program of the type [`crate::ProgramType::TrafficControl`] to the ingress of an interface.
/// Closing the link detaches it.
///
/// # Errors
/// Returns the kernel's error: before Linux 6.6 there are no such links.
pub fn attach_to_ingress(program: BorrowedFd<'_>, interface: u32) -> io::Result<OwnedFd> {
    link(program, interface, ATTACH_INGRESS, [0; 4])
}

/// Attaches a program of the type [`crate::ProgramType::SocketLookup`] to the search for sockets in a
/// network. Closing the link detaches it.
///
/// # Errors
/// Returns the kernel's error.
pub fn attach_to_lookups(program: BorrowedFd<'_>, network: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    link(program, network.as_raw_fd() as u32, ATTACH_LOOKUP, [0; 4])
}

/// Lets a program of the type [`crate::ProgramType::SocketFilter`] choose the datagrams that enter the queue
/// of a socket.
///
/// # Errors
/// Returns the kernel's error.
pub fn filter_socket(program: BorrowedFd<'_>, socket: BorrowedFd<'_>) -> io::Result<()> {
    let program = program.as_raw_fd();
    // SAFETY: the option's value is a descriptor, which outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_BPF,
            (&raw const program).cast(),
            size_of_val(&program) as u32,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn link(program: BorrowedFd<'_>, target: u32, attach: u32, at: [u32; 4]) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Create {
        program: u32,
        target: u32,
        attach: u32,
        flags: u32,
        at: [u32; 4],
    }
    let mut create = Create { program: program.as_raw_fd() as u32, target, attach, flags: 0, at };
    call(LINK_CREATE, &mut create).map(owned)
}
