//! The sender against a scripted kernel.

use proptest::prelude::*;

use super::*;

const A: ([u8; 4], u16) = ([127, 0, 0, 1], 1);
const B: ([u8; 4], u16) = ([127, 0, 0, 1], 2);

/// A message as seen by the kernel: peer, segment length, payload.
type SentMessage = (u16, Option<u16>, Vec<u8>);

/// Accepts at most so many messages per call, or fails.
struct Kernel {
    answers: Vec<Result<usize, i32>>,
    seen: Vec<SentMessage>,
}

impl Kernel {
    /// Answers calls in this order, then accepts everything.
    fn new(answers: &[Result<usize, i32>]) -> Self {
        let answers = answers.iter().rev().copied().collect();
        let seen = Vec::new();
        Self { answers, seen }
    }

    fn send(&mut self, sender: &mut Sender) -> io::Result<usize> {
        sender.send_by(|memory, queue, planned, pieces| {
            let answer = self.answers.pop().unwrap_or(Ok(planned.len()));
            let answer = answer.map_err(io::Error::from_raw_os_error)?;
            let most = answer.min(planned.len());
            let mut pieces = pieces.iter();
            for planned in &planned[..most] {
                let own = pieces.by_ref().take(planned.pieces.into());
                let payload = own.flat_map(|&(start, end)| &memory[start as usize..end as usize]);
                let peer = queue.name(planned.peer).address(16).unwrap().port();
                let payload = payload.copied().collect();
                self.seen.push((peer, planned.segment_bytes, payload));
            }
            Ok(most)
        })
    }
}

fn commit(sender: &mut Sender, peer: ([u8; 4], u16), payload: &[u8]) {
    let room = sender.begin(peer.into()).unwrap();
    assert_eq!(room.as_ptr().align_offset(8), 0);
    room[..payload.len()].copy_from_slice(payload);
    sender.commit(payload.len());
}

#[test]
fn only_adjacent_pieces_are_joined() {
    let mut sender = Sender::new(true, 100);
    for (length, pieces_expected) in [(16, 1), (12, 3)] {
        for byte in 0..3 {
            commit(&mut sender, A, &vec![byte; length]);
        }
        let mut payload = Vec::new();
        sender
            .send_by(|memory, _, planned, pieces| {
                assert_eq!(pieces.len(), pieces_expected);
                for &(start, end) in pieces {
                    payload.extend_from_slice(&memory[start as usize..end as usize]);
                }
                Ok(planned.len())
            })
            .unwrap();
        let expected: Vec<_> = (0..3).flat_map(|byte| vec![byte; length]).collect();
        assert_eq!(payload, expected);
    }
}

#[test]
fn joined_messages_are_sent_once() {
    let mut sender = Sender::new(true, 100);
    for bytes in [40, 16, 40] {
        commit(&mut sender, A, &vec![bytes as u8; bytes]);
    }
    commit(&mut sender, B, &[1]);
    let mut kernel = Kernel::new(&[]);
    assert_eq!(kernel.send(&mut sender).unwrap(), 4);
    let together = [vec![40; 80], vec![16; 16]].concat();
    assert_eq!(kernel.seen, [(1, Some(40), together), (2, None, vec![1])]);
    assert_eq!(sender.sent().messages, 2);
}

#[test]
fn blocked_datagrams_leave_later_with_newer_ones() {
    let mut sender = Sender::new(false, 100);
    for byte in 0..4 {
        commit(&mut sender, A, &[byte]);
    }
    let mut kernel = Kernel::new(&[Ok(1), Err(libc::EINTR), Ok(1), Err(libc::EAGAIN)]);
    assert_eq!(kernel.send(&mut sender).unwrap(), 2);
    assert_eq!(sender.pending(), 2);
    commit(&mut sender, B, &[4]);
    assert_eq!(sender.pending(), 3);
    assert_eq!(kernel.send(&mut sender).unwrap(), 3);
    assert_eq!(sender.pending(), 0);
    let payloads: Vec<_> = kernel.seen.iter().map(|seen| seen.2[0]).collect();
    assert_eq!(payloads, [0, 1, 2, 3, 4]);
    assert_eq!(sender.sent().datagrams, 5);
    assert_eq!((sender.end, sender.first_unsent), (0, 0));
}

#[test]
fn blocked_datagrams_can_be_discarded() {
    let mut sender = Sender::new(true, 100);
    commit(&mut sender, A, &[1]);
    commit(&mut sender, B, &[2]);
    let mut kernel = Kernel::new(&[Err(libc::ENOBUFS)]);
    assert_eq!(kernel.send(&mut sender).unwrap(), 0);
    assert_eq!(sender.discard(), 2);
    assert_eq!(sender.pending(), 0);
    assert_eq!(kernel.send(&mut sender).unwrap(), 0);
    assert_eq!(kernel.seen, []);
    assert_eq!(sender.sent().discarded, 2);
}

#[test]
fn errors_of_one_peer_do_not_hold_up_others() {
    let mut sender = Sender::new(true, 100);
    for peer in [A, A, B] {
        commit(&mut sender, peer, &[7; 8]);
    }
    let mut kernel = Kernel::new(&[Err(libc::ENETUNREACH)]);
    assert_eq!(kernel.send(&mut sender).unwrap(), 1);
    assert_eq!(kernel.seen, [(2, None, vec![7; 8])]);
    let sent = sender.sent();
    assert_eq!((sent.failed, sent.datagrams, sent.calls), (2, 1, 2));
}

#[test]
fn broken_sockets_fail_without_losing_datagrams() {
    let mut sender = Sender::new(true, 100);
    commit(&mut sender, A, &[1]);
    let mut kernel = Kernel::new(&[Err(libc::EBADF)]);
    kernel.send(&mut sender).unwrap_err();
    assert_eq!(sender.pending(), 1);
    assert_eq!(kernel.send(&mut sender).unwrap(), 1);
}

#[test]
fn refused_super_packets_are_split_and_remembered() {
    let mut sender = Sender::new(true, 100);
    let mut kernel = Kernel::new(&[Err(libc::EMSGSIZE), Ok(1)]);
    let push = |sender: &mut Sender, bytes: usize| {
        for byte in 0..3 {
            commit(sender, A, &vec![byte; bytes]);
        }
    };
    push(&mut sender, 50);
    assert_eq!(kernel.send(&mut sender).unwrap(), 3);
    let single: Vec<_> = (0..3).map(|byte| (1, None, vec![byte; 50])).collect();
    assert_eq!(kernel.seen, single);
    assert_eq!(sender.sent().gso_refused, 1);

    // Shorter datagrams still leave together. Equally long ones do not for a while.
    push(&mut sender, 49);
    assert_eq!(kernel.send(&mut sender).unwrap(), 3);
    assert_eq!(sender.sent().super_packets, 1);
    for _ in 0..GSO_REFUSED_MESSAGES {
        push(&mut sender, 50);
        assert_eq!(kernel.send(&mut sender).unwrap(), 3);
    }
    assert_eq!(sender.sent().super_packets, 1);
    push(&mut sender, 50);
    assert_eq!(kernel.send(&mut sender).unwrap(), 3);
    assert_eq!(sender.sent().super_packets, 2);
}

#[test]
fn oversized_datagrams_are_dropped() {
    let mut sender = Sender::new(true, 100);
    for byte in 0..3 {
        commit(&mut sender, A, &[byte; 20]);
    }
    // First as a super-packet, then as datagrams, of which the second one fails.
    let answers = [Err(libc::EINVAL), Ok(1), Err(libc::EMSGSIZE)];
    let mut kernel = Kernel::new(&answers);
    assert_eq!(kernel.send(&mut sender).unwrap(), 2);
    assert_eq!(kernel.seen, [(1, None, vec![0; 20]), (1, None, vec![2; 20])]);
    assert_eq!(sender.sent().failed, 1);
}

#[test]
fn uncommitted_datagrams_are_not_sent() {
    let mut sender = Sender::new(true, 100);
    sender.begin(A.into()).unwrap()[0] = 1;
    sender.abandon();
    sender.begin(A.into()).unwrap()[0] = 2;
    commit(&mut sender, B, &[3]);
    let mut kernel = Kernel::new(&[]);
    assert_eq!(kernel.send(&mut sender).unwrap(), 1);
    assert_eq!(kernel.seen, [(2, None, vec![3])]);
}

#[test]
fn senders_fill_up_and_empty_after_sending() {
    for (payload_bytes_max, bytes) in [(64, 8), (1472, 1472), (DATAGRAM_PAYLOAD_BYTES_MAX, 60_000)] {
        let mut sender = Sender::new(true, payload_bytes_max);
        let memory = |sender: &Sender| (sender.planned.capacity(), sender.pieces.capacity());
        let memory_before = memory(&sender);
        for _ in 0..2 {
            let mut count = 0;
            while !sender.is_full() {
                commit(&mut sender, A, &vec![0; bytes]);
                count += 1;
            }
            assert!(sender.begin(A.into()).is_none());
            assert!(count >= 4);
            let mut kernel = Kernel::new(&[]);
            assert_eq!(kernel.send(&mut sender).unwrap(), count);
            assert!(!sender.is_full());
        }
        assert_eq!(memory(&sender), memory_before);
    }
}

#[test]
#[should_panic(expected = "longer than the room")]
fn commits_beyond_the_room_panic() {
    let mut sender = Sender::new(true, 100);
    sender.begin(A.into()).unwrap();
    sender.commit(101);
}

proptest! {
    /// For any commits and any answers of the kernel, every datagram is sent once or counted as
    /// failed.
    #[test]
    fn every_datagram_leaves_once(
        gso: bool,
        bursts in prop::collection::vec(prop::collection::vec((1..12u16, 0..6usize), 0..100), 1..4),
        answers in prop::collection::vec(prop_oneof![
            (0..20usize).prop_map(Ok),
            prop::sample::select(vec![
                libc::EAGAIN, libc::EINTR, libc::EMSGSIZE, libc::EINVAL, libc::EPERM, libc::EBADF,
            ]).prop_map(Err),
        ], 0..30),
    ) {
        let mut sender = Sender::new(gso, 100);
        let mut kernel = Kernel::new(&answers);
        let mut committed = Vec::new();
        for burst in bursts {
            for (port, length) in burst {
                if !sender.is_full() {
                    // The number makes each payload unique, except empty ones.
                    let number = (committed.len() as u16).to_le_bytes();
                    let payload: Vec<_> = number.into_iter().cycle().take(length * 7).collect();
                    commit(&mut sender, ([127, 0, 0, 1], port), &payload);
                    committed.push((port, payload));
                }
            }
            let _ = kernel.send(&mut sender);
        }
        let mut attempts = 0..1000;
        while sender.pending() > 0 {
            attempts.next().expect("the kernel takes everything in the end");
            let _ = kernel.send(&mut sender);
        }
        let mut left: Vec<_> = kernel.seen.iter().flat_map(|(port, segment, payload)| {
            let segment = segment.map_or(payload.len(), usize::from).max(1);
            assert!(payload.len() <= segment * crate::limits::SEND_SEGMENTS_MAX);
            let datagrams = payload.chunks(segment).map(<[u8]>::to_vec);
            let empty = payload.is_empty().then(Vec::new);
            datagrams.chain(empty).map(|payload| (*port, payload)).collect::<Vec<_>>()
        }).collect();
        let sent = sender.sent();
        prop_assert_eq!(left.len() as u64, sent.datagrams);
        prop_assert_eq!(left.len() + sent.failed as usize, committed.len());
        // Sent datagrams were committed, and each was sent once.
        committed.sort_unstable();
        left.sort_unstable();
        let mut committed = committed.into_iter();
        for datagram in left {
            prop_assert!(committed.any(|other| other == datagram), "{:?}", datagram);
        }
    }
}

/// Sends 8 datagrams of a length, twice, over a prepared socket; returns the counters.
fn send_over(address: &str, bytes: usize, prepare: impl FnOnce(&UdpSocket)) -> Sent {
    let options = super::super::UdpOptions::default();
    let bind = || UdpSocket::bind(address.parse().unwrap(), &options).unwrap();
    let (from, to) = (bind(), bind());
    assert!(from.granted().gso);
    prepare(&from);
    let peer = to.local_addr().unwrap();
    let mut sender = Sender::new(true, bytes);
    let mut receiver = super::super::Receiver::new(to.granted().gro, bytes);
    for _ in 0..2 {
        for byte in 0..8 {
            sender.begin(peer).unwrap().fill(byte);
            sender.commit(bytes);
        }
        assert_eq!(sender.send(&from).unwrap(), 8);
        let mut arrived = Vec::new();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while arrived.len() < 8 {
            assert!(std::time::Instant::now() < deadline);
            receiver.recv(&to).unwrap();
            arrived.extend(receiver.datagrams().map(|datagram| datagram.bytes.to_vec()));
        }
        let expected: Vec<_> = (0..8).map(|byte| vec![byte; bytes]).collect();
        assert_eq!(arrived, expected);
    }
    sender.sent()
}

#[test]
fn a_kernel_that_refuses_super_packets_gets_datagrams() {
    let level_socket = libc::SOL_SOCKET;
    let set = |level, name, value| {
        move |socket: &UdpSocket| system::set_option(socket.as_fd(), level, name, value).unwrap()
    };
    // Without checksums on the socket, the network card cannot segment super-packets.
    let sent = send_over("127.0.0.1:0", 100, set(level_socket, libc::SO_NO_CHECK, 1));
    assert_eq!((sent.super_packets, sent.gso_refused), (0, 1));
    // Datagrams beyond the MTU have to leave in fragments, each on its own.
    let sent = send_over("[::1]:0", 2000, set(libc::IPPROTO_IPV6, libc::IPV6_MTU, 1280));
    assert_eq!((sent.super_packets, sent.gso_refused), (0, 1));
    // The same length without that option.
    let sent = send_over("[::1]:0", 2000, |_| ());
    assert_eq!((sent.super_packets, sent.gso_refused), (2, 0));
}
