//! Rings between workers: a datagram that reached the wrong one is handed to the owner, once.
//!
//! One ring for every pair of workers, of bytes: a head of fixed length, the headers of the frame if
//! the port goes around the kernel, then the datagram. A ring that is full takes nothing; the
//! sender is told so, which is what keeps a ring short.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use rtrb::chunks::ChunkError;
use rtrb::{Consumer, Producer, RingBuffer};

use crate::limits::{RING_BYTES_MAX, RING_BYTES_MIN, RINGS_BYTES_OF_WORKER};

const HEAD_BYTES: usize = 32;

/// Bytes of one ring, where so many workers have one for each other worker, and datagrams with their
/// headers have at most so many bytes.
pub fn ring_bytes(workers: usize, payload_bytes: usize) -> usize {
    let share = RINGS_BYTES_OF_WORKER / workers.saturating_sub(1).max(1);
    let least = RING_BYTES_MIN.max(2 * (HEAD_BYTES + payload_bytes.next_multiple_of(8)));
    share.clamp(least, RING_BYTES_MAX.max(least))
}

/// A worker's ends of its rings.
#[derive(Debug, Default)]
pub struct RingEnds {
    /// To each worker; none to itself.
    pub to: Vec<Option<Producer<u8>>>,
    /// From each worker; none from itself.
    pub from: Vec<Option<Consumer<u8>>>,
}

/// The rings of all workers.
pub fn rings(workers: usize, payload_bytes: usize) -> Vec<RingEnds> {
    let mut ends: Vec<_> = (0..workers).map(|_| RingEnds::default()).collect();
    for from in 0..workers {
        for to in 0..workers {
            let (producer, consumer) = match from == to {
                true => (None, None),
                false => {
                    let (one, other) = RingBuffer::new(ring_bytes(workers, payload_bytes));
                    (Some(one), Some(other))
                }
            };
            ends[from].to.push(producer);
            ends[to].from.push(consumer);
        }
    }
    ends
}

/// Origin of a forwarded datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The sender.
    pub peer: SocketAddr,
    /// Number of the first worker's socket that it came through, if it came through one.
    pub socket: u16,
}

/// A datagram taken by [`pop`], behind the headers of its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Popped {
    /// Length of the headers of its frame; 0 of what came through a socket.
    pub header_bytes: usize,
    /// Length of the datagram.
    pub datagram_bytes: usize,
    pub origin: Origin,
}

/// Adds a datagram, behind the headers of its frame if it came in one; returns whether there was
/// room.
#[inline]
pub fn push(ring: &mut Producer<u8>, origin: Origin, headers: &[u8], datagram: &[u8]) -> bool {
    let mut head = [0; HEAD_BYTES];
    pack(&mut head, origin, headers.len(), datagram.len());
    let Ok(mut chunk) = ring.write_chunk(HEAD_BYTES + headers.len() + datagram.len()) else {
        return false;
    };
    let (first, second) = chunk.as_mut_slices();
    scatter(&head, 0, first, second);
    scatter(headers, HEAD_BYTES, first, second);
    scatter(datagram, HEAD_BYTES + headers.len(), first, second);
    chunk.commit_all();
    true
}

/// Takes a datagram with its headers into a buffer that has room for the longest.
#[inline]
pub fn pop(ring: &mut Consumer<u8>, out: &mut [u8]) -> Option<Popped> {
    let mut head = [0; HEAD_BYTES];
    take(ring, &mut head).ok()?;
    let popped = unpack(&head);
    let bytes = popped.header_bytes + popped.datagram_bytes;
    // Head and datagram were committed together.
    take(ring, &mut out[..bytes]).ok()?;
    Some(popped)
}

fn take(ring: &mut Consumer<u8>, out: &mut [u8]) -> Result<(), ChunkError> {
    let chunk = ring.read_chunk(out.len())?;
    let (first, second) = chunk.as_slices();
    out[..first.len()].copy_from_slice(first);
    out[first.len()..].copy_from_slice(second);
    chunk.commit_all();
    Ok(())
}

/// Copies bytes to a position of what lies in two pieces.
fn scatter(bytes: &[u8], at: usize, first: &mut [u8], second: &mut [u8]) {
    let in_first = first.len().saturating_sub(at).min(bytes.len());
    let (head, tail) = bytes.split_at(in_first);
    let (at_first, first_bytes) = (at.min(first.len()), first.len());
    first[at_first..][..head.len()].copy_from_slice(head);
    let at_second = (at + in_first).saturating_sub(first_bytes);
    second[at_second..][..tail.len()].copy_from_slice(tail);
}

fn pack(head: &mut [u8; HEAD_BYTES], origin: Origin, header_bytes: usize, bytes: usize) {
    let (ip, is_v4, scope) = match origin.peer {
        SocketAddr::V4(peer) => (peer.ip().to_ipv6_mapped(), true, 0),
        SocketAddr::V6(peer) => (*peer.ip(), false, peer.scope_id()),
    };
    head[..16].copy_from_slice(&ip.octets());
    head[16..20].copy_from_slice(&scope.to_ne_bytes());
    head[20..24].copy_from_slice(&(bytes as u32).to_ne_bytes());
    head[24..26].copy_from_slice(&origin.peer.port().to_ne_bytes());
    head[26..28].copy_from_slice(&origin.socket.to_ne_bytes());
    head[28] = u8::from(is_v4);
    head[29] = header_bytes as u8;
}

fn unpack(head: &[u8; HEAD_BYTES]) -> Popped {
    let number = |at: usize| {
        let bytes = [head[at], head[at + 1], head[at + 2], head[at + 3]];
        u32::from_ne_bytes(bytes)
    };
    let short = |at: usize| u16::from_ne_bytes([head[at], head[at + 1]]);
    let mut octets = [0; 16];
    octets.copy_from_slice(&head[..16]);
    let (ip, port) = (Ipv6Addr::from(octets), short(24));
    let peer = match ip.to_ipv4_mapped() {
        Some(ip) if head[28] == 1 => SocketAddr::new(IpAddr::V4(ip), port),
        _ => SocketAddr::V6(SocketAddrV6::new(ip, port, 0, number(16))),
    };
    let socket = short(26);
    Popped {
        header_bytes: usize::from(head[29]),
        datagram_bytes: number(20) as usize,
        origin: Origin { peer, socket },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(peer: &str, socket: u16) -> Origin {
        let peer = peer.parse().unwrap();
        Origin { peer, socket }
    }

    #[test]
    fn datagrams_come_out_as_they_went_in_across_the_end_of_the_ring() {
        let (mut to, mut from) = RingBuffer::new(256);
        let mut out = [0; 250];
        let peers = ["10.1.2.3:65535", "[::1]:1", "[fe80::1%7]:80", "[::ffff:1.2.3.4]:9"];
        for round in 0..1000usize {
            let origin = origin(peers[round % 4], round as u16);
            let datagram: Vec<u8> = (0..round % 150).map(|byte| (byte + round) as u8).collect();
            let headers = &[round as u8; 66][..[0, 42, 66][round % 3]];
            assert!(push(&mut to, origin, headers, &datagram), "{round}");
            let popped = Popped { header_bytes: headers.len(), datagram_bytes: datagram.len(), origin };
            assert_eq!(pop(&mut from, &mut out), Some(popped));
            let (front, rest) = out.split_at(headers.len());
            assert_eq!((front, &rest[..datagram.len()]), (headers, &datagram[..]));
        }
        assert_eq!(pop(&mut from, &mut out), None);
    }

    #[test]
    fn a_full_ring_takes_nothing_until_there_is_room() {
        let (mut to, mut from) = RingBuffer::new(256);
        let one = origin("10.1.2.3:4", 5);
        let mut taken = 0;
        while push(&mut to, one, &[], &[7; 50]) {
            taken += 1;
        }
        assert_eq!(taken, 256 / (HEAD_BYTES + 50));
        let mut out = [0; 50];
        for _ in 0..taken {
            let popped = pop(&mut from, &mut out).unwrap();
            assert_eq!((popped.datagram_bytes, popped.origin), (50, one));
        }
        assert!(push(&mut to, one, &[], &[7; 200]));
    }

    #[test]
    fn rings_hold_at_least_two_datagrams_and_stay_within_bounds() {
        for (workers, payload) in [(1, 1472), (2, 1472), (64, 1472), (1024, 1472), (2, 65_507)] {
            let bytes = ring_bytes(workers, payload);
            assert!(bytes >= 2 * (HEAD_BYTES + payload), "{workers} {payload}");
            assert!(bytes <= RING_BYTES_MAX.max(3 * payload), "{workers} {payload}");
        }
    }
}
