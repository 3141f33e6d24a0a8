//! Sets of streams on the real kernel. They are skipped where it refuses io_uring.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

use micanite_test_skip::skip;

use super::*;
use crate::{Poller, Waker};

/// Longest wait for an expected event.
const TIMEOUT_MS: u16 = 60_000;

fn set() -> Option<Uring> {
    match Uring::probe() {
        Ok(()) => Some(Uring::new().unwrap()),
        Err(error) => {
            skip(format_args!("no io_uring here: {error}"));
            None
        }
    }
}

fn pair<S: Streams>(set: &mut S, token: u64) -> (S::Stream, UnixStream) {
    let (near, far) = UnixStream::pair().unwrap();
    let near = set.adopt(Stream::unix(near).unwrap()).unwrap();
    set.add(&near, token, Interest::Read).unwrap();
    (near, far)
}

fn tokens<S: Streams>(set: &mut S, timeout_ms: u16) -> Vec<(u64, bool)> {
    let count = set.wait(timeout_ms).unwrap();
    let of = |event: Event| (event.token, event.broken);
    (0..count).map(|number| of(set.event(number))).collect()
}

fn recv(stream: &mut impl ByteStream, bytes: usize) -> Vec<u8> {
    let mut buffer = vec![0; bytes];
    let count = stream.recv(&mut buffer).unwrap();
    buffer.truncate(count);
    buffer
}

fn nothing(stream: &mut impl ByteStream) {
    let error = stream.recv(&mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
}

/// Behaviour of a set that the worker relies on.
fn a_set_reports_until_it_is_taken<S: Streams>(mut set: S) {
    let (mut near, mut far) = pair(&mut set, 7);
    assert_eq!(tokens(&mut set, 0), []);
    nothing(&mut near);

    far.write_all(b"hello").unwrap();
    assert_eq!(tokens(&mut set, TIMEOUT_MS), [(7, false)]);
    assert_eq!(recv(&mut near, 2), b"he");
    assert_eq!(tokens(&mut set, TIMEOUT_MS), [(7, false)]);
    assert_eq!(recv(&mut near, 16), b"llo");
    nothing(&mut near);
    assert_eq!(tokens(&mut set, 0), []);

    // Input without interest is not reported, and not lost.
    set.change(&near, 7, Interest::Write).unwrap();
    assert_eq!(tokens(&mut set, TIMEOUT_MS), [(7, false)]);
    set.change(&near, 7, Interest::Nothing).unwrap();
    far.write_all(b"later").unwrap();
    assert_eq!(tokens(&mut set, 0), []);
    assert_eq!(tokens(&mut set, 1), []);
    set.change(&near, 8, Interest::Read).unwrap();
    assert_eq!(tokens(&mut set, TIMEOUT_MS), [(8, false)]);
    assert_eq!(recv(&mut near, 16), b"later");

    // The end follows the bytes before it.
    far.write_all(b"bye").unwrap();
    drop(far);
    assert_eq!(tokens(&mut set, TIMEOUT_MS)[0].0, 8);
    assert_eq!(recv(&mut near, 16), b"bye");
    assert_eq!(tokens(&mut set, TIMEOUT_MS)[0].0, 8);
    assert_eq!(recv(&mut near, 16), b"");
    assert_eq!(recv(&mut near, 16), b"");
    drop(near);
    assert_eq!(tokens(&mut set, 0), []);
    assert_eq!(tokens(&mut set, 1), []);
}

#[test]
fn both_sets_report_until_it_is_taken() {
    a_set_reports_until_it_is_taken(Poller::new().unwrap());
    if let Some(set) = set() {
        a_set_reports_until_it_is_taken(set);
    }
}

#[test]
fn closed_peers_are_reported_without_interest() {
    let Some(mut set) = set() else { return };
    let (near, far) = pair(&mut set, 1);
    assert_eq!(tokens(&mut set, 0), []);
    set.change(&near, 1, Interest::Nothing).unwrap();
    assert_eq!(tokens(&mut set, 0), []);
    drop(far);
    assert_eq!(tokens(&mut set, TIMEOUT_MS), [(1, true)]);
}

#[test]
fn a_closed_stream_ends_at_its_peer_at_the_next_wait() {
    let Some(mut set) = set() else { return };
    let (near, mut far) = pair(&mut set, 1);
    assert_eq!(tokens(&mut set, 0), []);
    drop(near);
    assert_eq!(tokens(&mut set, 0), []);
    assert_eq!(far.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn wakes_are_reported_until_they_are_taken() {
    let Some(mut set) = set() else { return };
    let waker = Waker::new().unwrap();
    set.watch(waker.as_fd(), u64::MAX).unwrap();
    let (mut near, mut far) = pair(&mut set, 3);
    for _ in 0..3 {
        assert_eq!(tokens(&mut set, 0), []);
        waker.wake();
        assert_eq!(tokens(&mut set, TIMEOUT_MS), [(u64::MAX, false)]);
        assert_eq!(tokens(&mut set, TIMEOUT_MS), [(u64::MAX, false)]);
        far.write_all(b"x").unwrap();
        let mut both = HashMap::new();
        while both.len() < 2 {
            both.extend(tokens(&mut set, TIMEOUT_MS));
        }
        waker.take();
        assert_eq!(recv(&mut near, 2), b"x");
    }
}

#[test]
fn more_than_all_buffers_arrive_in_order() {
    let Some(mut set) = set() else { return };
    // Streams that are not read hold every buffer. The others continue.
    let mut unread: Vec<_> = (0..8).map(|token| pair(&mut set, 1000 + token)).collect();
    let (mut near, mut far) = pair(&mut set, 1);
    let much = vec![7; 4 * Uring::BYTES];
    for (_, far) in &mut unread {
        far.set_nonblocking(true).unwrap();
    }
    let mut idle_rounds = 0;
    while idle_rounds < 3 {
        idle_rounds += 1;
        for (_, far) in &mut unread {
            if far.write(&much).is_ok() {
                idle_rounds = 0;
            }
        }
        set.wait(0).unwrap();
    }
    let sent: Vec<u8> = (0..200_000u32).map(|at| (at % 251) as u8).collect();
    let writer = {
        let sent = sent.clone();
        std::thread::spawn(move || far.write_all(&sent))
    };
    let mut got = Vec::new();
    while got.len() < sent.len() {
        // It is reported as broken once the writer has closed.
        if tokens(&mut set, TIMEOUT_MS).iter().any(|(token, _)| *token == 1) {
            got.extend(recv(&mut near, 10_000));
        }
    }
    writer.join().unwrap().unwrap();
    assert!(got == sent);
    // Buffers of closed streams are available to the others.
    drop(unread);
    set.wait(0).unwrap();
    assert!(set.core.borrow().can_receive());
}

#[test]
fn streams_come_and_go_with_bytes_on_their_way() {
    let Some(mut set) = set() else { return };
    let waker = Waker::new().unwrap();
    set.watch(waker.as_fd(), u64::MAX).unwrap();
    let mut live: Vec<(UringStream, UnixStream, u8)> = Vec::new();
    let mut random = 1u64;
    let mut next = move |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) % below
    };
    for round in 0..20_000u64 {
        match next(8) {
            0 | 1 => {
                let (near, far) = pair(&mut set, round);
                far.set_nonblocking(true).unwrap();
                live.push((near, far, next(256) as u8));
            }
            2 if !live.is_empty() => {
                let at = next(live.len() as u64) as usize;
                drop(live.swap_remove(at));
            }
            3 if !live.is_empty() => {
                let at = next(live.len() as u64) as usize;
                let interest = [Interest::Read, Interest::Write, Interest::Nothing];
                let interest = interest[next(3) as usize];
                set.change(&live[at].0, round, interest).unwrap();
            }
            4 => drop(set.wait(0).unwrap()),
            _ if !live.is_empty() => {
                let at = next(live.len() as u64) as usize;
                let (near, far, byte) = &mut live[at];
                // A full socket accepts nothing; this case is intended.
                let _ = far.write(&vec![*byte; next(9000) as usize]);
                let mut buffer = vec![0; 1 + next(9000) as usize];
                if let Ok(count) = near.recv(&mut buffer) {
                    assert!(buffer[..count].iter().all(|got| got == byte));
                }
            }
            _ => {}
        }
        if live.len() > 100 {
            live.truncate(20);
        }
    }
    drop(live);
    set.wait(0).unwrap();
    set.wait(0).unwrap();
    assert_eq!(set.core.borrow().in_use(), (0, 0), "streams, buffers");
}

#[test]
fn unsubmitted_receives_do_not_read_the_next_socket() {
    let Some(mut set) = set() else { return };
    for round in 0..200u64 {
        // The second socket gets the number of the first one when that is closed, before the set
        // has submitted anything for either.
        let (gone, _far) = pair(&mut set, 1);
        drop(gone);
        let (mut near, mut far) = pair(&mut set, 2);
        far.write_all(b"mine").unwrap();
        if round % 2 == 0 {
            set.wait(0).unwrap();
        }
        let mut got = Vec::new();
        while got.len() < 4 {
            match near.recv(&mut [0; 4][..]) {
                Ok(count) => got.extend(vec![0; count]),
                Err(_) => drop(set.wait(TIMEOUT_MS.min(1000)).unwrap()),
            }
        }
    }
}
