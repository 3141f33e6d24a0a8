//! Messages between a worker and the thread that has its endpoint.

use std::net::IpAddr;

use micanite_fabric::{Buffer, Completion, Error, Operation, Peer};

use super::super::client::Buffers;

/// A transfer that is to be started. It ends with [`Event::Ended`], in any case.
#[derive(Debug)]
pub(super) struct Post {
    pub action: Action,
    pub buffer: Buffer,
    pub token: u64,
}

/// An operation with its remote side.
#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    Receive,
    ReceiveTagged { tag: u64 },
    Send { peer: Peer, bytes: usize },
    SendTagged { peer: Peer, bytes: usize, tag: u64 },
}

impl Post {
    /// Returns the end of a transfer that was not started.
    pub(super) fn failed(self, error: Error) -> Completion {
        let Self { action, buffer, token } = self;
        let (operation, peer) = match action {
            Action::Receive => (Operation::Receive, None),
            Action::ReceiveTagged { .. } => (Operation::ReceiveTagged, None),
            Action::Send { peer, .. } | Action::SendTagged { peer, .. } => (Operation::Send, Some(peer)),
        };
        Completion { operation, token, peer, buffer, result: Err(error) }
    }
}

/// Memory that is registered at once.
#[derive(Clone, Copy, Debug)]
pub enum Lot {
    /// The buffers of a client, with room for messages of so many bytes.
    Client { message_bytes: usize },
    /// A buffer for a hello.
    Hello,
}

/// Registered memory.
#[derive(Debug)]
pub enum Lots {
    Client(Buffers),
    Hello(Buffer),
}

/// A request of the worker.
#[derive(Debug)]
pub(super) enum Command {
    Start(Post),
    /// Receives of this token end, if they can.
    Cancel(u64),
    /// Transfers of this token are waited for no longer.
    GiveUp(u64),
    Forget(Peer),
    Register(Lot),
    /// Frees registered memory.
    Free(Buffer),
}

/// News for the worker.
#[derive(Debug)]
pub enum Event {
    /// A transfer has ended, or could not be started. A message without a tag has the address with which its
    /// sender has greeted, if the provider's addresses are those of IP.
    Ended(Completion, Option<IpAddr>),
    /// A transfer of this token was given up.
    GivenUp(u64),
    Registered(Lot, Result<Lots, Error>),
}
