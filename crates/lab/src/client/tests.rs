//! The client against a server that is scripted: what it must count and what it must refuse.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;

use super::*;

/// What the scripted server does wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// The value of another key.
    WrongValue,
    /// One reply too many.
    Surplus,
    /// The end of the connection instead of a reply.
    Close,
    /// A refusal instead of a value.
    Refusal,
}

/// Serves one connection: items are stored by their keys, values are the keys over and over;
/// replies leave in pieces of `piece_bytes`.
fn serve(fault: Fault, piece_bytes: usize) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        // The client leaves as soon as it has seen a fault.
        let _ = converse(stream, fault, piece_bytes);
    });
    (address, thread)
}

fn converse(mut stream: TcpStream, fault: Fault, piece_bytes: usize) -> std::io::Result<()> {
    let mut input = BufReader::new(stream.try_clone()?);
    let (mut stored, mut line) = (HashSet::new(), String::new());
    while input.read_line(&mut line)? > 0 {
        let mut words = line.split_ascii_whitespace();
        let mut reply = String::new();
        if words.next() == Some("set") {
            let key = words.next().unwrap().to_owned();
            let value_bytes: usize = words.last().unwrap().parse().unwrap();
            let mut body = vec![0; value_bytes + 2];
            input.read_exact(&mut body)?;
            assert_eq!(&body[..key.len()], key.as_bytes());
            stored.insert(key);
            reply.push_str("STORED\r\n");
        } else {
            for key in words.filter(|key| stored.contains(*key)) {
                let value = if fault == Fault::WrongValue {
                    "key-ffffffffffff"
                } else {
                    key
                };
                reply.push_str(&format!("VALUE {key} 0 32\r\n{value}{value}\r\n"));
            }
            reply.push_str("END\r\n");
            match fault {
                Fault::Close => return Ok(()),
                Fault::Refusal => reply = "SERVER_ERROR out of memory\r\n".to_owned(),
                Fault::Surplus => reply.push_str("END\r\n"),
                _ => {}
            }
        }
        for piece in reply.as_bytes().chunks(piece_bytes) {
            stream.write_all(piece)?;
        }
        line.clear();
    }
    Ok(())
}

fn workload(mix: Mix, pipeline: usize, items: std::ops::Range<u32>) -> Workload {
    Workload {
        mix,
        pipeline,
        key_bytes: KEY_BYTES_MAX,
        value_bytes: 32,
        items: Arc::new(items.collect()),
    }
}

/// Sets a connection's items 0 to 15, then asks for items 0 to 31 with another mix.
fn set_then_get(mix: Mix, fault: Fault, piece_bytes: usize) -> Result<Tally> {
    let (address, thread) = serve(fault, piece_bytes);
    let sets = workload(Mix::Single { set_percent: 100 }, 4, 0..16);
    let mut client = Client::connect(address, 1, &sets)?;
    let tally = client.run_operations(16)?;
    assert_eq!((tally.operations, tally.misses), (16, 0));
    client.connections[0].exchange_workload(workload(mix, 8, 0..32));
    let tally = client.run_operations(32);
    drop(client);
    thread.join().unwrap();
    tally
}

const GETS: Mix = Mix::Single { set_percent: 0 };

#[test]
fn hits_and_misses_are_counted_however_replies_are_cut() {
    for mix in [GETS, Mix::MultiGet] {
        for piece_bytes in [1, 7, 4096] {
            let tally = set_then_get(mix, Fault::None, piece_bytes).unwrap();
            assert_eq!((tally.operations, tally.misses), (32, 16), "{mix:?}");
            assert_eq!(tally.latency_ns.len(), 4);
        }
    }
}

#[test]
fn what_is_wrong_ends_the_run() {
    for mix in [GETS, Mix::MultiGet] {
        for fault in [
            Fault::WrongValue,
            Fault::Surplus,
            Fault::Close,
            Fault::Refusal,
        ] {
            assert!(set_then_get(mix, fault, 4096).is_err(), "{mix:?}");
        }
    }
}

#[test]
fn quantiles_of_latencies() {
    let mut tally = Tally {
        latency_ns: (0..=100).rev().map(|n| n * 1000).collect(),
        ..Tally::default()
    };
    assert_eq!(tally.latency_us(0.5), 50.0);
    assert_eq!(tally.latency_us(0.99), 99.0);
    assert!(Tally::default().latency_us(0.5).is_nan());
}
