//! A datagram and its reply, without a socket.

use micanite_wire::memcache::binary::{self, Head, REQUEST_MAGIC};
use micanite_wire::memcache::text;
use micanite_wire::memcache::udp::Frame;

use super::UdpCounters;
use crate::limits::DATAGRAM_REQUESTS;
use crate::output::Output;
use crate::session::{Context, Session, Status};

/// Error in place of a reply that is too long.
const TOO_LONG: &[u8] = b"SERVER_ERROR reply too long for UDP\r\n";
/// Error for the rest of a datagram with more requests than a turn has. The rest was not executed.
const TOO_MUCH: &[u8] = b"SERVER_ERROR too many requests for one datagram\r\n";

/// Reply to a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Number that the client has given its request.
    pub request_id: u16,
    /// Bytes of the reply; 0 for quiet requests.
    pub reply_bytes: usize,
    /// Bytes that were written, including a reply that was too long to be sent.
    pub written_bytes: usize,
    /// Requests that the datagram takes of a turn.
    pub requests: u32,
}

/// Executes the requests of a datagram and writes their replies into `room`. Returns `None` if it is no
/// request: then it is counted, and not answered.
///
/// A datagram may move as many bytes as a turn of a stream, and may hold as many requests as fit into it,
/// whatever `-R` is. The rest is refused: if it were kept, other datagrams would wait for many turns of this
/// one.
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
        // A reply that is made in steps, or that is too long.
        Status::NeedOutput { .. } | Status::TurnOver => {
            counters.too_long.add(1);
            output = Output::new(room, 0);
            refuse_long(requests, &mut output);
        }
        // `quit` gets no reply.
        Status::Close => {}
    }
    Some(Answer {
        request_id: frame.request_id,
        reply_bytes: output.filled(),
        written_bytes: written_bytes.max(output.filled()),
        requests: requests_max - requests_left,
    })
}

/// Refuses a truncated request, with an error only if it is a store.
#[cold]
fn refuse_rest(rest: &[u8], output: &mut Output<'_>) {
    if rest.first() == Some(&REQUEST_MAGIC) {
        if let Some(head) = head(rest) {
            refuse_binary(head, binary::reply::Status::Invalid, output);
        }
        return;
    }
    // A complete line belongs to a store.
    let line = rest.iter().position(|byte| *byte == b'\n');
    if let Some(line) = line.map(|end| rest[..end].trim_ascii_end())
        && !line.ends_with(b" noreply")
    {
        push(text::reply::BAD_CHUNK, output);
    }
}

/// Refuses requests that were not executed, including those that want no reply.
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

/// Returns the head of a binary request.
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

/// Appends bytes if there is room, which lacks only after replies that fill it to its end.
fn push(bytes: &[u8], output: &mut Output<'_>) {
    if bytes.len() <= output.room() {
        output.push(bytes);
    }
}
