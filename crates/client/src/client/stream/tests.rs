//! Servers that close, refuse, answer strangely or not at all.

use super::*;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{RcvBuf, SndBuf};
use std::net::TcpListener;
use std::thread;

/// A server whose connections read one line or one store each, and reply. Without a reply they close.
fn server(replies: &'static [&'static str]) -> (SocketAddr, thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serves = move || {
        for reply in replies {
            let mut reader = BufReader::new(listener.accept().unwrap().0);
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if line.starts_with("set") {
                reader.read_line(&mut line).unwrap();
            }
            reader.get_mut().write_all(reply.as_bytes()).unwrap();
        }
    };
    (address, thread::spawn(serves))
}

/// The server refuses the length and reads no further: the rest of the request is no request.
#[test]
fn a_connection_is_not_used_again_in_the_middle_of_a_value() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    setsockopt(&listener, RcvBuf, &(64 << 10)).unwrap();
    let address = listener.local_addr().unwrap();
    let mut streams = streams_within(Duration::from_millis(200));
    let stream = Stream::connect(address, Instant::now()).unwrap();
    setsockopt(stream.reader.get_ref().get_ref(), SndBuf, &(64 << 10)).unwrap();
    streams.stream = Some(stream);
    let mut far = listener.accept().unwrap().0;
    let refuses = move || {
        far.read_exact(&mut [0; 4]).unwrap();
        far.write_all(b"SERVER_ERROR object too large for cache\r\n").unwrap();
        far
    };
    let served = thread::spawn(refuses);
    let answer = streams.call((Instant::now(), None), address, &Operation::set(b"key", &vec![b'v'; 8 << 20]));
    assert!(matches!(answer, Err(Error::TooLarge { .. })), "{answer:?}");
    assert!(streams.stream.is_none());
    drop(served.join().unwrap());
}

fn streams() -> ServerStream {
    streams_within(Duration::from_secs(20))
}

fn streams_within(deadline: Duration) -> ServerStream {
    ServerStream::new("name", deadline, Arc::default())
}

/// The server may have executed what it has got.
#[test]
fn the_outcome_of_a_store_without_a_reply_in_time_is_unknown() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut streams = streams_within(Duration::from_millis(50));
    let address = listener.local_addr().unwrap();
    let answer = streams.call((Instant::now(), None), address, &Operation::set(b"key", b"value"));
    assert!(matches!(answer, Err(Error::TimedOut { .. })), "{answer:?}");
    assert!(streams.stream.is_none());
}

/// As after a restart of the server: the connection that it had closed is not written to.
#[test]
fn a_closed_connection_is_replaced_before_a_store() {
    let (address, served) = server(&["STORED\r\n", "STORED\r\n", "STORED\r\n"]);
    let mut streams = streams();
    for _ in 0..3 {
        let answer =
            streams.call((Instant::now(), None), address, &Operation::set(b"key", b"value")).unwrap();
        assert_eq!(answer.outcome, Outcome::Ok);
        // The kernel tells of the end in its own time.
        while streams.stream.as_ref().is_some_and(Stream::is_idle) {
            thread::yield_now();
        }
    }
    served.join().unwrap();
}

#[test]
fn a_read_whose_connection_was_lost_is_repeated_once_and_a_store_is_not() {
    let reads = [Operation::get(b"key"), Operation::gets(b"key"), Operation::get_and_touch(b"key", 5)];
    for read in reads {
        let (address, served) = server(&["", "VALUE key 7 1 9\r\nx\r\nEND\r\n"]);
        let answer = streams().call((Instant::now(), None), address, &read).unwrap();
        assert_eq!((answer.value.bytes, answer.value.flags), (b"x".to_vec(), 7));
        served.join().unwrap();
        let (address, served) = server(&["", ""]);
        let lost = streams().call((Instant::now(), None), address, &read);
        // The item may have been touched.
        match read.opcode {
            Opcode::GetAndTouch => assert!(matches!(lost, Err(Error::OutcomeUnknown)), "{lost:?}"),
            _ => assert!(matches!(lost, Err(Error::Stream { .. })), "{lost:?}"),
        }
        served.join().unwrap();
    }
    let (address, served) = server(&[""]);
    let lost = streams().call((Instant::now(), None), address, &Operation::set(b"key", b"value"));
    assert!(matches!(lost, Err(Error::OutcomeUnknown)), "{lost:?}");
    served.join().unwrap();
}

/// The server may have executed what it answers in a way that is not known. What it refuses it has not.
#[test]
fn an_unknown_reply_to_a_change_has_an_unknown_outcome() {
    let cases: [(&[&str; 2], bool); 3] =
        [(&["HELLO\r\n"; 2], false), (&["SERVER_ERROR no\r\n"; 2], true), (&["ERROR\r\n"; 2], true)];
    for (replies, is_refusal) in cases {
        // A get-and-touch is repeated.
        for (change, count) in
            [(Operation::set(b"key", b"value"), 1), (Operation::get_and_touch(b"key", 5), 2)]
        {
            let (address, served) = server(&replies[..count]);
            let answer = streams().call((Instant::now(), None), address, &change);
            match is_refusal {
                true => assert!(matches!(answer, Err(Error::Stream { .. })), "{replies:?}: {answer:?}"),
                false => assert!(matches!(answer, Err(Error::OutcomeUnknown)), "{replies:?}: {answer:?}"),
            }
            served.join().unwrap();
        }
    }
}

/// Calls that wait for their turn while the server does not answer another one are not sent.
#[test]
fn many_calls_wait_for_one_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut streams = streams_within(Duration::from_millis(50));
    let began = Instant::now();
    let (get, set) = (Operation::get(b"key"), Operation::set(b"key", b"value"));
    let first = streams.call((began, None), address, &get);
    assert!(matches!(&first, Err(Error::TimedOut { server }) if server == "name"), "{first:?}");
    for _ in 0..1000 {
        let got = streams.call((began, None), address, &get);
        assert!(matches!(&got, Err(Error::TimedOut { server }) if server == "name"), "{got:?}");
        let stored = streams.call((began, None), address, &set);
        assert!(matches!(&stored, Err(Error::Unreachable { server }) if server == "name"), "{stored:?}");
    }
    let bad = streams.call((began, None), address, &Operation::get(b"not text"));
    assert!(matches!(bad, Err(Error::KeyNotText)), "{bad:?}");
    // A later call is sent.
    let set = streams.call((Instant::now(), None), address, &set);
    assert!(matches!(set, Err(Error::TimedOut { .. })), "{set:?}");
    assert_eq!(listener.incoming().take(2).filter(Result::is_ok).count(), 2);
}

/// A value that the server does not even take costs one deadline, too: the others are not sent.
#[test]
fn values_longer_than_the_buffers_of_sockets_wait_for_one_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    setsockopt(&listener, RcvBuf, &(64 << 10)).unwrap();
    let address = listener.local_addr().unwrap();
    let mut streams = streams_within(Duration::from_millis(50));
    let value = vec![b'v'; 8 << 20];
    let (began, set) = (Instant::now(), Operation::set(b"key", &value));
    let first = streams.call((began, None), address, &set);
    assert!(matches!(first, Err(Error::Stream { .. })), "{first:?}");
    for _ in 0..100 {
        let other = streams.call((began, None), address, &set);
        assert!(matches!(other, Err(Error::Unreachable { .. })), "{other:?}");
    }
    // A later call is sent.
    let later = streams.call((Instant::now(), None), address, &set);
    assert!(matches!(later, Err(Error::Stream { .. })), "{later:?}");
    assert_eq!(listener.incoming().take(2).filter(Result::is_ok).count(), 2);
}

/// A server that sends its reply slowly is not silent: it is asked for the other keys of the batch.
#[test]
fn a_slow_server_is_asked_for_the_others() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let served = thread::spawn(move || {
        let (mut slow, _) = listener.accept().unwrap();
        slow.write_all(b"VALUE key 7 1000000 9\r\n").unwrap();
        while slow.write_all(b"v").is_ok() {
            thread::sleep(Duration::from_millis(5));
        }
        let (mut next, _) = listener.accept().unwrap();
        next.write_all(b"END\r\n").unwrap();
        next
    });
    let mut streams = streams_within(Duration::from_secs(1));
    let (began, get) = (Instant::now(), Operation::get(b"key"));
    let slow = streams.call((began, None), address, &get);
    assert!(matches!(slow, Err(Error::TimedOut { .. })), "{slow:?}");
    assert_eq!(streams.call((began, None), address, &get).unwrap().outcome, Outcome::NotFound);
    drop(served.join().unwrap());
}

/// A server takes a value whose length it cannot read for further requests.
#[test]
fn a_value_that_the_protocol_cannot_announce_is_not_sent() {
    let value = vec![0; i32::MAX as usize - 1];
    let address = "127.0.0.1:9".parse().unwrap();
    let stored = streams().call((Instant::now(), None), address, &Operation::set(b"key", &value));
    assert!(matches!(stored, Err(Error::TooLarge { limit_bytes: None })), "{stored:?}");
}
