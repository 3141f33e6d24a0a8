//! Transfers, from their start to their completion.

use std::fmt;

use arrayvec::ArrayVec;

use crate::error::Error;
use crate::limits::BATCH;
use crate::memory::Buffer;
use crate::peers::Peer;

/// An operation with its remote side.
#[cfg_attr(not(feature = "libfabric"), expect(dead_code, reason = "no domain reads it"))]
#[derive(Clone, Copy)]
pub(crate) enum Action {
    Receive,
    ReceiveTagged {
        tag: u64,
    },
    Send {
        peer: u64,
    },
    SendTagged {
        peer: u64,
        tag: u64,
    },
    Read {
        peer: u64,
        from: u64,
        key: u64,
    },
    ReadTwo {
        peer: u64,
        from: [u64; 2],
        lengths: [usize; 2],
        key: u64,
    },
    #[cfg(feature = "testing")]
    Write {
        peer: u64,
        to: u64,
        key: u64,
    },
}

/// Kinds of transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A message was received.
    Receive,
    /// A greeting was received, in a buffer that was posted for messages. Its sender is a peer now.
    Greeting,
    /// A message was received that has the tag of the buffer. Its sender need not be a peer.
    ReceiveTagged,
    /// Tagged or not, and a greeting of the endpoint itself.
    Send,
    /// One range was read, or two.
    Read,
    #[cfg(feature = "testing")]
    Write,
}

/// A finished transfer.
#[derive(Debug)]
pub struct Completion {
    pub operation: Operation,
    /// The number that the caller gave to the transfer.
    pub token: u64,
    pub peer: Option<Peer>,
    pub buffer: Buffer,
    /// Number of bytes of the buffer that were received, sent or read.
    pub result: Result<usize, Error>,
}

/// Room for the completions of a poll.
pub type Completions = ArrayVec<Completion, BATCH>;

/// A transfer that was not started, with its buffer.
pub struct Unposted {
    pub buffer: Buffer,
    pub error: Error,
}

/// A transfer under way.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub operation: Operation,
    pub token: u64,
    pub peer: Option<Peer>,
    pub bytes: usize,
    pub buffer: Buffer,
    pub is_cancelled: bool,
    /// Nobody waits for it.
    pub is_given_up: bool,
}

impl fmt::Debug for Unposted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Unposted({:?})", self.error)
    }
}
