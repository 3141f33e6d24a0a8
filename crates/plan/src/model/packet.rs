//! Bytes on the wire.

use crate::load::Load;
use crate::machine::{Machine, Packet};

/// Rounds up to whole words, as datagrams are padded.
fn padded(bytes: f64) -> f64 {
    (bytes / 8.0).ceil() * 8.0
}

/// Returns the bytes of the largest packet of a request without framing: a SET of a key and a value.
pub fn largest(machine: &Machine, key_bytes: f64, value_bytes: f64) -> f64 {
    let packet = &machine.packet;
    packet.datagram_bytes + packet.request_bytes + padded(key_bytes) + padded(value_bytes)
}

/// Returns the bits on the wire of a request, received and sent: its part of the datagram included. Both
/// are 0 where nothing goes over a network.
pub fn bits(machine: &Machine, load: &Load) -> [f64; 2] {
    let packet = &machine.packet;
    if *packet == Packet::NONE {
        return [0.0; 2];
    }
    let (key, value) = (padded(load.key_bytes), padded(load.value_bytes));
    let shared = (packet.datagram_bytes + packet.framing_bytes) / f64::from(load.batch);
    let received = shared + packet.request_bytes + key + (1.0 - load.get) * value;
    let sent = shared + packet.reply_bytes + load.get * value;
    [received * 8.0, sent * 8.0]
}
