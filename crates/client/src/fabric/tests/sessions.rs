//! Sessions: hello, workers, connections that break, servers that come and go.

use super::client::Client;
use super::server::{FROZEN_NS, FakeServer};
use super::world::{MS, server, world};
use crate::driver::SubmitError;
use crate::error::Error;
use crate::fabric::connection::Health;
use crate::fabric::options::FabricOptions;
use crate::operation::{Operation, Outcome};
use crate::options::OnDead;

fn error_of(change: impl FnOnce(&mut FakeServer), options: &FabricOptions) -> Option<Error> {
    let mut client = Client::unconnected(1, options);
    server(|server, _| change(server));
    for _ in 0..100 {
        client.run(1);
        world(|world| world.now_ns += 40 * MS);
    }
    let connection = client.pool.connection(0);
    (connection.health() == Health::Dead).then(|| connection.error())
}

fn with_login(user: &str, password: &str) -> FabricOptions {
    FabricOptions { user: user.to_owned(), password: password.to_owned(), ..FabricOptions::default() }
}

/// Proves that a wrong login has an error of its own, and that a right one does not.
#[test]
fn a_wrong_login_is_refused() {
    let locked = |server: &mut FakeServer| server.login = Some(("me".to_owned(), "secret".to_owned()));
    let error = error_of(locked, &with_login("me", "wrong"));
    assert!(matches!(error, Some(Error::Login { .. })), "{error:?}");
    assert!(error.unwrap().to_string().contains("-Y"));
    world(|world| world.servers.clear());
    assert!(error_of(locked, &with_login("me", "secret")).is_none());
}

/// Proves that a server without room, and one of another version, say so.
#[test]
fn a_server_says_why_it_refuses() {
    let error = error_of(|server| server.is_full = true, &FabricOptions::default());
    assert!(matches!(&error, Some(Error::ServerFull { .. })), "{error:?}");
    world(|world| world.servers.clear());
    let error = error_of(|server| server.version = 2, &FabricOptions::default());
    assert!(matches!(&error, Some(Error::Version { version: 2, .. })), "{error:?}");
    world(|world| world.servers.clear());
    let long = "x".repeat(1000);
    let error = error_of(|_| {}, &with_login(&long, "y"));
    assert!(matches!(&error, Some(Error::Fabric { .. })), "{error:?}");
}

/// Proves that a server that is not there is an error after the deadline.
#[test]
fn an_absent_server_is_unreachable_after_the_deadline() {
    let mut client = Client::unconnected(1, &FabricOptions::default());
    world(|world| world.is_unplugged = true);
    client.run(10);
    assert_eq!(client.pool.connection(0).health(), Health::Unknown);
    for _ in 0..50 {
        world(|world| world.now_ns += 50 * MS);
        client.run(1);
    }
    assert_eq!(client.pool.connection(0).health(), Health::Dead);
    let error = client.pool.connection(0).error();
    assert!(matches!(&error, Error::Unreachable { .. }) && error.to_string().contains("--fabric"));
    assert!(world(|world| world.opened) < 30, "attempts become rarer");
    assert_eq!(client.submit(&Operation::get(b"key")), Err(SubmitError::ServerDown { server: 0 }));
    world(|world| world.is_unplugged = false);
    world(|world| world.now_ns += 1001 * MS);
    client.run(10);
    client.set(b"key", b"value");
}

/// Proves that a client moves to the worker that its number chooses, and stays there.
#[test]
fn a_client_moves_to_its_worker() {
    let mut client = Client::unconnected(1, &FabricOptions::default());
    server(|server, _| server.workers = 4);
    client.run(20);
    let workers = world(|world| world.workers());
    assert_eq!(workers.len(), 1);
    client.set(b"key", b"value");
    world(|world| world.cut());
    client.set(b"key", b"value");
    assert_eq!(world(|world| world.workers()), workers);
    // A server with other workers.
    server(|server, _| server.workers = 1);
    world(|world| world.cut());
    client.set(b"key", b"value");
    assert_eq!(world(|world| world.workers()), [0]);
}

/// Proves that nothing is lost when connections break at any moment, and that entries stay if the server is
/// the same.
#[test]
fn connections_that_break_lose_nothing() {
    let mut client = Client::new(1, &FabricOptions::default());
    let long = vec![7; 100_000];
    client.know(b"long", &long);
    client.know(b"key", b"value");
    for polls in 0..12 {
        let operations = [
            Operation::get(b"key"),
            Operation::get(b"long"),
            Operation::set(b"other", b"value"),
            Operation::get(b"missing"),
        ];
        let tokens = operations.map(|operation| client.submit(&operation).unwrap());
        client.run(polls);
        world(|world| world.cut());
        let got = tokens.map(|token| client.wait(token));
        assert_eq!((&got[0].value[..], &got[1].value), (&b"value"[..], &long));
        assert_eq!((got[2].outcome, got[3].outcome), (Outcome::Ok, Outcome::NotFound));
    }
    let counters = client.pool.counters();
    assert!((6..=12).contains(&counters.reconnects) && counters.timed_out == 0);
    // The first read may find the last cut, and then the get asks.
    client.get(b"key");
    assert!(client.get(b"key").one_sided);
}

/// Proves that another run of the server is not believed to have the old one's chunks, and that ids of the
/// old one are not mistaken.
#[test]
fn a_restarted_server_has_no_entries() {
    let mut client = Client::new(1, &FabricOptions::default());
    client.know(b"key", b"old");
    world(|world| {
        let region = FakeServer::new().area.region().clone();
        let geometry = world.servers[0].area.geometry();
        let area = micanite_chunks::Area::new(region, geometry, 99).unwrap();
        world.servers[0] = FakeServer::over(area);
        world.servers[0].incarnation = 99;
        world.cut();
    });
    assert_eq!(client.get(b"key").outcome, Outcome::NotFound);
    assert_eq!(client.pool.connection(0).entries(), 0);
    client.know(b"key", b"new");
}

/// Proves that a client that only reads is heard of, and that one that was silent for too long connects anew.
#[test]
fn a_client_is_heard_before_its_buffer_is_taken() {
    let options = FabricOptions { history: false, ..FabricOptions::default() };
    let mut client = Client::new(1, &options);
    let noops = server(|server, _| server.noops);
    for _ in 0..70 {
        world(|world| world.now_ns += FROZEN_NS / 64);
        client.run(3);
    }
    assert!(server(|server, _| server.noops) > noops);
    assert_eq!(client.pool.counters().reconnects, 0);
    // The program did not poll.
    world(|world| world.now_ns += FROZEN_NS);
    client.set(b"key", b"value");
    assert_eq!(client.pool.counters().reconnects, 1);
}

/// Proves that keys are distributed, and that those of a dead server fail at once or move on.
#[test]
fn servers_share_the_keys() {
    for on_dead in [OnDead::FailFast, OnDead::MoveOn] {
        let mut client = Client::new(3, &FabricOptions { on_dead, ..FabricOptions::default() });
        let keys: Vec<_> = (0..60).map(|number| format!("key {number}").into_bytes()).collect();
        keys.iter().for_each(|key| client.set(key, key));
        let now_ns = world(|world| world.now_ns);
        for key in &keys {
            let server = client.pool.server_of(key);
            assert_eq!(world(|world| world.servers[server].value(key, now_ns)).as_ref(), Some(key));
            assert_eq!(&client.get(key).value, key);
        }
        // The second server goes.
        world(|world| world.remove(1));
        for _ in 0..100 {
            world(|world| world.now_ns += 50 * MS);
            client.run(1);
        }
        for key in &keys {
            match (client.pool.server_of(key), client.submit(&Operation::get(key))) {
                (1, Err(error)) => {
                    assert_eq!((error, on_dead), (SubmitError::ServerDown { server: 1 }, OnDead::FailFast));
                }
                (1, Ok(token)) => assert_eq!(client.wait(token).outcome, Outcome::NotFound),
                (_, token) => assert_eq!(&client.wait(token.unwrap()).value, key),
            }
        }
        world(|world| world.servers.clear());
    }
}

/// Proves that a client whose server has become full connects as soon as there is room.
#[test]
fn a_client_waits_for_room_until_the_deadline() {
    let mut client = Client::new(1, &FabricOptions::default());
    server(|server, _| server.is_full = true);
    world(|world| world.cut());
    client.run(2);
    let set = client.submit(&Operation::set(b"key", b"value")).unwrap();
    for _ in 0..20 {
        world(|world| world.now_ns += 50 * MS);
        client.run(3);
    }
    server(|server, _| server.is_full = false);
    assert_eq!(client.wait(set).outcome, Outcome::Ok);
    assert_eq!(client.pool.counters().servers_lost, 0);
}

/// Proves that a client that has moved to a worker and is answered by another one begins again.
#[test]
fn a_client_that_another_worker_answers_begins_again() {
    let mut client = Client::unconnected(1, &FabricOptions::default());
    server(|server, _| (server.workers, server.misplaced) = (3, 1));
    for _ in 0..4 {
        client.run(20);
        world(|world| world.now_ns += 20 * MS);
    }
    assert_eq!(server(|server, _| server.misplaced), 0, "the client has to move");
    // Twice to the first worker and to its own.
    assert_eq!(world(|world| world.opened), 4);
    client.set(b"key", b"value");
    assert_eq!(client.pool.counters().reconnects, 0);
}

/// Proves that a client greets again if its greeting was forgotten.
#[test]
fn a_forgotten_greeting_is_repeated() {
    let mut client = Client::unconnected(1, &FabricOptions::default());
    world(|world| world.lost_greetings = 1);
    client.run(10);
    assert_eq!(client.pool.connection(0).health(), Health::Unknown);
    world(|world| world.now_ns += 21 * MS);
    client.run(10);
    assert_eq!(client.pool.connection(0).health(), Health::Alive);
    assert_eq!(world(|world| world.opened), 1);
}

/// Proves that a client that goes says so, unless its connection is broken.
#[test]
fn a_client_says_goodbye() {
    drop(Client::new(1, &FabricOptions::default()));
    let (nonces, goodbyes) = server(|server, _| (server.nonces.clone(), server.goodbyes.clone()));
    assert_eq!((nonces.len(), &nonces), (1, &goodbyes));
    world(|world| world.servers.clear());
    let mut client = Client::new(1, &FabricOptions::default());
    world(|world| world.cut());
    client.run(1);
    drop(client);
    assert_eq!(server(|server, _| (server.nonces.len(), server.goodbyes.len())), (1, 0));
}
