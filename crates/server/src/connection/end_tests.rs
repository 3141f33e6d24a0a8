//! Ends of conversations: all replies, then the end.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use micanite_net::{ByteStream, Stream};
use micanite_wire::memcache::binary::REQUEST_MAGIC;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{RcvBuf, SndBuf};
use proptest::prelude::*;
use proptest::sample::Index;

use super::{Connection, Next};
use crate::limits::{HALF_CLOSED_MS_MAX, INPUT_BYTES, TURN_INPUT_BYTES_MAX};
use crate::testing::{Bench, Script};

/// Keys with values of these lengths: of a line, of most of an input, and of a value buffer.
const VALUES: [(&str, usize); 3] = [("s", 100), ("m", 15_000), ("l", 200_000)];
/// Requests of a conversation, and those that end one.
type Requests = (Vec<Vec<u8>>, Vec<Vec<u8>>);

fn set(key: &str, bytes: usize, word: &str) -> Vec<u8> {
    let line = format!("set {key} 0 0 {bytes}{word}\r\n");
    [line.as_bytes(), &vec![b'v'; bytes], b"\r\n"].concat()
}

fn bench() -> Bench {
    let mut bench = Bench::new("");
    for (key, bytes) in VALUES {
        assert_eq!(bench.replies(&set(key, bytes, "")), b"STORED\r\n");
    }
    bench
}

fn binary(opcode: u8, key: &[u8]) -> Vec<u8> {
    let [high, low] = (key.len() as u16).to_be_bytes();
    [&[REQUEST_MAGIC, opcode, high, low, 0, 0, 0, 0, 0, 0, high, low], &[0; 12], key].concat()
}

fn text() -> Requests {
    let lines = ["get s", "get m s", "get l", "get l s l none", "mg l k v", "mn", "bogus"];
    let mut requests: Vec<_> = lines.iter().map(|line| format!("{line}\r\n").into_bytes()).collect();
    requests.extend([set("n", 50_000, " noreply"), set("n", 50_000, "")]);
    let closing = vec![
        b"quit\r\n".to_vec(),
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\nget s\r\n".to_vec(),
        [b"get ".as_slice(), &[b'k'; INPUT_BYTES]].concat(),
        vec![b'x'; 3000],
    ];
    (requests, closing)
}

fn binaries() -> Requests {
    let requests = ["s", "m", "l", "none"].map(|key| binary(0, key.as_bytes()));
    // quit, quitq, a key that is too long, and a byte that begins no request.
    let closing = [binary(7, b""), binary(0x17, b""), binary(0, &[b'k'; 2000]), b"get s\r\n".to_vec()];
    ([&requests[..], &[binary(0x0a, b"")]].concat(), closing.into())
}

/// Cuts an input into pieces.
fn cut(input: &[u8], cuts: &[Index]) -> Vec<Vec<u8>> {
    let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(input.len())).collect();
    cuts.extend([0, input.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| input[pair[0]..pair[1]].to_vec()).collect()
}

/// Drives a conversation whose client reads `step_bytes` whenever the server has to wait for it. Returns what
/// the client got until the end.
fn converse(bench: &mut Bench, mut script: Script, step_bytes: usize) -> Vec<u8> {
    script.output_bytes_max = step_bytes;
    let mut connection = Connection::new(script);
    let mut readable = true;
    for _ in 0..10_000 {
        let next = bench.turn(&mut connection, readable);
        readable = next == Next::Read;
        let script = &mut connection.stream;
        match next {
            Next::Write => script.output_bytes_max += step_bytes,
            Next::Read => {
                assert!(script.has_input(), "it waits for input after {} bytes", script.output.len())
            }
            Next::Again => {}
            Next::Wait { .. } => panic!("there is a value buffer"),
            Next::Close => {
                assert!(script.output_ended, "it ends without an end");
                let output = std::mem::take(&mut script.output);
                connection.release(&mut bench.buffers);
                assert_eq!(bench.buffers.values.lent_bytes(), 0);
                return output;
            }
        }
    }
    panic!("it never ends");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]
    /// Whatever stands before a closing request, however the input is cut, and however slowly the client
    /// reads.
    #[test]
    fn a_closing_request_gives_all_replies_and_then_the_end(
        is_binary in any::<bool>(),
        chosen in prop::collection::vec(any::<Index>(), 0..8),
        closing in any::<Index>(),
        cuts in prop::collection::vec(any::<Index>(), 0..4),
        requests_max in prop::sample::select(&[1, 3, 1000][..]),
        (step_bytes, send_bytes_max) in (1_000..400_000_usize, 500..400_000_usize),
    ) {
        let mut bench = bench();
        let (requests, closings) = if is_binary { binaries() } else { text() };
        let mut parts: Vec<_> = chosen.iter().map(|index| index.get(&requests).clone()).collect();
        parts.push(closing.get(&closings).clone());
        // The protocol is decided by what comes first.
        if is_binary {
            parts.insert(0, binary(0x0a, b""));
        }
        let expected: Vec<_> = parts.iter().map(|part| {
            let begun = if is_binary { binary(0x0a, b"") } else { b"mn\r\n".to_vec() };
            let replies = bench.replies(&[&begun[..], part].concat());
            replies[if is_binary { 24 } else { 4 }..].to_vec()
        }).collect();
        bench.requests_max = requests_max;
        let mut script = Script::of(cut(&parts.concat(), &cuts));
        script.send_bytes_max = send_bytes_max;
        let output = converse(&mut bench, script, step_bytes);
        prop_assert!(output == expected.concat(), "{} of {} bytes", output.len(), expected.concat().len());
    }
}

/// A server that ends closes connections whose clients have sent more: replies that a slow client has not
/// received yet are not taken back.
#[test]
fn a_close_takes_no_replies_back() {
    const BYTES: usize = 300_000;
    let mut bench = bench();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    setsockopt(&client, RcvBuf, &4096).unwrap();
    let accepted = listener.accept().unwrap().0;
    setsockopt(&accepted, SndBuf, &(4 * BYTES)).unwrap();
    let mut connection = Connection::new(Stream::tcp(accepted).unwrap());
    let mut sent = 0;
    while sent < BYTES {
        sent += connection.stream.send(&[b'v'; BYTES][sent..]).unwrap();
    }
    client.write_all(b"get s\r\n").unwrap();
    // The request lies in the server's socket now: loopback delivers at once.
    connection.prepare_close(&mut bench.buffers);
    connection.release(&mut bench.buffers);
    let mut received = Vec::new();
    client.read_to_end(&mut received).unwrap();
    assert_eq!(received.len(), BYTES);
}

/// The reply to a refused request is not lost to a reset: its input is discarded until the peer ends, for a
/// bounded time.
#[test]
fn input_behind_the_end_is_discarded_until_the_peer_ends() {
    let mut bench = bench();
    for (request, reply) in
        [(b"quit\r\n".to_vec(), 0), (binary(0, &[b'k'; 251]), 24 + "Invalid arguments".len())]
    {
        let mut script = Script::of([request]);
        script.stays = true;
        let mut connection = Connection::new(script);
        assert_eq!(bench.turn(&mut connection, true), Next::Read);
        assert!(
            connection.stream.output_ended && connection.is_half_closed() && !connection.delays_an_end(0)
        );
        assert_eq!(connection.stream.output.len(), reply);
        connection.stream.input.extend([b"get s\r\n".to_vec(), vec![b'x'; TURN_INPUT_BYTES_MAX]]);
        assert_eq!(bench.turn(&mut connection, true), Next::Again);
        assert_eq!(bench.turn(&mut connection, false), Next::Read);
        assert!(!connection.is_half_closed_for_long(bench.now_ms + HALF_CLOSED_MS_MAX - 1));
        assert!(connection.is_half_closed_for_long(bench.now_ms + HALF_CLOSED_MS_MAX));
        connection.stream.stays = false;
        assert_eq!(bench.turn(&mut connection, true), Next::Close);
        connection.release(&mut bench.buffers);
    }
}
