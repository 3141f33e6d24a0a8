//! Events of an endpoint, and what a worker does about each.

use std::net::IpAddr;

use micanite_fabric::{Buffer, Completion, Error, Operation};

use super::client::{Arrival, State};
use super::endpoint::{Event, Lot, Lots};
use super::hello::Greeted;
use super::port::FabricPort;
use super::shared::FabricShared;
use super::token::{Part, Token};
use crate::session::Context;

impl FabricPort {
    pub(super) fn take_event(
        &mut self,
        event: Event,
        context: &mut Context<'_>,
        shared: &FabricShared,
        now_ms: u64,
    ) {
        match event {
            Event::Ended(completion, ip) => self.take((completion, ip), context, shared, now_ms),
            Event::GivenUp(token) => {
                let is_answer = Token::decode(token).is_some_and(|token| token.part == Part::HelloReply);
                self.hellos_missing += usize::from(is_answer);
            }
            Event::Registered(Lot::Hello, Ok(Lots::Hello(buffer))) => self.spare.push(buffer),
            Event::Registered(Lot::Hello, _) => self.hellos_missing += 1,
            Event::Registered(Lot::Client { .. }, registered) => {
                let registered = registered.and_then(|lots| match lots {
                    Lots::Client(buffers) => Ok(buffers),
                    Lots::Hello(_) => Err(Error::Unsupported),
                });
                self.go_on_with_hello(registered, context, shared, now_ms);
            }
        }
        self.post_spare();
    }

    fn take(
        &mut self,
        (completion, ip): (Completion, Option<IpAddr>),
        context: &mut Context<'_>,
        shared: &FabricShared,
        now_ms: u64,
    ) {
        let Completion { operation, token, peer, buffer, result } = completion;
        if result.is_err() && result != Err(Error::Cancelled) {
            self.counters(shared).transfers_failed.add(1);
        }
        let Some(token) = Token::decode(token) else {
            return;
        };
        match token.part {
            Part::Hello if operation == Operation::Greeting => {
                self.spare.push(buffer);
                if let Some(peer) = peer {
                    self.note_stranger(peer);
                }
            }
            Part::Hello => match (result, peer) {
                (Ok(bytes), Some(peer)) => {
                    self.hello(Greeted { peer, ip, buffer, bytes }, context, shared, now_ms);
                }
                _ => self.spare.push(buffer),
            },
            Part::HelloReply => {
                self.answering.end(token.generation);
                self.spare.push(buffer);
            }
            Part::Request | Part::Reply | Part::Push | Part::History => {
                self.take_part(token, (buffer, result), shared, now_ms);
            }
        }
    }

    /// Takes back a client's buffer.
    fn take_part(
        &mut self,
        token: Token,
        (buffer, result): (Buffer, Result<usize, Error>),
        shared: &FabricShared,
        now_ms: u64,
    ) {
        let place = token.place as usize;
        let arrival = Arrival { place: token.place, generation: token.generation };
        let Some(client) = self.clients.get_mut(place).filter(|client| client.generation == token.generation)
        else {
            // That of a client that was given up.
            return self.link.free(buffer);
        };
        let counters = &shared.counters[self.worker];
        let is_live = client.state == State::Live;
        if result.is_ok() {
            client.used_ms = now_ms;
        }
        match (token.part, &result) {
            (Part::Request, result) => {
                self.requests[place] = Some(buffer);
                if let (Ok(bytes), true) = (result, is_live) {
                    counters.messages_received.add(1);
                    client.request_bytes = *bytes;
                    if client.reply.is_idle() {
                        self.arrived.push_back(arrival);
                    }
                }
            }
            (Part::Reply, _) => {
                client.reply.buffer = Some(buffer);
                // The client did not wait for its reply.
                if is_live && client.request_bytes > 0 {
                    self.arrived.push_back(arrival);
                }
            }
            (Part::Push, _) => client.push.buffer = Some(buffer),
            (_, result) => {
                if let (Ok(bytes), true) = (result, is_live) {
                    counters.messages_received.add(1);
                    client.history_bytes = *bytes;
                    self.reported.push_back(arrival);
                }
                client.history = Some(buffer);
            }
        }
        if result.is_err() && is_live {
            self.go(token.place, shared);
        }
        self.settle(token.place, shared);
    }
}
