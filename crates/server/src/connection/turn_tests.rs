//! A turn ends when it has moved as many bytes as it may. The next one goes on where it stopped.

use micanite_wire::memcache::binary::REQUEST_MAGIC;

use super::{Connection, Next};
use crate::limits::TURN_INPUT_BYTES_MAX;
use crate::session::Session;
use crate::testing::{Bench, Script};

const VALUE_BYTES: usize = 900_000;
const REQUESTS: usize = 64;
/// Bytes that a turn counts besides values: items' heads, the turn itself, keys, bytes received and sent.
const BESIDE_BYTES: usize = 96 << 10;

fn bench() -> Bench {
    Bench::new("memory-limit = 64")
}

/// Stores a long value, with a byte to append to it.
fn store(bench: &mut Bench, key: &str) {
    let mut set = format!("set {key} 0 0 {VALUE_BYTES}\r\n").into_bytes();
    set.resize(set.len() + VALUE_BYTES, b'v');
    set.extend_from_slice(b"\r\n");
    assert_eq!(bench.replies(&set), b"STORED\r\n");
}

/// Drives a conversation to its end and checks every turn. Returns the replies, the number of turns, and the
/// bytes that they moved.
fn turns(bench: &mut Bench, input: Vec<u8>) -> (Vec<u8>, usize, usize) {
    let mut script = Script::of([input]);
    script.ends = true;
    let mut connection = Connection::with(script, Session::default());
    let (mut turns, mut moved_bytes) = (0, 0);
    loop {
        let next = bench.turn(&mut connection, true);
        let (moved, allowed) = bench.with_context(|context| {
            let cache = context.worker.cache();
            (context.worker.moved_bytes(), cache.turn_moved_bytes())
        });
        assert!(moved <= allowed + VALUE_BYTES + REQUESTS + BESIDE_BYTES, "{moved} bytes in one turn");
        turns += 1;
        moved_bytes += moved;
        match next {
            Next::Close => break,
            Next::Again | Next::Read => {}
            other => panic!("nothing else is waited for: {other:?}"),
        }
    }
    let output = connection.stream().output.clone();
    connection.release(&mut bench.buffers);
    (output, turns, moved_bytes)
}

fn binary(opcode: u8, key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![REQUEST_MAGIC, opcode, 0, key.len() as u8, 0, 0, 0, 0];
    bytes.extend(((key.len() + value.len()) as u32).to_be_bytes());
    bytes.extend([0; 12]);
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(value);
    bytes
}

/// Appends in each of the protocols, and what is answered to all of them.
fn appends() -> Vec<(Vec<u8>, Vec<u8>)> {
    let stored = b"STORED\r\n".repeat(REQUESTS);
    vec![
        (b"append a 0 0 1\r\nx\r\n".repeat(REQUESTS), stored.clone()),
        (b"prepend a 0 0 1\r\nx\r\n".repeat(REQUESTS), stored),
        (b"append a 0 0 1 noreply\r\nx\r\n".repeat(REQUESTS), Vec::new()),
        (b"ms a 1 MA\r\nx\r\n".repeat(REQUESTS), b"HD\r\n".repeat(REQUESTS)),
        (
            b"ms a 1 MA c\r\nx\r\n".repeat(REQUESTS),
            Vec::new(), // whatever the CAS values are
        ),
        (binary(0x19, b"a", b"x").repeat(REQUESTS), Vec::new()),
    ]
}

#[test]
fn no_turn_moves_more_than_it_may_and_one_item() {
    for (input, expected) in appends() {
        let mut bench = bench();
        store(&mut bench, "a");
        let (replies, turns, moved_bytes) = turns(&mut bench, input);
        if !expected.is_empty() {
            assert_eq!(String::from_utf8_lossy(&replies), String::from_utf8_lossy(&expected));
        }
        assert!(moved_bytes >= REQUESTS * VALUE_BYTES, "{moved_bytes} bytes");
        assert!(turns >= REQUESTS / 4, "{turns} turns");
        // Each was executed, and none twice.
        let header = format!("VALUE a 0 {}\r\n", VALUE_BYTES + REQUESTS);
        let value = bench.replies(b"get a\r\n");
        assert!(value.starts_with(header.as_bytes()));
    }
}

/// Requests of all kinds keep their places.
#[test]
fn the_order_is_kept_across_turns() {
    let mut bench = bench();
    store(&mut bench, "a");
    let round = b"append a 0 0 1\r\nx\r\nget none\r\nmn\r\nbogus\r\nms b 1 T9 c\r\ny\r\n\
        verbosity 0\r\nget none none none\r\n";
    let (all, _, _) = {
        let mut bench = self::bench();
        store(&mut bench, "a");
        turns(&mut bench, round.to_vec())
    };
    let (replies, turns, _) = turns(&mut bench, round.repeat(20));
    assert!(turns >= 20 / 4, "{turns} turns");
    let kinds = |replies: &[u8]| -> Vec<String> {
        let lines = String::from_utf8_lossy(replies).into_owned();
        let word = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
        lines.lines().map(word).collect()
    };
    assert_eq!(kinds(&replies), kinds(&all.repeat(20)));
}

/// A touch moves an item that was stored without an expiry.
#[test]
fn touches_of_long_items_take_several_turns() {
    for request in ["touch", "mg"] {
        let mut bench = bench();
        let keys: Vec<_> = (0..20).map(|number| format!("k{number}")).collect();
        keys.iter().for_each(|key| store(&mut bench, key));
        let line = |key: &String| match request {
            "touch" => format!("touch {key} 100\r\n"),
            _ => format!("mg {key} T100\r\n"),
        };
        let input: String = keys.iter().map(line).collect();
        let (replies, turns, moved_bytes) = turns(&mut bench, input.into_bytes());
        let replies = String::from_utf8_lossy(&replies).into_owned();
        assert_eq!(replies.lines().count(), 20, "{replies}");
        assert!(moved_bytes >= 20 * VALUE_BYTES && turns >= 5, "{turns}");
    }
}

/// A command of administration counts for many requests.
#[test]
fn a_turn_has_few_commands_of_administration() {
    for (command, is_binary) in [
        (&b"flush_all\r\n"[..], false),
        (b"flush_namespace n\r\n", false),
        (b"stats reset\r\n", false),
        (b"stats detail on\r\n", false),
        (b"refresh_certs\r\n", false),
        (&binary(0x08, b"", b""), true),
    ] {
        let mut bench = bench();
        let mut script = Script::of([command.repeat(64)]);
        script.ends = true;
        let mut connection = Connection::with(script, Session::default());
        let mut turns = 1;
        while bench.turn(&mut connection, true) == Next::Again {
            turns += 1;
        }
        assert!(turns >= 16, "{turns} turns of {command:?}");
        let output = connection.stream().output.clone();
        let replies = match is_binary {
            true => output.len() / 24,
            false => output.iter().filter(|byte| **byte == b'\n').count(),
        };
        assert_eq!(replies, 64);
        connection.release(&mut bench.buffers);
    }
}

/// A turn that has moved as much as it may begins no value that needs a buffer.
#[test]
fn a_turn_that_is_spent_begins_no_long_value() {
    const LONG_BYTES: usize = 20_000;
    const SHORT: usize = 3;
    for is_binary in [false, true] {
        let mut bench = bench();
        store(&mut bench, "a");
        let append = |value: &[u8]| match is_binary {
            true => binary(0x0e, b"a", value),
            false => {
                let line = format!("append a 0 0 {}\r\n", value.len());
                [line.as_bytes(), value, b"\r\n"].concat()
            }
        };
        let long = append(&[b'x'; LONG_BYTES]);
        let input = [append(b"x").repeat(SHORT), long].concat();
        let mut connection = Connection::with(Script::of([input]), Session::default());
        let reply_bytes = if is_binary { 24 } else { b"STORED\r\n".len() };
        assert_eq!(bench.turn(&mut connection, true), Next::Again);
        assert_eq!(connection.stream().output.len(), SHORT * reply_bytes);
        assert_eq!(bench.buffers.values.lent_bytes(), 0);
        assert_eq!(bench.drive(&mut connection), Next::Read);
        assert_eq!(connection.stream().output.len(), (SHORT + 1) * reply_bytes);
        connection.release(&mut bench.buffers);
    }
}

/// Keys that are looked up, and bytes received and sent, end a turn as moved bytes do. The next turn receives
/// the rest of the input without an event.
#[test]
fn lookups_and_received_bytes_end_a_turn() {
    let keys = format!("get{}\r\n", " k".repeat(500));
    let mut bench = bench();
    let script = Script::of([keys.repeat(100).into_bytes()]);
    let mut connection = Connection::with(script, Session::default());
    let (mut turns, mut before) = (0, 0);
    let mut readable = true;
    while connection.stream().output.len() < 100 * b"END\r\n".len() {
        let next = bench.turn(&mut connection, readable);
        readable = false;
        let looked_up = bench.server.totals().cmd_get - before;
        before += looked_up;
        assert!(looked_up <= 9000, "{looked_up} keys in one turn");
        assert!(matches!(next, Next::Again | Next::Read), "{next:?}");
        turns += 1;
        assert!(turns < 100);
    }
    assert_eq!(before, 50_000);
    connection.release(&mut bench.buffers);
}

/// A long value comes in pieces, so that others do not wait for all of it.
#[test]
fn a_turn_reads_a_piece_of_a_long_value() {
    let mut bench = bench();
    let mut set = format!("set a 0 0 {VALUE_BYTES}\r\n").into_bytes();
    set.resize(set.len() + VALUE_BYTES, b'v');
    set.extend_from_slice(b"\r\n");
    let mut connection = Connection::with(Script::of([set]), Session::default());
    let mut turns = 1;
    while bench.turn(&mut connection, turns == 1) == Next::Again {
        turns += 1;
    }
    // The last one looks whether there is more.
    let pieces = VALUE_BYTES.div_ceil(TURN_INPUT_BYTES_MAX);
    assert_eq!(turns, pieces + 1);
    assert_eq!(connection.stream().output, b"STORED\r\n");
    connection.release(&mut bench.buffers);
}
