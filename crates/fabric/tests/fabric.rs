//! Two processes over real libfabric, by every provider that needs no device. The other one is
//! `examples/peer.rs`.
#![cfg(feature = "testing")]

mod client;
mod names;
mod peers;
mod ports;
mod tagged;

use std::time::{Duration, Instant};

use client::{Client, DEADLINE, OPTIONS, Server};
use micanite_fabric::{
    Completions, Endpoint, EndpointOptions, Error, FabricAddress, PROVIDERS, Provider, RemoteArea,
};
use micanite_test_skip::skip;
use peers::addresses_come_and_go;
use tagged::*;

/// A thread that spins has 100, or half of them on a crowded machine.
const IDLE_TICKS_MAX: u64 = 10;

/// The tests of a provider: those of every one, and those of one for networks, which checks access.
macro_rules! over {
    ($module:ident, $provider:literal, $($test:ident)*) => {
        mod $module {
            use super::*;
            $(#[test] fn $test() { run(provider($provider), super::$test); })*
        }
    };
    (every $module:ident $provider:literal $($more:ident)*) => {
        over!($module, $provider,
            messages_return_as_they_were_sent
            reads_return_the_bytes_of_the_area
            a_read_needs_the_target_only_as_the_table_says
            a_killed_peer_is_an_error_and_no_hang
            a_server_that_returns_is_found_again
            replies_go_to_the_client_that_asked
            a_forgotten_peer_takes_nothing
            a_forgotten_client_does_not_speak_for_the_next
            a_client_that_greets_again_stays_the_same
            an_endpoint_closes_with_transfers_under_way
            a_tagged_message_reaches_only_the_receive_of_its_tag
            a_message_with_an_unknown_tag_reaches_nobody
            a_cancelled_receive_returns_its_buffer
            two_ranges_arrive_in_order
            parts_of_a_buffer_are_apart
            addresses_come_and_go
            transfers_that_were_given_up_leave_room
            $($more)*
        );
    };
    (network $module:ident $provider:literal) => {
        over!(every $module $provider
            writes_are_refused
            reads_beyond_the_area_are_refused
            a_forged_key_is_refused
            a_closed_key_is_refused
            a_stranger_gets_no_answer
            an_address_without_a_server_is_an_error
        );
    };
}

over!(network net "net;ofi_rxm");
over!(network tcp "tcp;ofi_rxm");
// It is for processes that trust each other, and has no ports.
over!(every shm "shm");

fn provider(name: &str) -> &'static Provider {
    Provider::by_name(name).unwrap()
}

/// Runs a test if libfabric has the provider: later versions dropped `net`, and gave its work to `tcp`.
fn run(provider: &'static Provider, test: fn(&'static Provider)) {
    match provider.probe() {
        Ok(()) => test(provider),
        Err(why) => skip(format_args!("{}: {why}", provider.name)),
    }
}

/// Proves that messages of any length come back whole, eager ones and those that the receiver fetches.
fn messages_return_as_they_were_sent(provider: &'static Provider) {
    let server = Server::start(provider);
    let mut client = Client::connect(&server);
    for bytes in [1, 64, 1 << 10, 16 << 10, (16 << 10) + 1, 512 << 10] {
        let message: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
        assert!(client.ask(&message) == message, "{bytes} bytes");
    }
}

/// Proves that offsets count from the beginning of the area, whatever its base is.
fn reads_return_the_bytes_of_the_area(provider: &'static Provider) {
    let server = Server::start(provider);
    let mut client = Client::connect(&server);
    let area = client.area;
    for (offset, bytes) in [(0, 8), (64, 64), (4096, 1 << 10), (8, 16 << 10), (0, area.bytes as usize)] {
        let read = client.read(&area, offset, bytes).unwrap();
        let expected = (offset / 8..).flat_map(|word| word.to_le_bytes());
        assert!(read.into_iter().eq(expected.take(bytes)), "{bytes} bytes from {offset}");
    }
    let error = client.read(&area, area.bytes - 8, 9).unwrap_err();
    assert_eq!(error, Error::OutOfRange);
}

/// Proves the column "reads without the target": over tcp nothing arrives until the target polls again.
fn a_read_needs_the_target_only_as_the_table_says(provider: &'static Provider) {
    let mut server = Server::start(provider);
    let mut client = Client::connect(&server);
    let area = client.area;
    assert_eq!(client.ask(b"away"), b"leaving");
    let buffer = client.spare();
    client.post_read(&area, 512, 64, buffer);
    let alone = client.wait_read(match provider.reads_without_target {
        true => DEADLINE,
        // Reads that complete alone take microseconds.
        false => Duration::from_millis(300),
    });
    assert_eq!(alone.is_some(), provider.reads_without_target);
    server.call_back();
    let read = alone.unwrap_or_else(|| client.wait_read(DEADLINE).unwrap()).unwrap();
    assert_eq!(read[..8], 64_u64.to_le_bytes());
    assert_eq!(client.ask(b"back?"), b"back?");
}

/// Attempts an access that the target has to refuse, then proves that the area and its readers are as before.
fn is_refused(provider: &'static Provider, attempt: impl FnOnce(&mut Client) -> Result<Vec<u8>, Error>) {
    let server = Server::start(provider);
    let mut client = Client::connect(&server);
    let area = client.area;
    let mut other = Client::connect(&server);
    assert_eq!(attempt(&mut client), Err(Error::Closed));
    assert_eq!(other.read(&area, 8, 8), Ok(1_u64.to_le_bytes().to_vec()));
    // The connection was closed; the next transfers open another one.
    let read = client.retry(|client| client.read(&area, 16, 8));
    assert_eq!(read, 2_u64.to_le_bytes());
    assert_eq!(other.ask(b"check"), b"same");
}

/// Proves that nobody but the server's own threads changes an area. The writer is not told: its bytes have
/// left.
fn writes_are_refused(provider: &'static Provider) {
    is_refused(provider, |client| {
        let area = client.area;
        match client.write(&area, 64, b"overwritten") {
            Ok(()) => Err(Error::Closed),
            Err(error) => Err(error),
        }
    });
}

/// Proves that a reader that claims a longer area does not get what is behind it.
fn reads_beyond_the_area_are_refused(provider: &'static Provider) {
    is_refused(provider, |client| {
        let longer = RemoteArea { bytes: client.area.bytes + 4096, ..client.area };
        client.read(&longer, client.area.bytes - 64, 128)
    });
}

/// Proves that a read needs the key.
fn a_forged_key_is_refused(provider: &'static Provider) {
    is_refused(provider, |client| {
        let forged = RemoteArea { key: client.area.key ^ 1, ..client.area };
        client.read(&forged, 0, 64)
    });
}

/// Proves that the key of a closed area opens nothing.
fn a_closed_key_is_refused(provider: &'static Provider) {
    let server = Server::start(provider);
    let mut client = Client::connect(&server);
    let area = client.area;
    assert_eq!(client.read(&area, 8, 8), Ok(1_u64.to_le_bytes().to_vec()));
    assert_eq!(client.ask(b"close"), b"closed");
    assert_eq!(client.read(&area, 8, 8), Err(Error::Closed));
    assert_eq!(client.retry(|client| client.try_ask(b"there?")), b"there?");
}

/// Proves that transfers to a killed peer end with an error within the deadline.
fn a_killed_peer_is_an_error_and_no_hang(provider: &'static Provider) {
    let server = Server::start(provider);
    let mut client = Client::connect(&server);
    let area = client.area;
    assert!(client.read(&area, 0, 64).is_ok());
    server.kill();
    let started = Instant::now();
    loop {
        let error = client.read(&area, 0, 64).expect_err("a read of a dead process succeeded");
        let is_named = matches!(error, Error::Closed | Error::PeerGone);
        assert_eq!(is_named, provider.notices_killed_peers, "{error:?}");
        if error == Error::PeerGone || !is_named {
            break;
        }
        assert!(started.elapsed() < DEADLINE);
    }
}

/// Proves that an address can be used again after its process was killed, whatever that has left behind.
fn a_server_that_returns_is_found_again(provider: &'static Provider) {
    let mut server = Server::start(provider);
    let mut client = Client::connect(&server);
    assert_eq!(client.ask(b"first"), b"first");
    server.restart();
    assert_eq!(Client::connect(&server).ask(b"second"), b"second");
}

/// Proves that a server tells its clients apart.
fn replies_go_to_the_client_that_asked(provider: &'static Provider) {
    let server = Server::start(provider);
    let mut clients: Vec<_> = (0..3).map(|_| Client::connect(&server)).collect();
    for round in 0..20 {
        for (number, client) in clients.iter_mut().enumerate() {
            client.tell(format!("{number} in {round}").as_bytes());
        }
        for (number, client) in clients.iter_mut().enumerate() {
            assert_eq!(client.hear(), Ok(format!("{number} in {round}").into_bytes()));
        }
    }
}

/// Proves that a message before the greeting is an error of the receiver alone, and that only the endpoint
/// greets.
fn a_stranger_gets_no_answer(provider: &'static Provider) {
    let server = Server::start(provider);
    let mut known = Client::connect(&server);
    let mut stranger = Client::open(&server);
    stranger.tell(b"hello?");
    assert_eq!(known.ask(b"still there?"), b"still there?");
    stranger.greet();
    // The first reply is the one to the greeting.
    assert_eq!(RemoteArea::decode(&stranger.hear().unwrap()), Some(known.area));
    let mut buffer = known.spare();
    buffer[..8].copy_from_slice(b"\xffFabric\x01");
    let unposted = known.endpoint.send(known.peer, buffer, 8, 0).unwrap_err();
    assert_eq!(unposted.error, Error::Reserved);
}

/// Proves that a peer that was forgotten is no target any more, and can be found again by another endpoint.
fn a_forgotten_peer_takes_nothing(provider: &'static Provider) {
    let server = Server::start(provider);
    let mut client = Client::connect(&server);
    assert_eq!(client.ask(b"one"), b"one");
    client.endpoint.forget(client.peer);
    let (area, peer, buffer) = (client.area, client.peer, client.spare());
    let unposted = client.endpoint.read(peer, &area, 0, 8, buffer, 0).unwrap_err();
    assert_eq!(unposted.error, Error::PeerGone);
    let unposted = client.endpoint.send(peer, unposted.buffer, 8, 0).unwrap_err();
    assert_eq!(unposted.error, Error::PeerGone);
    assert_eq!(Client::connect(&server).ask(b"two"), b"two");
}

/// Proves that what a forgotten client still sends is not taken for a message of the client that greets next.
fn a_forgotten_client_does_not_speak_for_the_next(provider: &'static Provider) {
    let server = Server::start(provider);
    let mut forgotten = Client::connect(&server);
    assert_eq!(forgotten.ask(b"forget"), b"forgotten");
    let mut next = Client::connect(&server);
    for round in 0..20 {
        forgotten.tell(b"of the forgotten");
        let message = format!("{round} of the next");
        assert_eq!(next.ask(message.as_bytes()), message.into_bytes());
    }
    // The last of the forgotten client's messages have arrived by now, if another one's have.
    assert_eq!(Client::connect(&server).ask(b"last"), b"last");
    assert_eq!(next.ask(b"end"), b"end");
    // It may greet again, and is a new peer then.
    forgotten.greet();
    assert_eq!(RemoteArea::decode(&forgotten.hear().unwrap()), Some(next.area));
    assert_eq!(forgotten.ask(b"back"), b"back");
}

/// Proves that a server takes another greeting for the same peer.
fn a_client_that_greets_again_stays_the_same(provider: &'static Provider) {
    let server = Server::start(provider);
    let mut client = Client::connect(&server);
    for _ in 0..3 {
        client.greet();
        assert_eq!(RemoteArea::decode(&client.hear().unwrap()), Some(client.area));
    }
    assert_eq!(client.ask(b"forget"), b"forgotten");
    client.tell(b"as a stranger");
    assert_eq!(Client::connect(&server).ask(b"other"), b"other");
    client.greet();
    assert_eq!(RemoteArea::decode(&client.hear().unwrap()), Some(client.area));
}

/// Proves that buffers of unfinished transfers are freed with the endpoint, and not before.
fn an_endpoint_closes_with_transfers_under_way(provider: &'static Provider) {
    let mut server = Server::start(provider);
    let mut client = Client::connect(&server);
    assert_eq!(client.ask(b"away"), b"leaving");
    let area = client.area;
    for _ in 0..8 {
        let buffer = client.endpoint.buffer(4096).unwrap();
        client.post_read(&area, 0, 4096, buffer);
    }
    let kept = client.spare();
    drop(client);
    assert!(kept.len() > 64);
    drop(kept);
    server.call_back();
    assert_eq!(Client::connect(&server).ask(b"next"), b"next");
}

/// Proves that sizes are bounded, and that a message longer than its buffer is an error of that transfer.
#[test]
fn transfers_have_limits() {
    // Over `tcp`, a message that is too long ends the connection.
    run(provider("net;ofi_rxm"), transfers_have_limits_over);
}

fn transfers_have_limits_over(provider: &'static Provider) {
    let server = Server::start(provider);
    let options = EndpointOptions { transfers_max: 2, ..OPTIONS };
    let mut endpoint = Endpoint::connect(&server.address, &options).unwrap();
    let peer = endpoint.server().unwrap();
    for _ in 0..2 {
        let buffer = endpoint.buffer(64).unwrap();
        endpoint.receive(buffer, 7).unwrap();
    }
    let buffer = endpoint.buffer(64).unwrap();
    assert_eq!(endpoint.receive(buffer, 0).unwrap_err().error, Error::Full);
    let buffer = endpoint.buffer(64).unwrap();
    assert_eq!(endpoint.send(peer, buffer, 65, 0).unwrap_err().error, Error::OutOfRange);
    let mut other = Client::connect(&server);
    let foreign = other.spare();
    assert_eq!(endpoint.receive(foreign, 0).unwrap_err().error, Error::OutOfRange);
    drop(endpoint);
    // This client's receives have 64 bytes.
    let mut short = Client::with_room(&server, 64);
    let long = [7; 65];
    let mut buffer = short.endpoint.buffer(65).unwrap();
    buffer.copy_from_slice(&long);
    short.send(buffer, 65);
    assert_eq!(short.hear(), Err(Error::Truncated));
    assert_eq!(short.ask(b"short"), b"short");
}

/// Proves that an idle thread sleeps where the table promises a descriptor: a second costs no time of the
/// CPU.
#[test]
fn an_idle_endpoint_sleeps_where_there_is_a_descriptor() {
    let sleeping = PROVIDERS.iter().filter(|provider| !provider.needs_device && provider.has_descriptor);
    for provider in sleeping {
        let server = Server::start(provider);
        let mut client = Client::connect(&server);
        assert_eq!(client.ask(b"awake"), b"awake");
        let before = server.cpu_ticks();
        std::thread::sleep(Duration::from_secs(1));
        let ticks = server.cpu_ticks() - before;
        assert!(ticks < IDLE_TICKS_MAX, "{}: {ticks} ticks in an idle second", provider.name);
        assert_eq!(client.ask(b"still?"), b"still?");
    }
}

/// Proves that an address without a server is an error in time, and that wrong addresses are errors at once.
fn an_address_without_a_server_is_an_error(provider: &'static Provider) {
    let port = ports::free_ports(1);
    let address: FabricAddress = format!("{},127.0.0.1:{port}", provider.name).parse().unwrap();
    let mut endpoint = Endpoint::connect(&address, &OPTIONS).unwrap();
    let (started, mut completions) = (Instant::now(), Completions::new());
    let mut buffer = endpoint.buffer(256).unwrap();
    let error = loop {
        match endpoint.greet(buffer, 0) {
            Ok(()) => panic!("sent to nobody"),
            Err(unposted) if unposted.error == Error::Busy => buffer = unposted.buffer,
            Err(unposted) => break unposted.error,
        }
        endpoint.poll(&mut completions).unwrap();
        assert!(started.elapsed() < DEADLINE);
    };
    assert_eq!(error, Error::PeerGone);
    let no_port = FabricAddress { port: None, ..address };
    let error = Endpoint::connect(&no_port, &OPTIONS).unwrap_err();
    assert!(error.to_string().contains("port is missing"), "{error}");
    let foreign = format!("{},192.0.2.1:7", provider.name);
    let error = Endpoint::listen(&foreign.parse().unwrap(), &OPTIONS).unwrap_err();
    assert!(error.to_string().starts_with(&format!("{foreign}: cannot ")), "{error}");
}

/// Proves that `tcp` and `shm` are in every libfabric.
#[test]
fn tcp_and_shm_are_always_there() {
    let found = PROVIDERS.iter().filter(|provider| provider.probe().is_ok());
    let found: Vec<_> = found.map(|provider| provider.name).collect();
    assert!(["tcp;ofi_rxm", "shm"].iter().all(|name| found.contains(name)), "{found:?}");
    assert!(micanite_fabric::version().unwrap().starts_with("libfabric "));
}

/// Proves that the tests of a provider that libfabric lacks are skipped.
#[test]
fn a_provider_that_libfabric_lacks_is_not_found() {
    static LACKING: Provider = Provider { name: "no;such", ..PROVIDERS[1] };
    assert!(LACKING.probe().is_err());
}
