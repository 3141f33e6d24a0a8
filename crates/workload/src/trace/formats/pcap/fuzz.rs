//! Any packets between a few clients and a server.

use super::flows::Flows;
use super::packet::{Flow, Piece, Tcp};
use super::queue::{KEY_BYTES_MAX, Queue};

/// Bits of a packet's first byte; the lowest two say which client.
const FROM_CLIENT: u8 = 4;
const UDP: u8 = 8;
const FIRST: u8 = 16;
const LAST: u8 = 32;
const CUT: u8 = 64;
const LATER: u8 = 128;

/// Packets of a byte of flags, the distance to the next byte of the stream, the length, and so many
/// bytes. Requests come in the order of time, hardly more than there are bytes, and what is kept is
/// bounded.
pub(crate) fn packets(data: &[u8]) {
    let (mut flows, mut queue) = (Flows::default(), Queue::default());
    // The next bytes from and to each client, next to the end of the numbers.
    let mut next = [[u32::MAX - 20; 2]; 4];
    let (mut requests, mut time_ms, mut rest) = (0, 0, data);
    while let [flags, distance, length, behind @ ..] = rest {
        let (payload, behind) = behind.split_at(behind.len().min(usize::from(*length)));
        rest = behind;
        let has = |flag: u8| flags & flag > 0;
        let client = usize::from(flags & 3);
        let [from_client, from_server] = &mut next[client];
        let (ours, others) =
            if has(FROM_CLIENT) { (from_client, from_server) } else { (from_server, from_client) };
        let missing = if has(CUT) { usize::from(*distance) } else { 0 };
        let ahead = if has(CUT) { 0 } else { *distance as i8 };
        let tcp = Tcp {
            sequence: ours.wrapping_add_signed(ahead.into()),
            acknowledged: Some(*others),
            is_first: has(FIRST),
            is_last: has(LAST),
            is_reset: has(LAST) && has(FIRST),
        };
        let total = (payload.len() + missing) as u32 + u32::from(has(FIRST));
        *ours = tcp.sequence.wrapping_add(total);
        let flow = Flow { client: ([0; 16], client as u16), server: [1; 16], is_tcp: !has(UDP) };
        let is_from_client = has(FROM_CLIENT);
        queue.go_on(queue.time_ms() + u64::from(has(LATER)) * 1_000);
        flows.piece(&Piece { flow, is_from_client, tcp, payload, missing }, &mut queue);
        assert!(flows.held_bytes_are_bounded());
        while let Some(request) = queue.pop(rest.len() < 3) {
            assert!(request.time_ms >= time_ms && request.key().len() <= KEY_BYTES_MAX);
            time_ms = request.time_ms;
            requests += 1;
        }
    }
    assert!(requests <= data.len());
}
