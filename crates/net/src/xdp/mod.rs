//! AF_XDP: frames of an interface that the kernel keeps, without its network stack.
//!
//! ```text
//!  interface --> port.c (XDP) --> everything else: the kernel's stack
//!                  | datagrams for the port's addresses and UDP ports
//!                socket of the queue  [fill, receive, transmit, completion rings]   socket.rs, rings.rs
//!                  |
//!                XdpQueue: chunks of 4 KiB in one UMEM per queue                    queue.rs, umem.rs
//! ```
//!
//! The program is attached by an unpinned link. So when the process ends, however it ends, the kernel
//! gets all frames again. The kernel handles neighbours (ARP, NDP), ICMP and everything but plain
//! datagrams for the port. Capabilities: `CAP_NET_RAW` for the sockets, `CAP_NET_ADMIN` and `CAP_BPF`
//! for the program (`CAP_SYS_ADMIN` before Linux 5.8), and for the frames `RLIMIT_MEMLOCK` or
//! `CAP_IPC_LOCK`: 16 MiB per queue, or as much as the limit allows, and at least 2 MiB. `CAP_PERFMON`
//! is not needed.

mod attach;
mod interface;
mod program;
mod queue;
mod rings;
mod socket;
mod umem;

use std::fs;
use std::net::IpAddr;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

pub use attach::{Attached, Mode, attach};
pub use interface::{Interface, at_address};
pub(crate) use program::Program;
pub use program::{FilterCounters, IS_BUILT};
pub use queue::XdpQueue;

use crate::bypass::{Bypass, BypassOptions, BypassQueue};
use queue::{CHUNKS_MAX, CHUNKS_MIN};
use socket::{Binding, RING_ENTRIES, Refused};
use umem::CHUNK_BYTES;

/// Bytes of a queue's frames.
pub const FRAMES_BYTES: usize = CHUNKS_MAX * CHUNK_BYTES;
/// Bytes of a queue's frames if no more memory may be locked. The kernel's bursts are lost sooner
/// then.
pub const FRAMES_BYTES_MIN: usize = CHUNKS_MIN * CHUNK_BYTES;
/// Bytes that the kernel leaves free in front of a received frame.
const HEADROOM_BYTES: usize = 256;
const ETHERNET_VLAN_BYTES: usize = 18;
const IPV6_UDP_BYTES: usize = 48;
/// Bytes of a queue's rings: two have entries of 8 bytes, two of 16.
const RINGS_BYTES: usize = RING_ENTRIES as usize * (8 + 8 + 16 + 16);

/// Opens the queues of an interface, and attaches the program that directs the port's frames to
/// them.
pub(crate) fn open(name: &str, options: &BypassOptions) -> Result<(Bypass, Vec<BypassQueue>), String> {
    let interface = Interface::find(name)?;
    let addresses = match options.addresses.is_empty() {
        true => interface.addresses.clone(),
        false => options.addresses.clone(),
    };
    check(&interface, &addresses, options)?;
    require_capabilities()?;
    let chunks = chunks_per_queue(options.queues);

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
        let queue = XdpQueue::open(binding, chunks, interface.checksums(), frame_bytes_max)
            .map_err(|refused| explain(refused, number, options.queues))?;
        program
            .set_socket(number, queue.as_raw_fd())
            .map_err(|error| format!("queue {number}: the program refuses its socket: {error}"))?;
        queues.push(queue);
    }
    let payload_bytes_max = frame_bytes_max - ETHERNET_VLAN_BYTES - IPV6_UDP_BYTES;
    let description = format!(
        "{}, {} of {} queues, {}, driver {}, MTU {}",
        program.mode(),
        options.queues,
        interface.queues,
        queues.first().map(XdpQueue::description).unwrap_or_default(),
        interface.driver,
        interface.mtu,
    );
    let port = Bypass {
        addresses,
        mac: interface.mac,
        receive_queues: interface.queues,
        payload_bytes_max,
        memory_bytes: options.queues * (chunks * CHUNK_BYTES + RINGS_BYTES),
        description,
        program: Some(program),
    };
    Ok((port, queues.into_iter().map(BypassQueue::Xdp).collect()))
}

/// Checks everything that can be checked without side effects.
fn check(interface: &Interface, addresses: &[(IpAddr, u8)], options: &BypassOptions) -> Result<(), String> {
    let (name, wanted) = (&interface.name, options.queues);
    if interface.mac == [0; 6] {
        return Err("it is not an Ethernet interface".to_owned());
    }
    if addresses.is_empty() {
        return Err(format!(
            "it has no address; set one with --bypass-ip (--port-ip of load), or on the interface: \
             `ip address add ADDRESS/PREFIX dev {name}`"
        ));
    }
    if addresses.len() > program::ADDRESSES_MAX {
        return Err(format!("at most {} addresses", program::ADDRESSES_MAX));
    }
    if interface.queues < wanted {
        return Err(format!(
            "{wanted} threads need as many receive queues, but it has {}; \
             `ethtool -L {name} {} {wanted}`, or -t {}",
            interface.queues, interface.queues_word, interface.queues,
        ));
    }
    if interface.mtu <= IPV6_UDP_BYTES {
        return Err(format!("its MTU of {} is too small", interface.mtu));
    }
    Ok(())
}

/// Numbers of capabilities.
const NET_ADMIN: u32 = 12;
const NET_RAW: u32 = 13;
const IPC_LOCK: u32 = 14;
const SYS_ADMIN: u32 = 21;
const BPF: u32 = 39;

/// Returns whether this process has a capability; `None` if unknown.
fn has_capability(capability: u32) -> Option<bool> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    let effective = u64::from_str_radix(effective.trim(), 16).ok()?;
    Some((effective >> capability) & 1 != 0)
}

/// Names missing capabilities, which the kernel's errors do not.
fn require_capabilities() -> Result<(), String> {
    // An unknown capability counts as present: the kernel will refuse if it is missing.
    let has = |capability| has_capability(capability).unwrap_or(true);
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
        false => Err(format!("{} missing; docs/bypass.md explains how to grant it", missing.join(", "))),
    }
}

/// Chooses the number of chunks per queue. Frames count as locked memory, so this raises the limit
/// as far as possible, and takes as many chunks as fit it.
fn chunks_per_queue(queues: usize) -> usize {
    let all = libc::RLIM_INFINITY;
    if has_capability(IPC_LOCK) == Some(true) || setrlimit(Resource::RLIMIT_MEMLOCK, all, all).is_ok() {
        return CHUNKS_MAX;
    }
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_MEMLOCK) else {
        return CHUNKS_MAX;
    };
    let limit = match setrlimit(Resource::RLIMIT_MEMLOCK, hard, hard) {
        Ok(()) => hard,
        Err(_) => soft,
    };
    chunks_within(limit, queues)
}

/// Returns a power of two.
fn chunks_within(limit_bytes: u64, queues: usize) -> usize {
    let mut chunks = CHUNKS_MAX;
    while chunks > CHUNKS_MIN && (queues * chunks * CHUNK_BYTES) as u64 > limit_bytes {
        chunks /= 2;
    }
    chunks
}

/// Explains the refusal of a socket.
fn explain((what, error): Refused, queue: u32, queues: usize) -> String {
    match (what, error.raw_os_error()) {
        ("socket(AF_XDP)", Some(libc::EAFNOSUPPORT)) => {
            "this kernel was built without CONFIG_XDP_SOCKETS".to_owned()
        }
        ("socket(AF_XDP)", Some(libc::EPERM)) => "CAP_NET_RAW missing".to_owned(),
        ("XDP_UMEM_REG", Some(libc::ENOBUFS | libc::ENOMEM)) => {
            let kib = |chunks: usize| (queues * chunks * CHUNK_BYTES) >> 10;
            let (least, best) = (kib(CHUNKS_MIN), kib(CHUNKS_MAX));
            format!(
                "the limit of locked memory (RLIMIT_MEMLOCK, for all processes of this user together) \
                 is too small: {least} KiB are needed, {best} KiB are best: `ulimit -l {best}`, \
                 LimitMEMLOCK= of systemd, or CAP_IPC_LOCK"
            )
        }
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
    fn refusals_name_the_remedy() {
        let refused = |what, errno| (what, io::Error::from_raw_os_error(errno));
        let text = explain(refused("XDP_UMEM_REG", libc::ENOBUFS), 0, 2);
        assert!(text.contains("4096 KiB are needed, 32768 KiB are best"), "{text}");
        let text = explain(refused("bind", libc::EBUSY), 3, 4);
        assert!(text.contains("queue 3"), "{text}");
    }

    #[test]
    fn queues_share_the_locked_memory_limit() {
        assert_eq!(chunks_within(u64::MAX, 64), CHUNKS_MAX);
        assert_eq!(chunks_within(8 << 20, 1), 2048);
        assert_eq!(chunks_within(8 << 20, 2), 1024);
        assert_eq!(chunks_within(8 << 20, 3), CHUNKS_MIN);
        assert_eq!(chunks_within(64 << 10, 1), CHUNKS_MIN);
    }
}
