//! The clients over a fabric, against a real server, by every provider that needs no device.
#![cfg(feature = "libfabric")]

mod calls;
mod children;
mod common;
#[path = "../../server/tests/counting/mod.rs"]
mod counting;
#[path = "fabric/forks.rs"]
mod forks;
#[path = "../../fabric/tests/ports/mod.rs"]
mod ports;
#[cfg(feature = "async")]
#[path = "fabric/tasks.rs"]
mod tasks;

use std::time::{Duration, Instant};

use common::Server;
use forks::children_of_a_fork_lose_nothing;
use micanite_client::{
    Builder, Client, Error, FabricLink, FabricOptions, FabricUrl, Opcode, Operation, Options, Outcome, Reads,
};
use micanite_test_skip::skip;
use ports::free_ports;

const DEADLINE: Duration = Duration::from_secs(120);
const DEADLINE_NS: u64 = 30_000_000_000;
const WORKERS: u16 = 2;

/// The tests of a provider.
macro_rules! over {
    ($module:ident, $provider:literal, $($test:ident)*) => {
        mod $module {
            $(#[test] fn $test() -> Result<(), super::Error> { super::over($provider, super::$test) })*
        }
    };
    ($($module:ident $provider:literal)*) => {
        $(over!($module, $provider,
            every_call_works
            known_items_are_read_one_sided
            one_sided_gets_allocate_nothing
            values_are_as_long_as_the_server_allows
            all_clients_see_what_one_has_written
            many_at_once
            a_server_that_was_killed_is_found_again
            calls_that_are_far_apart_find_a_restarted_server
            children_of_a_fork_lose_nothing
            expiries_are_seconds_from_now
        );)*
    };
}

over!(net "net;ofi_rxm" tcp "tcp;ofi_rxm" shm "shm");

#[test]
fn server_process() {
    common::serve_if_child();
}

/// A server, and its URL.
struct Fabric {
    /// `None`: it was killed.
    server: Option<Server>,
    options: String,
    url: String,
}

impl Drop for Fabric {
    fn drop(&mut self) {
        drop(self.server.take());
        for worker in 0..WORKERS {
            // A killed process leaves the files of shared memory behind.
            if let Some(name) = self.url.strip_suffix("?provider=shm") {
                let name = name.trim_start_matches("fabric://");
                let suffix = if worker == 0 { String::new() } else { format!("-{worker}") };
                let _ = std::fs::remove_file(format!("/dev/shm/{name}{suffix}"));
            }
        }
    }
}

impl Fabric {
    fn start(provider: &str, options: &str) -> Self {
        let (address, url) = match provider {
            "shm" => {
                let name = format!("micanite-client-{}-{}", std::process::id(), free_ports(WORKERS));
                (name.clone(), format!("fabric://{name}?provider=shm"))
            }
            _ => {
                let address = format!("127.0.0.1:{}", free_ports(WORKERS));
                (address.clone(), format!("fabric://{address}?provider={provider}"))
            }
        };
        let trusted = if provider == "shm" { " --fabric-trusted" } else { "" };
        let options = format!("-t {WORKERS} --fabric {provider},{address}{trusted} {options}");
        Self { server: Some(Server::start(options.trim_end())), options, url }
    }

    fn restart(&mut self) {
        drop(self.server.take());
        self.server = Some(Server::start(self.options.trim_end()));
    }

    fn connect(&self, reads: Reads) -> Result<Client, Error> {
        // A busy machine may take long.
        let options = FabricOptions { reads, deadline_ns: DEADLINE_NS, ..FabricOptions::default() };
        Builder::default().server(&self.url).fabric(options).connect()
    }
}

/// Runs a test if libfabric has the provider: later versions dropped `net`, and gave its work to `tcp`.
fn over(provider: &str, test: fn(&str) -> Result<(), Error>) -> Result<(), Error> {
    let known = micanite_fabric::Provider::by_name(provider).unwrap();
    match known.probe() {
        Ok(()) => test(provider),
        Err(why) => {
            skip(format_args!("{provider}: {why}"));
            Ok(())
        }
    }
}

fn one_sided(client: &Client) -> u64 {
    client.fabric_link().unwrap().counters().gets_one_sided
}

/// Proves that each call has the result that it has over datagrams.
fn every_call_works(provider: &str) -> Result<(), Error> {
    let server = Fabric::start(provider, "");
    for reads in [Reads::InnerCache, Reads::TwoSided] {
        let mut client = server.connect(reads)?;
        calls::every_call_works(&mut client)?;
        let counters = client.fabric_link().unwrap().counters();
        assert_eq!((counters.bogus, counters.entries_bogus), (0, 0));
    }
    Ok(())
}

/// Proves that an item is read one-sided once its entry is known: by a get, or by the push after a set.
fn known_items_are_read_one_sided(provider: &str) -> Result<(), Error> {
    let server = Fabric::start(provider, "");
    let mut client = server.connect(Reads::InnerCache)?;
    client.set(b"key", b"value", 3, 0)?;
    let started = Instant::now();
    while one_sided(&client) < 100 {
        let found = client.get(b"key")?.unwrap();
        assert_eq!((&found.bytes[..], found.flags), (&b"value"[..], 3));
        assert!(started.elapsed() < DEADLINE, "{:?}", client.fabric_link());
    }
    let started = Instant::now();
    while client.fabric_link().unwrap().counters().entries_pushed == 0 {
        client.set(b"pushed", b"value", 0, 0)?;
        client.noop()?;
        assert!(started.elapsed() < DEADLINE, "no push");
    }
    Ok(())
}

/// Proves that an expiry is the same time as over the other links.
fn expiries_are_seconds_from_now(provider: &str) -> Result<(), Error> {
    let server = Fabric::start(provider, "");
    let mut client = server.connect(Reads::InnerCache)?;
    calls::expiries_are_seconds_from_now(&mut client, |key| server.server.as_ref().unwrap().ttl_s(key))
}

/// Proves that one-sided gets do not call the allocator once their slots have buffers.
fn one_sided_gets_allocate_nothing(provider: &str) -> Result<(), Error> {
    let server = Fabric::start(provider, "");
    let urls = [FabricUrl::parse(&server.url)?];
    let options = FabricOptions { deadline_ns: DEADLINE_NS, ..FabricOptions::default() };
    let mut link = FabricLink::connect(&urls, &options)?;
    let mut run = |operation: &Operation<'_>, until_one_sided: u64| {
        let started = Instant::now();
        let goal = link.counters().gets_one_sided + until_one_sided;
        let before = counting::calls();
        while link.counters().gets_one_sided < goal {
            assert!(started.elapsed() < DEADLINE, "{link:?}");
            let _ = link.submit(link.now_ns(), operation, 7);
            while link.pending() > 0 {
                let polled =
                    link.poll(link.now_ns(), |completion| assert_eq!(completion.outcome, Outcome::Ok));
                assert!(polled.is_ok());
            }
            if operation.opcode == Opcode::Set {
                break;
            }
        }
        counting::calls() - before
    };
    let _ = run(&Operation::set(b"key", b"value"), 1);
    let get = Operation::get(b"key");
    let _ = run(&get, 1000);
    assert_eq!(run(&get, 1000), 0);
    Ok(())
}

/// Proves that values of all lengths come back whole, by messages and by reads.
fn values_are_as_long_as_the_server_allows(provider: &str) -> Result<(), Error> {
    let server = Fabric::start(provider, "");
    let mut client = server.connect(Reads::InnerCache)?;
    for length in [0, 1, 1000, 16_000, 32_000, 33_000, 100_000, 500_000] {
        let value: Vec<u8> = (0..length).map(|at| (at * 31 % 251) as u8).collect();
        client.set(b"long", &value, 9, 0)?;
        for _ in 0..4 {
            let found = client.get(b"long")?.unwrap();
            assert_eq!((found.bytes == value, found.flags), (true, 9), "{length}");
        }
    }
    assert!(one_sided(&client) > 0);
    let too_long = vec![0; 2 << 20];
    assert!(matches!(client.set(b"long", &too_long, 0, 0), Err(Error::TooLarge { .. })));
    assert_eq!(client.get(b"long")?.unwrap().bytes.len(), 500_000);
    Ok(())
}

/// Proves that a write of one client, by whatever port, is seen by the next get of another.
fn all_clients_see_what_one_has_written(provider: &str) -> Result<(), Error> {
    let server = Fabric::start(provider, "");
    let mut reader = server.connect(Reads::InnerCache)?;
    let mut writer = server.connect(Reads::InnerCache)?;
    let options = Options { deadline_ns: DEADLINE_NS, ..Options::default() };
    let native = &server.server.as_ref().unwrap().native;
    let mut native = Client::builder().server(native).options(options).connect()?;
    for round in 0..500_u32 {
        let (key, value) = ((round % 7).to_le_bytes(), round.to_le_bytes());
        match round % 3 {
            0 => native.set(&key, &value, 0, 0)?,
            _ => writer.set(&key, &value, 0, 0)?,
        }
        for _ in 0..2 {
            assert_eq!(reader.get(&key)?.unwrap().bytes, value);
        }
        assert_eq!(native.get(&key)?.unwrap().bytes, value);
        if round % 50 == 49 {
            assert!(native.delete(&key)?);
            assert_eq!(reader.get(&key)?, None);
        }
    }
    assert!(one_sided(&reader) > 0, "{:?}", reader.fabric_link());
    Ok(())
}

/// Proves that many operations in flight each end once, with their own result.
fn many_at_once(provider: &str) -> Result<(), Error> {
    let server = Fabric::start(provider, "");
    let urls = [FabricUrl::parse(&server.url)?];
    let mut link =
        FabricLink::connect(&urls, &FabricOptions { deadline_ns: DEADLINE_NS, ..Default::default() })?;
    let (mut next, mut ended) = (0_u64, vec![false; 20_000]);
    let started = Instant::now();
    while ended.iter().any(|ended| !ended) {
        assert!(started.elapsed() < DEADLINE, "{link:?}");
        let now_ns = link.now_ns();
        while next < ended.len() as u64 {
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
        let polled = link.poll(now_ns, |completion| {
            assert!(matches!(completion.outcome, Outcome::Ok | Outcome::NotFound));
            if !completion.value.is_empty() {
                assert_eq!(completion.value, (completion.token % 100).to_le_bytes());
            }
            assert!(!std::mem::replace(&mut ended[completion.token as usize], true));
        });
        if polled? == 0 {
            link.wait(1_000_000)?;
        }
    }
    assert_eq!(link.pending(), 0);
    Ok(())
}

/// Proves that a client finds the next server at the address, and believes nothing that it knew of the last.
fn a_server_that_was_killed_is_found_again(provider: &str) -> Result<(), Error> {
    let mut server = Fabric::start(provider, "");
    let mut client = server.connect(Reads::InnerCache)?;
    client.set(b"key", b"old", 0, 0)?;
    for _ in 0..10 {
        assert_eq!(client.get(b"key")?.unwrap().bytes, b"old");
    }
    server.restart();
    let started = Instant::now();
    loop {
        match client.get(b"key") {
            Ok(found) => {
                assert_eq!(found, None);
                break;
            }
            Err(Error::TimedOut { .. } | Error::Unreachable { .. }) => {
                assert!(started.elapsed() < DEADLINE, "{:?}", client.fabric_link());
            }
            Err(other) => return Err(other),
        }
    }
    client.set(b"key", b"new", 0, 0)?;
    assert_eq!(client.get(b"key")?.unwrap().bytes, b"new");
    Ok(())
}

/// Proves that a server is found again by a client that is polled during its rare calls only.
fn calls_that_are_far_apart_find_a_restarted_server(provider: &str) -> Result<(), Error> {
    let mut server = Fabric::start(provider, "");
    let options = FabricOptions { deadline_ns: 4_000_000_000, ..FabricOptions::default() };
    let pause = Duration::from_nanos(options.dead_for_ns);
    let mut client = Builder::default().server(&server.url).fabric(options).connect()?;
    client.set(b"key", b"old", 0, 0)?;
    drop(server.server.take());
    let started = Instant::now();
    // The first error may be that of a deadline.
    while !matches!(client.get(b"key"), Err(Error::Unreachable { .. })) {
        assert!(started.elapsed() < DEADLINE, "{:?}", client.fabric_link());
    }
    server.restart();
    let mut calls = 0;
    loop {
        std::thread::sleep(pause);
        calls += 1;
        match client.get(b"key") {
            Ok(found) => break assert_eq!(found, None),
            Err(error) => assert!(calls < 4, "{error}: {:?}", client.fabric_link()),
        }
    }
    Ok(())
}

/// Proves that two servers share the keys over a fabric.
#[test]
fn a_list_of_servers_shares_the_keys() -> Result<(), Error> {
    over("tcp;ofi_rxm", |provider| {
        let servers = [Fabric::start(provider, ""), Fabric::start(provider, "")];
        let builder = servers.iter().fold(Client::builder(), |list, server| list.server(&server.url));
        let builder = builder.options(Options { deadline_ns: DEADLINE_NS, ..Options::default() });
        let mut both = builder.connect()?;
        let mut alone = [servers[0].connect(Reads::TwoSided)?, servers[1].connect(Reads::TwoSided)?];
        let (mut here, mut there) = (0, 0);
        for number in 0..100_u32 {
            let key = number.to_le_bytes();
            both.set(&key, &key, 0, 0)?;
            assert_eq!(both.get(&key)?.unwrap().bytes, key);
            here += u32::from(alone[0].get(&key)?.is_some());
            there += u32::from(alone[1].get(&key)?.is_some());
        }
        assert!(here > 10 && there > 10 && here + there == 100, "{here} {there}");
        Ok(())
    })
}

/// Proves that a server that is not there, and a provider that is not, are errors that say so.
#[test]
fn absent_servers_return_an_error() {
    let url = format!("fabric://127.0.0.1:{}?provider=tcp;ofi_rxm", free_ports(WORKERS));
    let options = FabricOptions { deadline_ns: 300_000_000, ..FabricOptions::default() };
    let error = Builder::default().server(&url).fabric(options).connect().unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }) && error.to_string().contains("--fabric"), "{error}");
    let error = Client::connect("fabric://127.0.0.1?provider=none").unwrap_err();
    assert!(matches!(error, Error::Address { .. }), "{error}");
    let error = Client::connect("fabric://127.0.0.1?provider=efa").unwrap_err();
    assert!(matches!(error, Error::Fabric { .. }), "{error}");
    let mixed = Client::builder().server(&url).server("127.0.0.1:11300").connect();
    assert!(matches!(mixed, Err(Error::Address { .. })));
}
