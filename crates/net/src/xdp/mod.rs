//! AF_XDP: frames of an interface that the kernel keeps, without its network stack.
//!
//! ```text
//!  interface --> port.c (XDP) --> everything else: the kernel as ever
//!                  | ours, by address and port
//!                socket of the queue  [fill, receive, transmit, completion rings]   socket.rs, rings.rs
//!                  |
//!                XdpQueue: chunks of 4 KiB in one UMEM per queue                     queue.rs, umem.rs
//! ```
//!
//! The program is attached by a link that is pinned nowhere: when the process ends, however it
//! ends, the kernel has all frames again. Neighbours (ARP, NDP), ICMP and everything that is not a
//! plain datagram for us are the kernel's. Capabilities: `CAP_NET_RAW` for the sockets,
//! `CAP_NET_ADMIN` and `CAP_BPF` for the program, and `RLIMIT_MEMLOCK` (or `CAP_IPC_LOCK`) for the
//! frames: 16 MiB per queue.

mod bpf;
mod interface;
mod program;
mod queue;
mod rings;
mod socket;
mod umem;

use std::fs;
use std::net::IpAddr;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

pub use program::FilterCounters;
pub(crate) use program::Program;
pub use queue::XdpQueue;

use crate::bypass::{Bypass, BypassOptions, BypassQueue};
use interface::Interface;
use queue::CHUNKS;
use socket::{Binding, RING_ENTRIES, Refused};
use umem::CHUNK_BYTES;

/// What the kernel leaves free in front of a frame that it receives.
const HEADROOM_BYTES: usize = 256;
const ETHERNET_VLAN_BYTES: usize = 18;
const IPV6_UDP_BYTES: usize = 48;
/// Frames, and the rings: 8 bytes for each entry of two, 16 of the others.
const QUEUE_BYTES: usize = CHUNKS * CHUNK_BYTES + RING_ENTRIES as usize * (8 + 8 + 16 + 16);

/// Opens the queues of an interface, and has the program send them what is ours.
pub(crate) fn open(
    name: &str,
    options: &BypassOptions,
) -> Result<(Bypass, Vec<BypassQueue>), String> {
    let interface = Interface::find(name)?;
    let addresses = match options.addresses.is_empty() {
        true => interface.addresses.clone(),
        false => options.addresses.clone(),
    };
    check(&interface, &addresses, options)?;
    require_capabilities()?;
    raise_memlock();

    let ips: Vec<_> = addresses.iter().map(|(address, _)| *address).collect();
    let ports = (*options.ports.start(), *options.ports.end());
    let mut program = Program::load(interface.queues, &ips, ports)?;
    program.attach(&interface)?;
    let frame_bytes_max = (interface.mtu + ETHERNET_VLAN_BYTES).min(CHUNK_BYTES - HEADROOM_BYTES);
    let mut queues = Vec::with_capacity(options.queues);
    for number in 0..options.queues as u32 {
        let binding = Binding {
            interface: interface.index,
            queue: number,
            copy_only: !program.is_native(),
            busy_poll_us: options.busy_poll_us,
        };
        let queue = XdpQueue::open(binding, interface.checksums(), frame_bytes_max)
            .map_err(|refused| explain(refused, number, options.queues))?;
        program
            .set_socket(number, queue.as_raw_fd())
            .map_err(|error| format!("queue {number}: the program refuses its socket: {error}"))?;
        queues.push(queue);
    }
    let payload_bytes_max = frame_bytes_max - ETHERNET_VLAN_BYTES - IPV6_UDP_BYTES;
    let description = format!(
        "{}, {} of {} queues, {}, driver {}, MTU {}",
        program.mode,
        options.queues,
        interface.queues,
        queues
            .first()
            .map(XdpQueue::description)
            .unwrap_or_default(),
        interface.driver,
        interface.mtu,
    );
    let port = Bypass {
        addresses,
        mac: interface.mac,
        payload_bytes_max,
        memory_bytes: options.queues * QUEUE_BYTES,
        description,
        program: Some(program),
    };
    Ok((port, queues.into_iter().map(BypassQueue::Xdp).collect()))
}

/// What can be seen to be wrong before anything is touched.
fn check(
    interface: &Interface,
    addresses: &[(IpAddr, u8)],
    options: &BypassOptions,
) -> Result<(), String> {
    let (name, wanted) = (&interface.name, options.queues);
    if addresses.is_empty() {
        return Err(format!(
            "it has no address; give one with --port-ip, or to the interface: `ip address add ADDRESS/PREFIX dev {name}`"
        ));
    }
    if addresses.len() > program::ADDRESSES_MAX {
        return Err(format!("at most {} addresses", program::ADDRESSES_MAX));
    }
    if interface.queues < wanted {
        return Err(format!(
            "{wanted} threads need as many receive queues, it has {}; `ethtool -L {name} {} {wanted}`, or -t {}",
            interface.queues, interface.queues_word, interface.queues,
        ));
    }
    if interface.mtu <= IPV6_UDP_BYTES {
        return Err(format!("its MTU of {} is too small", interface.mtu));
    }
    Ok(())
}

/// Names what is missing, which the kernel's errors do not.
fn require_capabilities() -> Result<(), String> {
    const NET_ADMIN: u32 = 12;
    const NET_RAW: u32 = 13;
    const SYS_ADMIN: u32 = 21;
    const BPF: u32 = 39;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let Some(effective) = effective.and_then(|text| u64::from_str_radix(text.trim(), 16).ok())
    else {
        return Ok(()); // The kernel will tell.
    };
    let has = |capability: u32| (effective >> capability) & 1 != 0;
    let missing: Vec<_> = [
        (has(NET_RAW), "CAP_NET_RAW"),
        (has(NET_ADMIN), "CAP_NET_ADMIN"),
        (has(BPF) || has(SYS_ADMIN), "CAP_BPF"),
    ]
    .into_iter()
    .filter_map(|(has, name)| (!has).then_some(name))
    .collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "{} missing; docs/bypass.md tells how to give it",
            missing.join(", ")
        )),
    }
}

/// The frames count as locked memory: as much as may be had is asked for.
fn raise_memlock() {
    let Ok((_, hard)) = getrlimit(Resource::RLIMIT_MEMLOCK) else {
        return;
    };
    let all = libc::RLIM_INFINITY;
    if setrlimit(Resource::RLIMIT_MEMLOCK, all, all).is_err() {
        // Without CAP_SYS_RESOURCE; what is refused for want of it says so.
        let _ = setrlimit(Resource::RLIMIT_MEMLOCK, hard, hard);
    }
}

/// What the refusal of a socket means.
fn explain((what, error): Refused, queue: u32, queues: usize) -> String {
    let all_kib = (queues * QUEUE_BYTES) >> 10;
    match (what, error.raw_os_error()) {
        ("socket(AF_XDP)", Some(libc::EAFNOSUPPORT)) => {
            "this kernel was built without CONFIG_XDP_SOCKETS".to_owned()
        }
        ("socket(AF_XDP)", Some(libc::EPERM)) => "CAP_NET_RAW missing".to_owned(),
        ("XDP_UMEM_REG", Some(libc::ENOBUFS | libc::ENOMEM)) => format!(
            "the limit of locked memory is too small: {all_kib} KiB are needed (`ulimit -l {all_kib}`, LimitMEMLOCK= of \
             systemd), or CAP_IPC_LOCK"
        ),
        ("bind", Some(libc::EBUSY)) => {
            format!("another AF_XDP socket has queue {queue} already")
        }
        ("bind", Some(libc::ENETDOWN)) => "the interface is down: `ip link set up`".to_owned(),
        _ => format!("queue {queue}: {what}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn what_is_missing_is_named_with_what_helps() {
        let refused = |what, errno| (what, io::Error::from_raw_os_error(errno));
        let text = explain(refused("XDP_UMEM_REG", libc::ENOBUFS), 0, 2);
        assert!(text.contains("ulimit -l 33152"), "{text}");
        let text = explain(refused("bind", libc::EBUSY), 3, 4);
        assert!(text.contains("queue 3"), "{text}");
    }
}
