//! The client over real libfabric, on loopback addresses. The server is a thread.

mod host;
#[path = "../../../../../fabric/tests/ports/mod.rs"]
mod ports;

use std::time::{Duration, Instant};

use host::Host;
use micanite_chunks::Entry;
use micanite_fabric::Provider;
use micanite_test_skip::skip;

use super::server::FakeServer;
use crate::client::{Builder, Client};
use crate::error::Error;
use crate::fabric::options::{FabricOptions, Reads};
use crate::options::Options;

const DEADLINE: Duration = Duration::from_secs(60);

/// The tests of a provider.
macro_rules! over {
    ($module:ident, $provider:literal, $($test:ident)*) => {
        mod $module {
            $(#[test] fn $test() { super::run($provider, super::$test); })*
        }
    };
    ($($module:ident $provider:literal)*) => {
        $(over!($module, $provider,
            gets_read_one_sided
            a_hot_writer_does_not_tear_values
            forged_entries_bring_no_wrong_value
            a_refused_read_makes_its_get_ask
            a_server_that_dies_is_found_again
            a_wrong_login_is_refused
        );)*
    };
}

over!(net "net;ofi_rxm" tcp "tcp;ofi_rxm");

/// Runs a test if libfabric has the provider: later versions dropped `net`, and gave its work to `tcp`.
fn run(name: &str, test: fn(&'static Provider)) {
    let provider = Provider::by_name(name).unwrap();
    match provider.probe() {
        Ok(()) => test(provider),
        Err(why) => skip(format_args!("{name}: {why}")),
    }
}

/// Connects with a deadline that a busy machine keeps, too.
fn connect(host: &Host, options: FabricOptions) -> Result<Client, Error> {
    let options = FabricOptions { deadline_ns: DEADLINE.as_nanos() as u64, ..options };
    Builder::default().server(&host.url()).fabric(options).connect()
}

fn one_sided(client: &Client) -> u64 {
    client.fabric_link().unwrap().counters().gets_one_sided
}

/// Proves that values of all lengths are read one-sided, and are right.
fn gets_read_one_sided(provider: &'static Provider) {
    let host = Host::start(provider, FakeServer::new());
    let mut client = connect(&host, FabricOptions::default()).unwrap();
    for bytes in [0, 1, 100, 1000, 32_000, 33_000, 500_000] {
        let value: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
        let key = format!("key {bytes}");
        client.set(key.as_bytes(), &value, 7, 0).unwrap();
        let before = one_sided(&client);
        for _ in 0..3 {
            let found = client.get(key.as_bytes()).unwrap().unwrap();
            assert!(found.bytes == value && found.flags == 7, "{bytes}");
        }
        // A busy machine may take longer than a lease.
        assert!(one_sided(&client) > before, "{bytes}: {:?}", client.fabric_link());
    }
    let keys: Vec<_> = (0..500).map(|number| format!("number {number}").into_bytes()).collect();
    for key in &keys {
        client.set(key, key, 0, 0).unwrap();
    }
    let wanted: Vec<_> = keys.iter().map(Vec::as_slice).collect();
    for _ in 0..2 {
        let found = client.multi_get(&wanted).unwrap();
        assert!(found.iter().zip(&keys).all(|(value, key)| value.as_ref().unwrap().bytes == *key));
    }
}

/// Proves that a value is of one moment, and never older than one that was read before, beside a writer.
fn a_hot_writer_does_not_tear_values(provider: &'static Provider) {
    let host = Host::start(provider, FakeServer::new());
    let mut client = connect(&host, FabricOptions::default()).unwrap();
    let write = |number: u64| {
        move |server: &mut FakeServer, now_ns: u64| {
            for key in 0..8_u64 {
                let length = 8 * (8 + (number + key) % 20 * if key == 0 { 1000 } else { 10 });
                let words = std::iter::repeat_n(number, length as usize / 8);
                let value: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
                server.set(&key.to_le_bytes(), &value, (0, 0), now_ns);
            }
        }
    };
    for number in 1..200 {
        host.with(write(number));
        for round in 0..24_u64 {
            let value = client.get(&(round % 8).to_le_bytes()).unwrap().unwrap().bytes;
            let mut words = value.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
            assert!(words.all(|word| word == number), "{number}");
        }
    }
    assert!(one_sided(&client) > 0);
}

/// Proves that entries that lead elsewhere bring no value, and break no connection.
fn forged_entries_bring_no_wrong_value(provider: &'static Provider) {
    let forgeries: [fn(Entry) -> Entry; 5] = [
        |entry| Entry { version: 0, ..entry },
        |entry| Entry { offset: 1 << 40, ..entry },
        |entry| Entry { offset: entry.offset + 64, ..entry },
        |entry| Entry { bytes: entry.bytes + 1, ..entry },
        |entry| Entry { version: entry.version ^ 1, ..entry },
    ];
    let host = Host::start(provider, FakeServer::new());
    let mut client = connect(&host, FabricOptions::default()).unwrap();
    client.set(b"key", b"value", 0, 0).unwrap();
    for forge in forgeries {
        host.with(move |server, _| server.forge = Some(forge));
        for _ in 0..3 {
            assert_eq!(client.get(b"key").unwrap().unwrap().bytes, b"value");
        }
    }
    let counters = client.fabric_link().unwrap().counters();
    assert_eq!((counters.gets_one_sided, counters.reconnects), (0, 0));
}

/// Proves that reads with a key that the server does not know fail, and that their gets ask by a message.
fn a_refused_read_makes_its_get_ask(provider: &'static Provider) {
    let mut server = FakeServer::new();
    server.area_key = 0x1234_5678;
    let host = Host::start(provider, server);
    let mut client = connect(&host, FabricOptions::default()).unwrap();
    client.set(b"key", b"value", 0, 0).unwrap();
    for _ in 0..4 {
        assert_eq!(client.get(b"key").unwrap().unwrap().bytes, b"value");
    }
    let counters = client.fabric_link().unwrap().counters();
    assert_eq!(counters.gets_one_sided, 0);
    assert!(counters.reconnects > 0);
}

/// Proves that a server that dies is an error by the deadline, and that its successor is found and believed.
fn a_server_that_dies_is_found_again(provider: &'static Provider) {
    let host = Host::start(provider, FakeServer::new());
    let options = FabricOptions { deadline_ns: 5_000_000_000, ..FabricOptions::default() };
    let mut client = Builder::default().server(&host.url()).fabric(options).connect().unwrap();
    client.set(b"key", b"old", 0, 0).unwrap();
    while one_sided(&client) == 0 {
        assert_eq!(client.get(b"key").unwrap().unwrap().bytes, b"old");
    }
    let address = host.address.clone();
    drop(host.stop());
    assert!(client.get(b"key").is_err());
    let region = FakeServer::new().area.region().clone();
    let geometry = FakeServer::new().area.geometry();
    let mut server = FakeServer::over(micanite_chunks::Area::new(region, geometry, 99).unwrap());
    server.incarnation = 99;
    let _host = Host::start_at(&address, server);
    let started = Instant::now();
    loop {
        match client.get(b"key") {
            Ok(found) => {
                assert_eq!(found, None);
                break;
            }
            Err(error) => assert!(started.elapsed() < DEADLINE, "{error}"),
        }
    }
    client.set(b"key", b"new", 0, 0).unwrap();
    assert_eq!(client.get(b"key").unwrap().unwrap().bytes, b"new");
}

/// Proves that the login of a URL arrives, and that a wrong one is an error.
fn a_wrong_login_is_refused(provider: &'static Provider) {
    let mut server = FakeServer::new();
    server.login = Some(("me".to_owned(), "a&b".to_owned()));
    let host = Host::start(provider, server);
    let connect = |rest: &str| {
        let options = Options { deadline_ns: DEADLINE.as_nanos() as u64, ..Options::default() };
        Builder::default().server(&format!("{}{rest}", host.url())).options(options).connect()
    };
    assert!(matches!(connect(""), Err(Error::Login { .. })));
    assert!(matches!(connect("&user=me&password=ab"), Err(Error::Login { .. })));
    let mut client = connect("&user=me&password=a%26b").unwrap();
    client.set(b"key", b"value", 0, 0).unwrap();
    // Clients that only send messages come and go beside it.
    let reads = Reads::TwoSided;
    let login = FabricOptions { reads, user: "me".into(), password: "a&b".into(), ..Default::default() };
    let mut other = super::real::connect(&host, login).unwrap();
    assert_eq!(other.get(b"key").unwrap().unwrap().bytes, b"value");
    drop(other);
    assert_eq!(client.get(b"key").unwrap().unwrap().bytes, b"value");
}
