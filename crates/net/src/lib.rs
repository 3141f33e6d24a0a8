//! Transports for streams and datagrams, and the memory of waiting bytes.
//!
//! This crate knows no keys and no protocol. A worker of the server assembles its parts:
//!
//! ```text
//!  Listener --accept--> Stream --registered in--> Streams: Poller (epoll, level triggered)
//!                          |                         ^
//!              recv / send, never blocking           | Waker: another thread has something
//!                          |
//!   Transport     the plain stream, or TLS over it
//!
//!   Blocks        fixed pieces for data that a stream could not finish reading or sending
//!   ValueBuffers  pieces of any length, within a budget
//!
//!  UdpSocket --> Receiver: bursts of datagrams    Sender: bursts of replies --> UdpSocket
//!
//!  FramePort     datagrams in raw frames: bursts of ports that bypass the kernel's network stack
//!
//!   Idle          steps of an idle worker: spin, yield, block
//! ```
//!
//! [`Uring`] replaces [`Poller`] if it is configured.
//!
//! Only Linux is supported. `unsafe` is limited to the system calls of [`datagram`], inherited
//! descriptors, the memory that io_uring receives into, and the buffers of raw [`frames`].

#![expect(
    unsafe_code,
    reason = "recvmmsg, sendmmsg and io_uring take pointers to many buffers; wrappers allocate per call"
)]

mod blocks;
pub mod bypass;
pub mod datagram;
pub mod dpdk;
pub mod frames;
mod idle;
mod inherited;
pub mod limits;
mod listener;
pub mod netlink;
mod poller;
pub mod probe;
mod stream;
mod streams;
pub mod tls;
mod transport;
mod uring;
mod value_buffers;
mod waker;
pub mod xdp;

pub use blocks::{Block, Blocks};
pub use idle::{Idle, IdleRounds, Step};
pub use inherited::{Inherited, keep_none_open, keep_open};
pub use listener::{Listener, set_socket_mode};
pub use poller::{Event, Interest, Poller};
pub use stream::{ByteStream, Stream};
pub use streams::Streams;
pub use transport::Transport;
pub use uring::{Uring, UringStream};
pub use value_buffers::{ValueBuffer, ValueBuffers};
pub use waker::Waker;
