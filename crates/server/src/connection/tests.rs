//! Connections whose peers read slowly, stop, or hold value buffers that others wait for.

use super::{Connection, Next};
use crate::limits::{OUTPUT_BYTES, TURN_OUTPUT_BYTES_MAX};
use crate::output::Output;
use crate::testing::{Bench, Script};

fn set(key: &str, bytes: usize) -> Vec<u8> {
    let mut request = format!("set {key} 0 0 {bytes}\r\n").into_bytes();
    request.resize(request.len() + bytes, b'v');
    request.extend_from_slice(b"\r\n");
    request
}

fn open(input: impl IntoIterator<Item = Vec<u8>>) -> Connection<Script> {
    Connection::new(Script::of(input))
}

#[test]
fn a_request_is_one_recv_and_one_send() {
    let mut bench = Bench::new("");
    bench.replies(&set("a", 100));
    let pipeline = b"get a\r\n".repeat(32);
    for input in [b"get a\r\n".to_vec(), b"get a none a\r\n".to_vec(), pipeline] {
        let mut connection = open([input]);
        assert_eq!(bench.turn(&mut connection, true), Next::Read);
        let script = connection.stream();
        assert_eq!((script.recvs, script.sends), (1, 1));
        assert!(!connection.delays_an_end(u64::MAX));
        connection.release(&mut bench.buffers);
    }
}

#[test]
fn a_silent_store_sends_nothing() {
    let mut bench = Bench::new("");
    let mut connection = open([b"set a 0 0 1 noreply\r\nx\r\n".to_vec()]);
    assert_eq!(bench.turn(&mut connection, true), Next::Read);
    assert_eq!((connection.stream().recvs, connection.stream().sends), (1, 0));
    connection.release(&mut bench.buffers);
}

#[test]
fn a_peer_that_does_not_read_is_stopped_and_loses_nothing() {
    let mut bench = Bench::new("");
    bench.replies(&set("a", 1000));
    let requests = 5000;
    let mut connection = open([b"get a\r\n".repeat(requests)]);
    connection.stream.output_bytes_max = 0;
    assert_eq!(bench.drive(&mut connection), Next::Write);
    // It has read one block of requests, and keeps one block of replies.
    let taken = connection.stream().recvs;
    assert_eq!(taken, 1);
    assert_eq!(bench.turn(&mut connection, true), Next::Write);
    assert_eq!(connection.stream().recvs, taken);

    // The peer reads a little, then everything.
    connection.stream.output_bytes_max = 10;
    assert_eq!(bench.drive(&mut connection), Next::Write);
    connection.stream.output_bytes_max = usize::MAX;
    connection.stream.send_bytes_max = 7001;
    assert_eq!(bench.drive(&mut connection), Next::Read);
    let one = [b"VALUE a 0 1000\r\n".as_slice(), &[b'v'; 1000], b"\r\nEND\r\n"].concat();
    assert!(connection.stream().output == one.repeat(requests));
    assert!(!connection.delays_an_end(u64::MAX));
    connection.release(&mut bench.buffers);
}

#[test]
fn one_turn_has_an_end() {
    let mut bench = Bench::new("max-requests-per-event = 10");
    bench.replies(&set("a", 10));
    let mut connection = open([b"get a\r\n".repeat(25)]);
    let nexts = [true, false, false].map(|readable| bench.turn(&mut connection, readable));
    assert_eq!(nexts, [Next::Again, Next::Again, Next::Read]);
    assert_eq!(connection.stream().sends, 3);
    let totals = bench.server.totals();
    assert_eq!((totals.cmd_get, totals.conn_yields), (25, 2));

    // Large replies end a turn before its requests do.
    bench.replies(&set("b", 12_000));
    bench.requests_max = 1000;
    let mut connection = open([b"get b\r\n".repeat(60)]);
    assert_eq!(bench.turn(&mut connection, true), Next::Again);
    assert!(connection.stream().output.len() <= 5 * OUTPUT_BYTES);
    assert_eq!(bench.drive(&mut connection), Next::Read);
    assert_eq!(connection.stream().output.len(), 60 * (12_000 + b"VALUE b 0 12000\r\n\r\nEND\r\n".len()));
}

#[test]
fn a_turn_of_one_request_gets_through_long_values() {
    let mut bench = Bench::new("max-requests-per-event = 1");
    let input = [set("a", 100_000), b"get a a a\r\nget a\r\n".to_vec()].concat();
    let replies = bench.replies(&input);
    assert_eq!(
        replies.len(),
        b"STORED\r\nEND\r\nEND\r\n".len() + 4 * (100_000 + b"VALUE a 0 100000\r\n\r\n".len())
    );
}

#[test]
fn long_bodies_wait_for_their_turn_and_all_arrive() {
    let mut bench = Bench::new("value-buffers = '1500k'\nmax-item-size = '1m'");
    let mut connections: Vec<_> = ["a", "b", "c"]
        .map(|key| {
            let request = set(key, 1 << 20);
            let (first, rest) = request.split_at(1000);
            open([first.to_vec(), rest.to_vec()])
        })
        .into();
    assert_eq!(bench.turn(&mut connections[0], true), Next::Read);
    let bytes = set("b", 1 << 20).len();
    for waiting in &mut connections[1..] {
        assert_eq!(bench.turn(waiting, true), Next::Wait { bytes });
        assert_eq!(bench.turn(waiting, false), Next::Wait { bytes });
        assert_eq!(waiting.stream().recvs, 1);
    }
    for mut connection in connections {
        assert!(bench.buffers.values.can_take(bytes) || bench.buffers.values.lent_bytes() > 0);
        assert_eq!(bench.drive(&mut connection), Next::Read);
        assert_eq!(connection.stream().output, b"STORED\r\n");
        connection.release(&mut bench.buffers);
    }
    assert_eq!(bench.buffers.values.lent_bytes(), 0);
}

#[test]
fn only_a_holder_that_does_not_move_enough_has_stalled() {
    let mut bench = Bench::new("");
    bench.replies(&set("a", 100_000));
    bench.now_ms = 5000;
    let mut reader = open([b"get a\r\n".to_vec()]);
    reader.stream.output_bytes_max = 10;
    assert_eq!(bench.turn(&mut reader, true), Next::Write);
    let mut writer = open([set("b", 100_000)[..50_000].to_vec()]);
    assert_eq!(bench.turn(&mut writer, true), Next::Read);
    let idle = open([]);
    for (connection, stalls) in [(&reader, true), (&writer, true), (&idle, false)] {
        assert!(!connection.has_stalled(14_999));
        assert_eq!(connection.has_stalled(15_000), stalls);
    }
    bench.now_ms = 9000;
    reader.stream.output_bytes_max = 20;
    assert_eq!(bench.turn(&mut reader, false), Next::Write);
    assert!(!reader.has_stalled(14_999));
    // A byte now and then is not enough: 20 of them allow no second more than none would.
    for now_ms in [14_000, 19_000] {
        bench.now_ms = now_ms;
        reader.stream.output_bytes_max += 10;
        assert_eq!(bench.turn(&mut reader, false), Next::Write);
        assert_eq!(reader.has_stalled(now_ms), now_ms > 15_000);
    }
    // 50,000 bytes in the first moment allow 0.76 s more, but bytes have to move in between.
    writer.stream.input.push_back(b"x".to_vec());
    assert_eq!(bench.turn(&mut writer, true), Next::Read);
    assert!(!writer.has_stalled(15_700));
    assert!(writer.has_stalled(15_800));
    for connection in [reader, writer, idle] {
        connection.release(&mut bench.buffers);
    }
    assert_eq!(bench.buffers.values.lent_bytes(), 0);
}

/// Proves that half a line is nothing to wait for, and that a value has its time as long as bytes of it come.
#[test]
fn an_end_waits_for_values_that_move_and_for_replies() {
    let mut bench = Bench::new("");
    bench.replies(&set("a", 100_000));
    for value_bytes in [1000, 100_000] {
        bench.now_ms = 5000;
        let mut writer = open([set("b", value_bytes)[..500].to_vec()]);
        assert_eq!(bench.turn(&mut writer, true), Next::Read);
        assert!(writer.delays_an_end(5199) && !writer.delays_an_end(5200), "{value_bytes}");
        bench.now_ms = 5150;
        writer.stream.input.push_back(b"x".to_vec());
        assert_eq!(bench.turn(&mut writer, true), Next::Read);
        assert!(writer.delays_an_end(5349) && !writer.delays_an_end(5350), "{value_bytes}");
        writer.release(&mut bench.buffers);
    }
    let mut reader = open([b"get a\r\n".to_vec()]);
    reader.stream.output_bytes_max = 10;
    assert_eq!(bench.turn(&mut reader, true), Next::Write);
    assert!(reader.delays_an_end(u64::MAX));
    reader.release(&mut bench.buffers);
    for line in ["", "g", "get a", "get a a "] {
        let mut half = open([line.into()]);
        assert_eq!(bench.turn(&mut half, true), Next::Read);
        assert!(!half.delays_an_end(bench.now_ms), "{line}");
        half.release(&mut bench.buffers);
    }
}

#[test]
fn a_long_value_takes_several_turns() {
    let mut bench = Bench::new("memory-limit = 64");
    bench.replies(&set("a", 1 << 20));
    let mut reader = open([b"get a\r\n".to_vec()]);
    let mut turns = 1;
    while bench.turn(&mut reader, turns == 1) == Next::Write {
        turns += 1;
    }
    assert_eq!(turns, (1usize << 20) / TURN_OUTPUT_BYTES_MAX + 1);
    let head = b"VALUE a 0 1048576\r\n".len();
    assert_eq!(reader.stream().output.len(), head + (1 << 20) + 7);
    reader.release(&mut bench.buffers);
}

#[test]
fn the_end_of_input_comes_after_its_replies() {
    let mut bench = Bench::new("");
    bench.replies(&set("a", 200_000));
    let mut script = Script::of([b"get a\r\nget a\r\nget none".to_vec()]);
    script.ends = true;
    script.send_bytes_max = 10_000;
    let replies = bench.replies_to(script);
    assert_eq!(replies.len(), 2 * (200_000 + b"VALUE a 0 200000\r\n\r\nEND\r\n".len()));
}

#[test]
fn an_output_continues_after_its_filled_bytes() {
    let mut bytes = *b"abcdef";
    let mut output = Output::new(&mut bytes, 2);
    output.push(b"X");
    assert_eq!((output.filled(), output.room()), (3, 3));
    assert_eq!(&bytes, b"abXdef");
}
