//! Queries to the kernel over netlink (RFC 3549). They require no privileges.
//!
//! | file | contents |
//! |---|---|
//! | `message.rs` | messages and their attributes |
//! | `interface.rs` | queries about an interface: its addresses, its XDP features, its XDP program |
//! | `route.rs` | queries about an address: its route, its Ethernet address |

mod interface;
mod message;
mod route;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, setsockopt, socket,
};
use nix::sys::time::{TimeVal, TimeValLike};

pub use interface::{Attached, XdpMode, addresses, attached, features};
pub use route::Route;

/// The kernel answers within the call. This limits the wait for one that does not.
const TIMEOUT_MS: i64 = 500;
/// Maximum length of a datagram. The kernel sends no longer ones.
const DATAGRAM_BYTES_MAX: usize = 32 << 10;
/// Maximum number of datagrams to read for an answer. Others answer earlier queries.
const STRAY_DATAGRAMS_MAX: usize = 16;

/// A socket for queries.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    sequence: u32,
    received: Box<[u8]>,
}

impl Netlink {
    /// Opens a socket for queries about routes and neighbours.
    ///
    /// # Errors
    /// The kernel has no more descriptors, or forbids it.
    pub fn open() -> io::Result<Self> {
        Self::of(SockProtocol::NetlinkRoute)
    }

    fn of(protocol: SockProtocol) -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, protocol)?;
        setsockopt(&socket, ReceiveTimeout, &TimeVal::milliseconds(TIMEOUT_MS))?;
        Ok(Self { socket, sequence: 0, received: vec![0; DATAGRAM_BYTES_MAX].into() })
    }

    /// Sends a query with one answer; returns the body of the answer.
    fn ask(&mut self, kind: u16, body: &[u8]) -> io::Result<Vec<u8>> {
        self.send(kind, message::REQUEST, body)?;
        let mut answers = Vec::new();
        for _ in 0..STRAY_DATAGRAMS_MAX {
            self.receive(&mut answers)?;
            if let Some(answer) = answers.pop() {
                return Ok(answer);
            }
        }
        Err(io::ErrorKind::InvalidData.into())
    }

    /// Sends a query for a list; returns the bodies of the answers.
    fn list(&mut self, kind: u16, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        self.send(kind, message::REQUEST | message::DUMP, body)?;
        let mut answers = Vec::new();
        while !self.receive(&mut answers)? {}
        Ok(answers)
    }

    fn send(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let message = message::request((kind, flags), self.sequence, body);
        let kernel = NetlinkAddr::new(0, 0);
        sendto(self.socket.as_raw_fd(), &message, &kernel, MsgFlags::empty())?;
        Ok(())
    }

    /// Receives a datagram. Returns true if it ends the answers to the current query.
    fn receive(&mut self, answers: &mut Vec<Vec<u8>>) -> io::Result<bool> {
        let bytes = recv(self.socket.as_raw_fd(), &mut self.received, MsgFlags::empty())?;
        message::collect(&self.received[..bytes], self.sequence, answers)
    }
}
