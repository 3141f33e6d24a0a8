//! A UDP socket, and the options that the kernel granted.

use std::io;
use std::net::{SocketAddr, UdpSocket as StdUdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use libc::c_int;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, SockaddrIn6, bind, setsockopt, socket, sockopt,
};

use super::system::{get_option, set_option};

/// Requested options of a socket. Options that the kernel or the privileges refuse are left out;
/// [`UdpSocket::granted`] shows the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpOptions {
    /// Receive runs of datagrams of one peer as super-packets, which cross the network stack once.
    pub gro: bool,
    /// Send such runs as super-packets.
    pub gso: bool,
    /// Size of the receive queue, including the kernel's bookkeeping of several hundred bytes per
    /// message; 0 keeps the kernel's default. More than `net.core.rmem_max` requires
    /// `CAP_NET_ADMIN`.
    pub receive_buffer_bytes: usize,
    /// Size of the send queue; 0 keeps the kernel's default. More than `net.core.wmem_max` requires
    /// `CAP_NET_ADMIN`.
    pub send_buffer_bytes: usize,
    /// Poll the network card for so long when receiving, before reporting that nothing is there,
    /// and prefer that to interrupts. More than `net.core.busy_read` requires `CAP_NET_ADMIN`.
    pub busy_poll_us: Option<u32>,
    /// Allow other sockets of this user on the same port (`SO_REUSEPORT`). The kernel then spreads
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

/// Options that the kernel granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// Super-packets are received whole.
    pub gro: bool,
    /// Super-packets can be sent. A route may still refuse them.
    pub gso: bool,
    /// In the kernel's count, which is twice the requested size.
    pub receive_buffer_bytes: usize,
    /// In the kernel's count, which is twice the requested size.
    pub send_buffer_bytes: usize,
    /// Duration of busy polling, if any.
    pub busy_poll_us: Option<u32>,
    /// Messages carry the number of messages dropped before (`SO_RXQ_OVFL`).
    pub overflow_counted: bool,
}

/// State of the receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveQueue {
    /// Queued bytes, including bookkeeping.
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
    /// Binds a socket to an address. Port 0 selects a free one.
    ///
    /// # Errors
    /// Returns the kernel's error, for example `AddrInUse`. Refused options are no error.
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
        // Options have to be set before the first message can arrive.
        let granted = apply(descriptor.as_fd(), options);
        match address {
            SocketAddr::V4(address) => bind(descriptor.as_raw_fd(), &SockaddrIn::from(address))?,
            SocketAddr::V6(address) => {
                // Allows to bind 0.0.0.0 and :: to the same port.
                setsockopt(&descriptor, sockopt::Ipv6V6Only, &true)?;
                bind(descriptor.as_raw_fd(), &SockaddrIn6::from(address))?;
            }
        }
        Ok(Self { socket: descriptor.into(), granted })
    }

    /// Takes over a bound socket.
    ///
    /// # Errors
    /// Returns the kernel's error. Refused options are no error.
    pub fn adopt(socket: StdUdpSocket, options: &UdpOptions) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let granted = apply(socket.as_fd(), options);
        Ok(Self { socket, granted })
    }

    /// Returns the address with the assigned port.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Returns the options that the kernel granted.
    pub const fn granted(&self) -> Granted {
        self.granted
    }

    /// Returns the length of the receive queue, and its drops. This costs a system call, for upkeep.
    /// [`super::Receiver::dropped`] comes with the messages.
    ///
    /// # Errors
    /// Returns the kernel's error: kernels before 4.12 do not support this.
    pub fn receive_queue(&self) -> io::Result<ReceiveQueue> {
        // Indexes as in linux/sock_diag.h: SK_MEMINFO_RMEM_ALLOC and so on.
        const RECEIVE_ALLOCATED: usize = 0;
        const RECEIVE_MAX: usize = 1;
        const DROPPED: usize = 8;
        let mut values = [0; DROPPED + 1];
        get_option(self.as_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO, &mut values)?;
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
        // Every kernel supports this option.
        let known = get_option(socket, libc::SOL_SOCKET, value_of, &mut granted);
        known.map_or(0, |_| granted[0] as usize)
    };
    Granted {
        gro: options.gro && set(libc::SOL_UDP, libc::UDP_GRO, 1),
        // 0: no length for the whole socket. Each super-packet brings its own.
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
    fn binds_both_families_and_reports_granted_options() {
        for (text, options) in [("127.0.0.1:0", UdpOptions::default()), ("[::1]:0", UdpOptions::default())] {
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
    fn unrequested_options_are_not_granted() {
        let options =
            UdpOptions { gro: false, gso: false, receive_buffer_bytes: 64 << 10, ..UdpOptions::default() };
        let granted = UdpSocket::bind(local(), &options).unwrap().granted();
        assert!(!granted.gro && !granted.gso);
        assert_eq!(granted.receive_buffer_bytes, 128 << 10);
    }

    #[test]
    fn busy_polling_is_reported_correctly() {
        for busy_poll_us in [None, Some(0), Some(50), Some(u32::MAX)] {
            let options = UdpOptions { busy_poll_us, ..UdpOptions::default() };
            let socket = UdpSocket::bind(local(), &options).unwrap();
            let mut set_us = [1];
            let option = (libc::SOL_SOCKET, libc::SO_BUSY_POLL);
            get_option(socket.as_fd(), option.0, option.1, &mut set_us).unwrap();
            // Privileges decide whether it is granted, but the answer has to be true.
            assert_eq!(socket.granted().busy_poll_us.unwrap_or(0), set_us[0]);
        }
    }

    #[test]
    fn a_port_is_shared_only_when_both_agree() {
        let exclusive = UdpOptions::default();
        let shared = UdpOptions { reuse_port: true, ..exclusive };
        let first = UdpSocket::bind(local(), &shared).unwrap();
        let address = first.local_addr().unwrap();
        UdpSocket::bind(address, &shared).unwrap();
        let error = UdpSocket::bind(address, &exclusive).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }
}
