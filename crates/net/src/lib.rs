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

mod buffers;
pub mod bypass;
pub mod datagram;
pub mod dpdk;
mod event;
pub mod frames;
pub mod limits;
pub mod netlink;
mod stream;
pub mod tls;
pub mod xdp;

pub use buffers::{Block, Blocks, ValueBuffer, ValueBuffers};
pub use event::{Event, Idle, IdleRounds, Interest, Poller, Step, Streams, Uring, UringStream, Waker};
pub use stream::{
    ByteStream, Inherited, Listener, Stream, Transport, is_shortage, keep_none_open, keep_open,
    receive_with_descriptors, send_with_descriptors, set_socket_mode,
};
