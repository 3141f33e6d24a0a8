//! A client and a server: requests one way, replies the other way.

use micanite_wire::memcache::text::Parser;

use super::expected::Expectations;
use super::framing::Framing;
use super::packet::Piece;
use super::queue::Queue;
use super::reassembly::{Next, Reassembly};
use super::replies::Replies;
use super::requests::Requests;

/// First bytes of a TLS connection.
const TLS_HELLO: [u8; 2] = [0x16, 0x03];

/// Counts of what could not be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Streams that went on behind something missing, without knowing where a message begins.
    pub gaps: u64,
    pub refused_lines: u64,
    pub tls_connections: u64,
    pub fragments: u64,
    pub cut_packets: u64,
    pub split_requests: u64,
    /// Conversations that were forgotten to bound the memory.
    pub dropped: u64,
}

/// Both directions, in order.
#[derive(Default)]
pub(super) struct Conversation {
    parser: Parser,
    requests: Framing,
    replies: Framing,
    expected: Expectations,
}

impl Conversation {
    pub fn hear_client(&mut self, next: &Next<'_>, queue: &mut Queue, counts: &mut Counts) {
        match next {
            Next::Bytes(bytes) => {
                // A client that waits for answers has got them before it sends again.
                if self.expected.is_adrift() && self.replies.is_between_messages() {
                    self.expected.restart(queue);
                }
                let mut requests = Requests {
                    queue,
                    expected: &mut self.expected,
                    refused_lines: &mut counts.refused_lines,
                };
                let parser = &mut self.parser;
                self.requests.feed(bytes, |bytes, is_lost| requests.take(parser, bytes, is_lost));
            }
            Next::Missing(bytes) => {
                if self.requests.lose(*bytes) {
                    counts.gaps += 1;
                    self.expected.get_adrift();
                }
            }
        }
    }

    pub fn hear_server(&mut self, next: &Next<'_>, queue: &mut Queue, counts: &mut Counts) {
        match next {
            Next::Bytes(bytes) => {
                let expected = &mut self.expected;
                let mut replies = Replies { queue, expected };
                self.replies.feed(bytes, |bytes, is_lost| replies.take(bytes, is_lost));
            }
            Next::Missing(bytes) => {
                if self.replies.lose(*bytes) {
                    counts.gaps += 1;
                    self.expected.get_adrift();
                }
            }
        }
    }

    pub fn held_bytes(&self) -> usize {
        self.requests.held_bytes() + self.replies.held_bytes() + self.expected.held_bytes()
    }
}

pub(super) struct Connection {
    from_client: Reassembly,
    from_server: Reassembly,
    conversation: Conversation,
    is_new: bool,
    is_tls: bool,
    client_ended: bool,
    server_ended: bool,
}

impl Connection {
    /// One whose beginning was not captured: it is not known where messages begin.
    pub fn begun_before() -> Self {
        let mut conversation = Conversation::default();
        conversation.requests.get_lost();
        conversation.replies.get_lost();
        Self {
            from_client: Reassembly::default(),
            from_server: Reassembly::default(),
            conversation,
            is_new: false,
            is_tls: false,
            client_ended: false,
            server_ended: false,
        }
    }

    pub fn segment(&mut self, piece: &Piece<'_>, queue: &mut Queue, counts: &mut Counts) {
        if piece.tcp.is_first {
            return self.start(piece);
        }
        let (ours, others) = if piece.is_from_client {
            (&mut self.from_client, &mut self.from_server)
        } else {
            (&mut self.from_server, &mut self.from_client)
        };
        if let Some(number) = piece.tcp.acknowledged {
            others.acknowledge(number);
        }
        if piece.payload.is_empty() && piece.missing == 0 || self.is_tls {
            return;
        }
        if std::mem::take(&mut self.is_new) && piece.payload.starts_with(&TLS_HELLO) {
            self.is_tls = true;
            counts.tls_connections += 1;
            return;
        }
        let conversation = &mut self.conversation;
        let Piece { payload, missing, .. } = *piece;
        ours.segment(piece.tcp.sequence, payload, missing, |next| {
            if piece.is_from_client {
                conversation.hear_client(&next, queue, counts);
            } else {
                conversation.hear_server(&next, queue, counts);
            }
        });
    }

    /// One direction begins: from here on it is known where messages do.
    fn start(&mut self, piece: &Piece<'_>) {
        let first = piece.tcp.sequence.wrapping_add(1);
        if piece.is_from_client {
            *self = Self::begun_before();
            self.is_new = true;
            self.from_client.start(first);
            self.conversation.requests = Framing::default();
        } else {
            self.from_server.start(first);
            self.conversation.replies = Framing::default();
        }
    }

    /// Returns whether it is over.
    pub fn ends_with(&mut self, piece: &Piece<'_>) -> bool {
        self.client_ended |= piece.tcp.is_last && piece.is_from_client;
        self.server_ended |= piece.tcp.is_last && !piece.is_from_client;
        piece.tcp.is_reset || self.client_ended && self.server_ended
    }

    pub fn held_bytes(&self) -> usize {
        let halves = self.from_client.held_bytes() + self.from_server.held_bytes();
        halves + self.conversation.held_bytes()
    }
}
