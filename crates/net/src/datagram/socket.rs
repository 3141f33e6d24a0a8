//! A UDP socket, and what the kernel granted it.

use std::io;
use std::net::{SocketAddr, UdpSocket as StdUdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use libc::c_int;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, SockaddrIn6, bind, setsockopt, socket, sockopt,
};

use super::system::{get_option, set_option};

/// What is asked of a socket. Whatever the kernel or the privileges do not allow is left out, and
/// [`UdpSocket::granted`] says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpOptions {
    /// Receive runs of datagrams of one peer as super-packets, which cross the network stack once.
    pub gro: bool,
    /// Send such runs as super-packets.
    pub gso: bool,
    /// Memory for what has arrived and was not received yet, the kernel's bookkeeping of several
    /// hundred bytes per message included; 0 leaves the kernel's default. More than
    /// `net.core.rmem_max` takes the capability `CAP_NET_ADMIN`.
    pub receive_buffer_bytes: usize,
    /// Memory for what was sent and has not left yet; 0 leaves the kernel's default. More than
    /// `net.core.wmem_max` takes the capability `CAP_NET_ADMIN`.
    pub send_buffer_bytes: usize,
    /// Let receiving poll the network card for so long before it reports that nothing is there,
    /// and prefer that to interrupts. More than `net.core.busy_read` takes `CAP_NET_ADMIN`.
    pub busy_poll_us: Option<u32>,
    /// Allow other sockets of this user on the same port (`SO_REUSEPORT`); the kernel then spreads
    /// peers over them.
    pub reuse_port: bool,
}

impl Default for UdpOptions {
    fn default() -> Self {
        Self {
            gro: true,
            gso: true,
            receive_buffer_bytes: 2 << 20,
            send_buffer_bytes: 2 << 20,
            busy_poll_us: None,
            reuse_port: false,
        }
    }
}

/// What the kernel granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// Super-packets arrive as such.
    pub gro: bool,
    /// Super-packets can be sent; a route may still refuse them.
    pub gso: bool,
    /// As the kernel counts, which is twice what it was asked for.
    pub receive_buffer_bytes: usize,
    /// As the kernel counts, which is twice what it was asked for.
    pub send_buffer_bytes: usize,
    /// The time of busy polling, if any.
    pub busy_poll_us: Option<u32>,
    /// Messages carry the number of those dropped before (`SO_RXQ_OVFL`).
    pub overflow_counted: bool,
}

/// The queue of what has arrived, at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveQueue {
    /// Bytes that wait, bookkeeping included.
    pub bytes: usize,
    /// Bytes at which messages are dropped.
    pub bytes_max: usize,
    /// Messages dropped since the socket was opened, wrapping. A super-packet is one message.
    pub dropped: u32,
}

/// A bound UDP socket that never blocks.
#[derive(Debug)]
pub struct UdpSocket {
    socket: StdUdpSocket,
    granted: Granted,
}

impl UdpSocket {
    /// Binds a socket to an address; port 0 takes a free one.
    ///
    /// # Errors
    /// What the kernel says, `AddrInUse` for example. Refused options are no error.
    pub fn bind(address: SocketAddr, options: &UdpOptions) -> io::Result<Self> {
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::Inet,
            SocketAddr::V6(_) => AddressFamily::Inet6,
        };
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let descriptor = socket(family, SockType::Datagram, flags, None)?;
        if options.reuse_port {
            setsockopt(&descriptor, sockopt::ReusePort, &true)?;
        }
        // Before the first message can arrive.
        let granted = apply(descriptor.as_fd(), options);
        match address {
            SocketAddr::V4(address) => bind(descriptor.as_raw_fd(), &SockaddrIn::from(address))?,
            SocketAddr::V6(address) => {
                // So that 0.0.0.0 and :: can be bound side by side.
                setsockopt(&descriptor, sockopt::Ipv6V6Only, &true)?;
                bind(descriptor.as_raw_fd(), &SockaddrIn6::from(address))?;
            }
        }
        Ok(Self {
            socket: descriptor.into(),
            granted,
        })
    }

    /// A socket that was bound before.
    ///
    /// # Errors
    /// What the kernel says. Refused options are no error.
    pub fn adopt(socket: StdUdpSocket, options: &UdpOptions) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let granted = apply(socket.as_fd(), options);
        Ok(Self { socket, granted })
    }

    /// The address with the port that was got.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// What the kernel granted of the options.
    pub const fn granted(&self) -> Granted {
        self.granted
    }

    /// How full the queue of arrived messages is, and what it dropped. This is a system call, for
    /// upkeep; [`super::Receiver::dropped`] comes with the messages.
    ///
    /// # Errors
    /// What the kernel says: before 4.12 it does not know this.
    pub fn receive_queue(&self) -> io::Result<ReceiveQueue> {
        // The order of SK_MEMINFO_RMEM_ALLOC and so on in linux/sock_diag.h.
        const RECEIVE_ALLOCATED: usize = 0;
        const RECEIVE_MAX: usize = 1;
        const DROPPED: usize = 8;
        let mut values = [0; DROPPED + 1];
        get_option(
            self.as_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            &mut values,
        )?;
        Ok(ReceiveQueue {
            bytes: values[RECEIVE_ALLOCATED] as usize,
            bytes_max: values[RECEIVE_MAX] as usize,
            dropped: values[DROPPED],
        })
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn apply(socket: BorrowedFd<'_>, options: &UdpOptions) -> Granted {
    let set = |level, name, value| set_option(socket, level, name, value).is_ok();
    let buffer = |bytes, forced, plain, value_of| {
        let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX);
        if bytes > 0 && !set(libc::SOL_SOCKET, forced, bytes) {
            set(libc::SOL_SOCKET, plain, bytes);
        }
        let mut granted = [0];
        // Every kernel knows this one.
        let known = get_option(socket, libc::SOL_SOCKET, value_of, &mut granted);
        known.map_or(0, |_| granted[0] as usize)
    };
    Granted {
        gro: options.gro && set(libc::SOL_UDP, libc::UDP_GRO, 1),
        // 0: no length for the whole socket, each super-packet brings its own.
        gso: options.gso && set(libc::SOL_UDP, libc::UDP_SEGMENT, 0),
        receive_buffer_bytes: buffer(
            options.receive_buffer_bytes,
            libc::SO_RCVBUFFORCE,
            libc::SO_RCVBUF,
            libc::SO_RCVBUF,
        ),
        send_buffer_bytes: buffer(
            options.send_buffer_bytes,
            libc::SO_SNDBUFFORCE,
            libc::SO_SNDBUF,
            libc::SO_SNDBUF,
        ),
        busy_poll_us: options.busy_poll_us.and_then(|busy_poll_us| {
            let busy_poll_us = c_int::try_from(busy_poll_us).unwrap_or(c_int::MAX);
            let granted = set(libc::SOL_SOCKET, libc::SO_BUSY_POLL, busy_poll_us);
            // Without it, interrupts still compete with the polling: slower, not wrong.
            let _ = granted && set(libc::SOL_SOCKET, libc::SO_PREFER_BUSY_POLL, 1);
            granted.then_some(busy_poll_us.unsigned_abs())
        }),
        overflow_counted: set(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local() -> SocketAddr {
        "127.0.0.1:0".parse().unwrap()
    }

    #[test]
    fn binds_both_families_and_says_what_it_got() {
        for (text, options) in [
            ("127.0.0.1:0", UdpOptions::default()),
            ("[::1]:0", UdpOptions::default()),
        ] {
            let socket = UdpSocket::bind(text.parse().unwrap(), &options).unwrap();
            assert_ne!(socket.local_addr().unwrap().port(), 0);
            let granted = socket.granted();
            assert!(granted.gro && granted.gso && granted.overflow_counted);
            assert!(granted.receive_buffer_bytes > 0 && granted.send_buffer_bytes > 0);
            assert_eq!(granted.busy_poll_us, None);
            let queue = socket.receive_queue().unwrap();
            assert_eq!((queue.bytes, queue.dropped), (0, 0));
            assert_eq!(queue.bytes_max, granted.receive_buffer_bytes);
        }
    }

    #[test]
    fn what_is_not_asked_for_is_not_granted() {
        let options = UdpOptions {
            gro: false,
            gso: false,
            receive_buffer_bytes: 64 << 10,
            ..UdpOptions::default()
        };
        let granted = UdpSocket::bind(local(), &options).unwrap().granted();
        assert!(!granted.gro && !granted.gso);
        assert_eq!(granted.receive_buffer_bytes, 128 << 10);
    }

    #[test]
    fn busy_polling_is_granted_or_said_not_to_be() {
        for busy_poll_us in [None, Some(0), Some(50), Some(u32::MAX)] {
            let options = UdpOptions {
                busy_poll_us,
                ..UdpOptions::default()
            };
            let socket = UdpSocket::bind(local(), &options).unwrap();
            let mut set_us = [1];
            let option = (libc::SOL_SOCKET, libc::SO_BUSY_POLL);
            get_option(socket.as_fd(), option.0, option.1, &mut set_us).unwrap();
            // Whether it is depends on privileges, but not that the answer is true.
            assert_eq!(socket.granted().busy_poll_us.unwrap_or(0), set_us[0]);
        }
    }

    #[test]
    fn a_port_is_shared_only_when_both_agree() {
        let alone = UdpOptions::default();
        let shared = UdpOptions {
            reuse_port: true,
            ..alone
        };
        let first = UdpSocket::bind(local(), &shared).unwrap();
        let address = first.local_addr().unwrap();
        UdpSocket::bind(address, &shared).unwrap();
        let error = UdpSocket::bind(address, &alone).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }
}
