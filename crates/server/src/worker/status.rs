//! Shows a worker's connections to others: in the table of `stats conns`, and in lines of `watch`.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};

use micanite_net::{ByteStream, Interest, Stream, Streams};
use nix::sys::socket::{SockaddrStorage, getsockname};

use super::Worker;
use super::slots::Token;
use crate::connection::Connection;
use crate::session::Awaits;
use crate::shared::clock::seconds;
use crate::telemetry::log::limited;
use crate::telemetry::peer::{Peer, address};
use crate::telemetry::stats::ConnectionState;

/// The two ends of a connection.
pub(super) struct Endpoints {
    descriptor: i32,
    peer: Peer,
    own: Option<SocketAddr>,
}

impl Endpoints {
    /// Asks the kernel for the ends of a stream.
    pub fn of(stream: &Stream) -> Self {
        let descriptor = stream.as_fd().as_raw_fd();
        let own = getsockname::<SockaddrStorage>(descriptor).ok();
        Self { descriptor, peer: Peer::of(stream), own: own.as_ref().and_then(address) }
    }
}

/// Returns the state of a connection, as `stats conns` names it.
#[inline]
pub(super) fn state<S: ByteStream>(interest: Interest, connection: &Connection<S>) -> ConnectionState {
    match (interest, connection.awaits()) {
        _ if connection.is_half_closed() => ConnectionState::Closing,
        _ if connection.is_watching() => ConnectionState::Watch,
        (Interest::Write, _) => ConnectionState::Write,
        (Interest::Nothing, _) => ConnectionState::Wait,
        (Interest::Read, Awaits::Request) => ConnectionState::Read,
        (Interest::Read, Awaits::Body) => ConnectionState::Body,
        (Interest::Read, Awaits::Refused { .. }) => ConnectionState::Refused,
    }
}

impl<P: Streams> Worker<P> {
    /// Notes that a connection has come.
    pub(super) fn note_arrival(&self, token: Token, endpoints: &Endpoints, now_ms: u64) {
        let place = (self.number, token.place());
        let ends = (endpoints.peer, endpoints.own);
        let table = &self.server.shared.connection_table;
        table.insert(place, endpoints.descriptor, ends, seconds(now_ms));
        self.server.shared.watch.connected(endpoints.peer, endpoints.descriptor);
        let (worker, peer) = (self.number, endpoints.peer);
        limited!(DEBUG, "connection opened", worker, connection = %token, peer = %peer);
    }

    /// Notes that a connection has gone. Returns its peer, if it was still there.
    pub(super) fn note_departure(&self, token: Token, reason: &'static str) -> Option<Peer> {
        let table = &self.server.shared.connection_table;
        let (descriptor, peer) = table.remove(self.number, token.place())?;
        self.server.shared.watch.disconnected(peer, reason, descriptor);
        let worker = self.number;
        limited!(DEBUG, "connection closed", worker, connection = %token, peer = %peer, reason);
        Some(peer)
    }

    /// Notes the turn of a connection.
    #[inline]
    pub(super) fn note_turn(&self, token: Token, now_ms: u64) {
        let (table, place) = (&self.server.shared.connection_table, token.place());
        table.note_turn(self.number, place, seconds(now_ms));
        if !self.server.shared.watch.wanted().is_empty() {
            let descriptor = table.descriptor(self.number, place);
            self.server.shared.watch.set_serving(self.number, descriptor);
        }
    }

    /// Notes what a connection waits for.
    #[cold]
    pub(super) fn note_state(&self, token: Token, state: ConnectionState) {
        let table = &self.server.shared.connection_table;
        table.note_state(self.number, token.place(), state);
    }

    /// Gives turns to connections that watch, unless their peers do not read.
    pub(super) fn serve_watchers(&mut self, now_ms: u64) {
        let evictions = self.server.shared.watch.wanted().any(crate::telemetry::watch::Kinds::EVICTIONS);
        self.server.shared.cache.notify_evictions(evictions);
        if !self.server.shared.watch.has_watchers() {
            return;
        }
        let mut from = 0;
        while let Some((token, slot, next)) = self.slots.next_from(from) {
            from = next;
            let waits = slot.interest == Interest::Read && !slot.queued;
            if waits && slot.connection.is_watching() {
                self.turn(token, false, now_ms);
            }
        }
    }
}
