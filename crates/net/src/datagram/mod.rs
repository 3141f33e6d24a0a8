//! UDP in bursts: one system call carries many datagrams. With GRO and GSO, many datagrams cross the
//! network stack together.
//!
//! One thread uses a [`UdpSocket`] with a [`Receiver`] and a [`Sender`]: it receives a burst, reads its
//! datagrams, writes replies directly into the sender's memory, and sends them. These steps neither
//! wait nor allocate.
//!
//! An echo:
//!
//! ```
//! use micanite_net::datagram::{Receiver, Sender, UdpOptions, UdpSocket};
//! # fn main() -> std::io::Result<()> {
//! let socket = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &UdpOptions::default())?;
//! let granted = socket.granted();
//! let mut receiver = Receiver::new(granted.gro, 1472);
//! let mut sender = Sender::new(granted.gso, 1472);
//! # let client = std::net::UdpSocket::bind("127.0.0.1:0")?;
//! # client.send_to(b"hello", socket.local_addr()?)?;
//! let mut echoed = 0;
//! while echoed == 0 {
//!     receiver.recv(&socket)?;
//!     for datagram in receiver.datagrams().filter(|datagram| !datagram.truncated) {
//!         if sender.is_full() {
//!             sender.send(&socket)?;
//!         }
//!         let bytes = datagram.bytes.len();
//!         match sender.begin(datagram.peer) {
//!             Some(room) if bytes <= room.len() => {
//!                 room[..bytes].copy_from_slice(datagram.bytes);
//!                 sender.commit(bytes);
//!             }
//!             _ => sender.abandon(), // the socket would block, or the datagram exceeds 1,472 bytes
//!         }
//!     }
//!     echoed += sender.send(&socket)?;
//! }
//! # let mut reply = [0; 8];
//! # assert_eq!(client.recv(&mut reply)?, 5);
//! # assert_eq!(&reply[..5], b"hello");
//! # Ok(())
//! # }
//! ```
//!
//! Other ports (AF_XDP, DPDK) have the same form: `recv`, `datagrams`; `begin`, `commit`, `send`.

mod address;
mod buffer;
mod control;
mod queue;
mod receiver;
mod sender;
mod socket;
mod system;

pub use receiver::{Datagram, Received, Receiver};
pub use sender::{Sender, Sent};
pub use socket::{Granted, ReceiveQueue, UdpOptions, UdpSocket};
