//! All conversations of a capture, in bounded memory.

use std::collections::{HashMap, VecDeque};

use micanite_wire::memcache::udp::{Frame, REPLY_DATAGRAM_BYTES_MAX};

use super::conversation::{Connection, Conversation, Counts};
use super::packet::{Flow, Piece};
use super::queue::Queue;
use super::reassembly::Next;

/// Conversations that are remembered; the half that was idle for longest is forgotten.
const FLOWS_MAX: usize = 1 << 16;
/// Bytes that all of them may hold: early segments, beginnings of messages, expected answers.
const HELD_BYTES_MAX: usize = 64 << 20;
/// Datagrams of one client whose answers are waited for.
const EXCHANGES_MAX: usize = 64;

/// A request over UDP and what has come of its answer.
struct Exchange {
    request_id: u16,
    next_sequence: u16,
    conversation: Conversation,
}

/// A client's datagrams.
#[derive(Default)]
struct Datagrams {
    exchanges: VecDeque<Exchange>,
}

impl Datagrams {
    fn datagram(&mut self, piece: &Piece<'_>, queue: &mut Queue, counts: &mut Counts) {
        if piece.is_from_client {
            return self.request(piece, queue, counts);
        }
        // A server may leave the splitting of replies to its interface. The capture then has them in one
        // piece.
        let bytes_max =
            if is_joined(piece.payload) { REPLY_DATAGRAM_BYTES_MAX } else { piece.payload.len().max(1) };
        let mut parts = piece.payload.chunks(bytes_max).peekable();
        while let Some(payload) = parts.next() {
            let is_last = parts.peek().is_none();
            let missing = if is_last { piece.missing } else { 0 };
            let part = Piece { payload, missing, ..*piece };
            self.reply(&part, queue, counts);
        }
    }

    fn request(&mut self, piece: &Piece<'_>, queue: &mut Queue, counts: &mut Counts) {
        let Ok((frame, payload)) = Frame::of_request(piece.payload) else {
            counts.split_requests += 1;
            return;
        };
        let mut conversation = Conversation::default();
        conversation.hear_client(&Next::Bytes(payload), queue, counts);
        if self.exchanges.len() == EXCHANGES_MAX {
            self.exchanges.pop_front();
        }
        self.exchanges.push_back(Exchange { request_id: frame.request_id, next_sequence: 0, conversation });
    }

    fn reply(&mut self, piece: &Piece<'_>, queue: &mut Queue, counts: &mut Counts) {
        let Some((frame, payload)) = Frame::split(piece.payload) else {
            return;
        };
        let is_it = |exchange: &Exchange| exchange.request_id == frame.request_id;
        let Some(place) = self.exchanges.iter().rposition(is_it) else {
            return;
        };
        let exchange = &mut self.exchanges[place];
        if frame.sequence < exchange.next_sequence {
            return;
        }
        let conversation = &mut exchange.conversation;
        if frame.sequence > exchange.next_sequence {
            conversation.hear_server(&Next::Missing(u64::MAX), queue, counts);
        }
        conversation.hear_server(&Next::Bytes(payload), queue, counts);
        if piece.missing > 0 {
            let missing = piece.missing as u64;
            conversation.hear_server(&Next::Missing(missing), queue, counts);
        }
        exchange.next_sequence = frame.sequence.saturating_add(1);
        if exchange.next_sequence >= frame.total {
            self.exchanges.remove(place);
        }
    }

    fn held_bytes(&self) -> usize {
        let conversations = self.exchanges.iter();
        let held: usize = conversations.map(|exchange| exchange.conversation.held_bytes()).sum();
        held + self.exchanges.capacity() * size_of::<Exchange>()
    }
}

/// Returns whether these are several datagrams of one reply.
fn is_joined(payload: &[u8]) -> bool {
    let next = payload
        .get(REPLY_DATAGRAM_BYTES_MAX..)
        .and_then(|next| Some((Frame::split(payload)?.0, Frame::split(next)?.0)));
    next.is_some_and(|(first, next)| {
        first.request_id == next.request_id
            && first.total == next.total
            && first.sequence.checked_add(1) == Some(next.sequence)
    })
}

enum Talk {
    Tcp(Box<Connection>),
    Udp(Datagrams),
}

impl Talk {
    fn of(flow: &Flow) -> Self {
        if flow.is_tcp {
            Self::Tcp(Box::new(Connection::begun_before()))
        } else {
            Self::Udp(Datagrams::default())
        }
    }

    fn held_bytes(&self) -> usize {
        match self {
            Self::Tcp(connection) => connection.held_bytes(),
            Self::Udp(datagrams) => datagrams.held_bytes(),
        }
    }
}

struct Entry {
    talk: Talk,
    time_ms: u64,
}

/// The conversations by their addresses.
#[derive(Default)]
pub(super) struct Flows {
    entries: HashMap<Flow, Entry>,
    held_bytes: usize,
    pub counts: Counts,
}

impl Flows {
    /// Takes what a packet carries.
    pub fn piece(&mut self, piece: &Piece<'_>, queue: &mut Queue) {
        let is_empty = piece.payload.is_empty() && piece.missing == 0;
        if is_empty && !piece.tcp.is_first && !self.entries.contains_key(&piece.flow) {
            return;
        }
        if self.entries.len() >= FLOWS_MAX && !self.entries.contains_key(&piece.flow) {
            self.forget_idle();
        }
        let time_ms = queue.time_ms();
        let entry =
            self.entries.entry(piece.flow).or_insert_with(|| Entry { talk: Talk::of(&piece.flow), time_ms });
        entry.time_ms = time_ms;
        self.held_bytes -= entry.talk.held_bytes().min(self.held_bytes);
        let is_over = match &mut entry.talk {
            Talk::Tcp(connection) => {
                connection.segment(piece, queue, &mut self.counts);
                connection.ends_with(piece)
            }
            Talk::Udp(datagrams) => {
                datagrams.datagram(piece, queue, &mut self.counts);
                false
            }
        };
        if is_over {
            self.entries.remove(&piece.flow);
            return;
        }
        let held_bytes = entry.talk.held_bytes();
        if self.held_bytes + held_bytes > HELD_BYTES_MAX {
            entry.talk = Talk::of(&piece.flow);
            self.counts.dropped += 1;
        } else {
            self.held_bytes += held_bytes;
        }
    }

    /// Returns whether what is held is counted, and not too much.
    #[cfg(any(test, feature = "fuzz"))]
    pub fn held_bytes_are_bounded(&self) -> bool {
        let held = self.entries.values().map(|entry| entry.talk.held_bytes());
        held.sum::<usize>() == self.held_bytes && self.held_bytes <= HELD_BYTES_MAX
    }

    /// Forgets the half that was idle for longest.
    fn forget_idle(&mut self) {
        let mut times: Vec<u64> = self.entries.values().map(|entry| entry.time_ms).collect();
        let middle = times.len() / 2;
        let (_, limit, _) = times.select_nth_unstable(middle);
        let limit = *limit;
        let before = self.entries.len();
        self.entries.retain(|_, entry| entry.time_ms > limit);
        self.counts.dropped += (before - self.entries.len()) as u64;
        self.held_bytes = self.entries.values().map(|entry| entry.talk.held_bytes()).sum();
    }
}
