//! Sockets of the kernel, with the interface of a port's queue.

use crate::driver::Driver;
use crate::operation::Completion;
use micanite_net::datagram::{Receiver, Sender, UdpOptions, UdpSocket};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Maximum number of bursts per call, so that sending is not delayed.
const BURSTS_MAX: usize = 4;
/// A smaller burst ends the receiving, which saves a system call.
const BURST_SMALL: usize = 8;

/// A socket for the servers of one address family.
#[derive(Debug)]
pub(super) struct Socket {
    is_v4: bool,
    socket: UdpSocket,
    receiver: Receiver,
    sender: Sender,
}

impl Socket {
    pub fn bind(is_v4: bool, payload_bytes: usize, options: &UdpOptions) -> io::Result<Self> {
        let any = match is_v4 {
            true => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            false => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        let socket = UdpSocket::bind(any, options)?;
        let granted = socket.granted();
        Ok(Self {
            is_v4,
            receiver: Receiver::new(granted.gro, payload_bytes),
            sender: Sender::new(granted.gso, payload_bytes),
            socket,
        })
    }

    /// Queues a datagram; returns whether there was room.
    #[inline]
    fn push(&mut self, to: SocketAddr, bytes: &[u8]) -> bool {
        if self.sender.is_full() && self.sender.send(&self.socket).is_err() {
            return false;
        }
        let Some(room) = self.sender.begin(to) else {
            return false;
        };
        room[..bytes.len()].copy_from_slice(bytes);
        self.sender.commit(bytes.len());
        true
    }

    /// Returns a descriptor that becomes readable when datagrams arrive.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Receives available datagrams and passes them to the driver; returns their number.
#[inline]
pub(super) fn receive(
    sockets: &mut [Socket],
    now_ns: u64,
    driver: &mut Driver,
    sink: &mut impl FnMut(Completion<'_>),
) -> io::Result<usize> {
    let mut received = 0;
    for socket in sockets {
        for _ in 0..BURSTS_MAX {
            let burst = socket.receiver.recv(&socket.socket)?;
            received += burst;
            for datagram in socket.receiver.datagrams().filter(|datagram| !datagram.truncated) {
                driver.on_datagram(now_ns, datagram.bytes, datagram.peer, sink);
            }
            if burst < BURST_SMALL {
                break;
            }
        }
    }
    Ok(received)
}

/// Sends the driver's datagrams, as far as the kernel accepts them.
#[inline]
pub(super) fn transmit(sockets: &mut [Socket], now_ns: u64, driver: &mut Driver) -> io::Result<()> {
    loop {
        driver.transmit(now_ns, |to, bytes| {
            let socket = sockets.iter_mut().find(|socket| socket.is_v4 == to.is_ipv4());
            socket.is_some_and(|socket| socket.push(to, bytes))
        });
        for socket in &mut *sockets {
            socket.sender.send(&socket.socket)?;
        }
        if !driver.has_more() || is_blocked(sockets) {
            return Ok(());
        }
    }
}

/// Waits until a datagram arrives, or sending is possible again, or the time is over.
pub(super) fn wait(sockets: &[Socket], at_most: Option<Duration>) -> io::Result<()> {
    let interest = |socket: &Socket| match socket.sender.pending() {
        0 => PollFlags::POLLIN,
        _ => PollFlags::POLLIN | PollFlags::POLLOUT,
    };
    let mut waited = [None, None];
    for (place, socket) in waited.iter_mut().zip(sockets) {
        *place = Some(PollFd::new(socket.socket.as_fd(), interest(socket)));
    }
    let timeout = at_most.map(TimeSpec::from_duration);
    let polled = match waited {
        [Some(one), Some(two)] => ppoll(&mut [one, two], timeout, None),
        [Some(one), _] => ppoll(&mut [one], timeout, None),
        _ => Ok(0),
    };
    match polled {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns whether a datagram could not be sent because a socket's buffer is full.
pub(super) fn is_blocked(sockets: &[Socket]) -> bool {
    sockets.iter().any(|socket| socket.sender.pending() > 0)
}
