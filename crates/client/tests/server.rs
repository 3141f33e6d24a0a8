//! The blocking client and the link, against a real server over real sockets.

mod calls;
mod common;
#[path = "server/failures.rs"]
mod failures;

use common::Server;
use micanite_client::{
    Batch, CasOutcome, Client, Error, Link, Operation, Options, Outcome, ServerAddress, UdpOptions,
};
use std::collections::HashSet;

#[test]
fn server_process() {
    common::serve_if_child();
}

#[test]
fn every_call_works() -> Result<(), Error> {
    let server = Server::start("-t 2");
    let mut client = Client::connect(&server.native)?;
    calls::every_call_works(&mut client)?;
    assert_eq!(client.link().unwrap().counters().bogus, 0);
    Ok(())
}

#[test]
fn expiries_are_seconds_from_now() -> Result<(), Error> {
    let server = Server::start("-t 2");
    calls::expiries_are_seconds_from_now(&mut Client::connect(&server.native)?, |key| server.ttl_s(key))
}

/// Each key has its own result, even if another one is bad or its server is dead.
#[test]
fn a_bad_key_or_a_dead_server_takes_no_other_value_away() -> Result<(), Error> {
    let servers = [Server::start("-t 1"), Server::start("-t 1")];
    let named = servers.iter().fold(Client::builder(), |list, server| list.server(&server.native));
    let mut client = named.options(Options { deadline_ns: 3_000_000_000, ..Options::default() }).connect()?;
    let keys: Vec<_> = (0..100).map(|number| format!("key {number}").into_bytes()).collect();
    for key in &keys {
        client.set(key, key, 0, 0)?;
    }
    let mut names: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    names.push(b"");
    let [_living, dead] = servers;
    let (name, mut dead) = (dead.native.clone(), Some(dead));
    for is_dead in [false, true] {
        let mut lost = 0;
        for (key, found) in names.iter().zip(client.get_each(&names)) {
            match found {
                Ok(value) => assert_eq!(value.unwrap().bytes, *key),
                Err(Error::BadKey) => assert!(key.is_empty()),
                Err(Error::TimedOut { server } | Error::Unreachable { server }) => {
                    assert_eq!((server, is_dead), (name.clone(), true));
                    lost += 1;
                }
                Err(other) => panic!("{other}"),
            }
        }
        assert!(lost < 90 && (lost > 10) == is_dead, "{lost}");
        drop(dead.take());
    }
    Ok(())
}

#[test]
fn long_values_go_over_the_stream() -> Result<(), Error> {
    let server = Server::start("-t 2");
    let mut client = Client::connect(&server.native)?;
    for length in [1, 1380, 1400, 1424, 1430, 1472, 5_000, 100_000, 1_000_000] {
        let value: Vec<u8> = (0..length).map(|at| (at * 31 % 251) as u8).collect();
        client.set(b"long", &value, 9, 0)?;
        let found = client.gets(b"long")?.unwrap();
        assert_eq!((found.bytes == value, found.flags), (true, 9), "{length}");
        let unique = found.cas.unwrap();
        assert_eq!(client.cas(b"long", &value, unique, (1, 0))?, CasOutcome::Stored);
        assert_eq!(client.cas(b"long", &value, unique, (1, 0))?, CasOutcome::Exists);
        assert!(client.append(b"long", &[b'x'; 3000])?);
        assert_eq!(client.get_and_touch(b"long", 0)?.unwrap().bytes.len(), length + 3000);
    }
    let too_long = vec![0; 2 << 20];
    assert!(matches!(client.set(b"long", &too_long, 0, 0), Err(Error::TooLarge { .. })));
    client.set(b"long", b"short", 0, 0)?;
    assert!(matches!(client.set(b"not text", &[0; 5000], 0, 0), Err(Error::KeyNotText)));
    client.set(b"not text", b"but short", 0, 0)?;
    assert_eq!(client.get(b"not text")?.unwrap().bytes, b"but short");
    Ok(())
}

/// Long values of a batch wait for a server that stands still once, and not once for each; those of another
/// server are stored. What was not sent is told as such.
#[test]
fn long_values_of_a_batch_wait_for_one_deadline() -> Result<(), Error> {
    let servers = [Server::start("-t 1"), Server::start("-t 1")];
    let named = servers.iter().fold(Client::builder(), |list, server| list.server(&server.native));
    let mut client = named.options(Options { deadline_ns: 2_000_000_000, ..Options::default() }).connect()?;
    let keys: Vec<_> = (0..40).map(|number| format!("key{number}").into_bytes()).collect();
    let value = vec![b'v'; 100_000];
    let sets: Vec<_> = keys.iter().map(|key| Operation::set(key, &value)).collect();
    assert!(client.batch(&sets).iter().all(Result::is_ok));
    let driver = client.link().unwrap().driver();
    let owners: Vec<_> = keys.iter().map(|key| driver.server_of(key)).collect();
    servers[0].stop();
    let answers = client.batch(&sets);
    servers[0].resume();
    let mut lost = Vec::new();
    for (answer, owner) in answers.into_iter().zip(owners) {
        match owner {
            0 => lost.push(answer.unwrap_err()),
            _ => assert_eq!(answer?.outcome, Outcome::Ok),
        }
    }
    assert!(lost.len() > 5 && matches!(lost[0], Error::TimedOut { .. }), "{lost:?}");
    let name = &servers[0].native;
    let unsent = |error: &Error| matches!(error, Error::Unreachable { server } if server == name);
    assert!(lost[1..].iter().all(unsent), "{lost:?}");
    Ok(())
}

#[test]
fn many_at_once() -> Result<(), Error> {
    let server = Server::start("-t 2");
    let mut client = Client::connect(&server.native)?;
    let keys: Vec<_> = (0..5000).map(|number| format!("key {number}").into_bytes()).collect();
    let sets: Vec<_> = keys.iter().map(|key| Operation::set(key, key)).collect();
    assert!(client.batch(&sets).iter().all(Result::is_ok));
    let wanted: Vec<&[u8]> = keys.iter().map(Vec::as_slice).chain([&b"none"[..]]).collect();
    let found = client.multi_get(&wanted)?;
    for (key, value) in keys.iter().zip(&found) {
        assert_eq!(value.as_ref().map(|value| &value.bytes), Some(key));
    }
    assert_eq!(found.last(), Some(&None));
    let counters = client.link().unwrap().counters();
    let sent = counters.sent - counters.resent;
    assert!(sent < 2000, "datagrams carry many: {sent}");
    Ok(())
}

#[test]
fn unreachable_servers_return_an_error() {
    // Bound and silent, so that no other program can answer.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let name = silent.local_addr().unwrap().to_string();
    let error = Client::connect(&name).unwrap_err();
    assert!(matches!(&error, Error::Unreachable { server } if *server == name));
    assert!(error.to_string().contains("--native"));
    assert!(matches!(Client::connect("nonsense"), Err(Error::Address { .. })));
    assert!(matches!(Client::builder().connect(), Err(Error::Address { .. })));
}

#[test]
fn a_list_survives_a_dead_server() -> Result<(), Error> {
    let servers: Vec<_> = (0..3).map(|_| Server::start("-t 1")).collect();
    let options = Options {
        // The dead server costs some time, and a live one may stall for a while.
        deadline_ns: 3_000_000_000,
        ..Options::default()
    };
    let named = servers.iter().fold(Client::builder(), |list, server| list.server(&server.native));
    let mut client = named.options(options).connect()?;
    let keys: Vec<_> = (0..300).map(|number| format!("key {number}").into_bytes()).collect();
    for key in &keys {
        client.set(key, key, 0, 0)?;
    }
    let mut servers = servers.into_iter();
    let dead = servers.next().unwrap().native.clone();
    let (mut kept, mut lost) = (0, 0);
    for key in &keys {
        match client.get(key) {
            Ok(Some(value)) => kept += u32::from(value.bytes == *key),
            Ok(None) => panic!("a key of a living server is gone"),
            Err(Error::TimedOut { server } | Error::Unreachable { server }) => {
                assert_eq!(server, dead);
                lost += 1;
            }
            Err(other) => return Err(other),
        }
    }
    assert!(kept > 100 && lost > 30 && kept + lost == 300);
    Ok(())
}

#[test]
fn a_link_completes_each_token_once() -> Result<(), Error> {
    let server = Server::start("-t 2");
    for batch in [Batch::Fixed(1), Batch::Fixed(16), Batch::Full, Batch::Adaptive] {
        let servers = [ServerAddress::resolve(&server.native)?];
        let options = Options { batch, ..Options::default() };
        let mut link = Link::connect(&servers, options, &UdpOptions::default())?;
        let (mut next, mut ended) = (0_u64, HashSet::new());
        while ended.len() < 20_000 {
            let now_ns = link.now_ns();
            while next < 20_000 {
                let key = (next % 100).to_le_bytes();
                let operation = match next % 3 {
                    0 => Operation::set(&key, &key),
                    _ => Operation::get(&key),
                };
                if link.submit(now_ns, &operation, next).is_err() {
                    break;
                }
                next += 1;
            }
            let before = ended.len();
            link.poll(now_ns, |completion| {
                assert!(matches!(completion.outcome, Outcome::Ok | Outcome::NotFound));
                assert!(ended.insert(completion.token));
            })?;
            if ended.len() == before {
                link.wait(1_000_000)?;
            }
        }
        assert_eq!(link.driver().pending(), 0);
    }
    Ok(())
}
