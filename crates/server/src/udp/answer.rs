//! One datagram and its reply, without a socket.

use micanite_wire::memcache::binary::{self, Head, REQUEST_MAGIC};
use micanite_wire::memcache::text;
use micanite_wire::memcache::udp::Frame;

use super::UdpCounters;
use crate::limits::DATAGRAM_REQUESTS;
use crate::output::Output;
use crate::session::{Context, Session, Status};

/// The reply is too long, in the text protocol.
const TOO_LONG: &[u8] = b"SERVER_ERROR reply too long for UDP\r\n";
/// The datagram asks for more than a turn has; what comes behind this was not executed.
const TOO_MUCH: &[u8] = b"SERVER_ERROR too many requests for one datagram\r\n";

/// What a datagram asks for an answer of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// As the client has called its request.
    pub request_id: u16,
    /// Bytes of the reply; none for quiet requests.
    pub reply_bytes: usize,
    /// Bytes that were written for it, also those that were too long to be sent.
    pub written_bytes: usize,
    /// Requests that it counts for, within a turn.
    pub requests: u32,
}

/// Executes the requests of a datagram and writes their replies into `room`. `None` if it is no
/// request: then it is counted, and not answered.
///
/// A datagram moves as many bytes as a turn of a stream may, and has the requests that fit into it, whatever `-R` is. What is left of
/// it then is refused: keeping it would let other datagrams wait for many turns of this one.
#[inline]
pub(crate) fn answer(
    datagram: &[u8],
    room: &mut [u8],
    counters: &UdpCounters,
    context: &mut Context<'_>,
) -> Option<Answer> {
    let Ok((frame, requests)) = Frame::of_request(datagram) else {
        counters.bad_frames.add(1);
        return None;
    };
    let mut output = Output::new(room, 0);
    let mut session = Session::default();
    context.worker.begin_turn();
    let turn_requests_max = context.shared.turn_requests_max;
    let requests_max = turn_requests_max.max(DATAGRAM_REQUESTS);
    let mut requests_left = requests_max;
    let progress = session.process(requests, false, &mut requests_left, &mut output, context);
    let written_bytes = output.filled();
    match progress.status {
        Status::NeedInput if progress.consumed == requests.len() => {}
        Status::NeedInput | Status::NeedBuffer { .. } => {
            counters.incomplete.add(1);
            refuse_rest(&requests[progress.consumed..], &mut output);
        }
        Status::TurnOver if !session.is_in_steps() => {
            counters.too_much.add(1);
            refuse_more(&requests[progress.consumed..], &mut output);
        }
        // A reply that is made in steps, or one that is too long anyway.
        Status::NeedOutput { .. } | Status::TurnOver => {
            counters.too_long.add(1);
            output = Output::new(room, 0);
            refuse_long(requests, &mut output);
        }
        // `quit` is answered by nothing.
        Status::Close => {}
    }
    Some(Answer {
        request_id: frame.request_id,
        reply_bytes: output.filled(),
        written_bytes: written_bytes.max(output.filled()),
        requests: requests_max - requests_left,
    })
}

/// Nobody knows what a request means whose rest has not come. Only whoever sends a value is told.
#[cold]
fn refuse_rest(rest: &[u8], output: &mut Output<'_>) {
    if rest.first() == Some(&REQUEST_MAGIC) {
        if let Some(head) = head(rest) {
            refuse_binary(head, binary::reply::Status::Invalid, output);
        }
        return;
    }
    // A line that has come belongs to a store.
    let line = rest.iter().position(|byte| *byte == b'\n');
    if let Some(line) = line.map(|end| rest[..end].trim_ascii_end())
        && !line.ends_with(b" noreply")
    {
        push(text::reply::BAD_CHUNK, output);
    }
}

/// Says that the rest was not executed, also where requests want no reply.
#[cold]
fn refuse_more(rest: &[u8], output: &mut Output<'_>) {
    match head(rest) {
        Some(head) => refuse_binary(head, binary::reply::Status::Busy, output),
        None => push(TOO_MUCH, output),
    }
}

#[cold]
fn refuse_long(requests: &[u8], output: &mut Output<'_>) {
    match head(requests) {
        Some(head) => refuse_binary(head, binary::reply::Status::TooLarge, output),
        None => push(TOO_LONG, output),
    }
}

/// The head of a binary request, if that is what it is.
fn head(request: &[u8]) -> Option<Head> {
    let header = request.first_chunk::<{ binary::HEADER_BYTES }>()?;
    let [_, opcode, .., o0, o1, o2, o3] = header[..16] else {
        return None;
    };
    (header[0] == REQUEST_MAGIC).then_some(Head { opcode, opaque: [o0, o1, o2, o3] })
}

fn refuse_binary(head: Head, status: binary::reply::Status, output: &mut Output<'_>) {
    let mut bytes = [0; 64];
    let length = binary::reply::error(&mut bytes, head, status);
    push(&bytes[..length], output);
}

/// Appends what there is room for: there always is, but behind replies that fill it to its end.
fn push(bytes: &[u8], output: &mut Output<'_>) {
    if bytes.len() <= output.room() {
        output.push(bytes);
    }
}
