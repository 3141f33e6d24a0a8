//! A server in between, which passes a real one's memory on, with streams of the test's.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Instant;

use micanite_client::{Builder, Client, Error, LocalLink, LocalUrl, Operation, Options, Outcome};
use micanite_local::hello::{Answer, DESCRIPTORS_MAX, reply, request};
use micanite_net::send_with_descriptors;
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::hostile::{Attached, attach};
use super::life::eventually;
use super::{DEADLINE, DEADLINE_NS, Local};

/// The socket of the relay, and its server.
pub(super) struct Relay<'a> {
    pub(super) listener: UnixListener,
    pub(super) path: PathBuf,
    server: &'a Local,
}

impl<'a> Relay<'a> {
    pub(super) fn new(server: &'a Local) -> Self {
        let path = server.directory.join("relay");
        Self { listener: UnixListener::bind(&path).unwrap(), path, server }
    }

    pub(super) fn url(&self) -> String {
        format!("local://{}", self.path.display())
    }

    fn connect(&self) -> Result<Client, Error> {
        let options = Options { deadline_ns: DEADLINE_NS, ..Options::default() };
        Builder::default().server(&self.url()).options(options).connect()
    }

    /// Welcomes one client. Returns its attachment, and the socket of the hello.
    pub(super) fn welcome(&self, change: impl FnOnce(&mut Attached)) -> (Attached, UnixStream) {
        self.welcome_user((b"", b""), change)
    }

    fn welcome_user(
        &self,
        (user, password): (&[u8], &[u8]),
        change: impl FnOnce(&mut Attached),
    ) -> (Attached, UnixStream) {
        let mut hello = self.listener.accept().unwrap().0;
        let mut bytes = request(user, password).unwrap();
        hello.read_exact(&mut bytes).unwrap();
        let mut attached = attach(self.server);
        change(&mut attached);
        let first = reply(Answer::Welcome, attached.partitions.len());
        let three = [&attached.header, &attached.notes, &attached.requests];
        assert_eq!(send_with_descriptors(&hello, &first, &three).unwrap(), first.len());
        for part in attached.partitions.chunks(DESCRIPTORS_MAX) {
            send_with_descriptors(&hello, &[0], part).unwrap();
        }
        (attached, hello)
    }
}

/// Copies a file into one in memory that anybody may cut.
pub(super) fn unsealed(of: &OwnedFd) -> (File, OwnedFd) {
    let of = File::from(of.try_clone().unwrap());
    let mut bytes = vec![0; of.metadata().unwrap().len() as usize];
    of.read_exact_at(&mut bytes, 0).unwrap();
    let file = File::from(memfd_create("unsealed", MFdFlags::MFD_ALLOW_SEALING).unwrap());
    file.write_all_at(&bytes, 0).unwrap();
    (file.try_clone().unwrap(), file.into())
}

/// A server whose memory could be cut under its readers is not read: the client asks, or does not attach.
#[test]
fn memory_that_may_be_cut_is_not_read() -> Result<(), Error> {
    let server = Local::start("-t 2");
    server.client().set(b"key", b"value", 0, 0)?;
    let relay = Relay::new(&server);
    std::thread::scope(|scope| {
        let mut cut = None;
        let connected = scope.spawn(|| relay.connect());
        let attached = relay.welcome(|attached| {
            let (file, descriptor) = unsealed(&attached.partitions[0]);
            (cut, attached.partitions[0]) = (Some(file), descriptor);
        });
        let mut client = connected.join().unwrap()?;
        assert!(!client.local_link().unwrap().reads_memory());
        cut.unwrap().set_len(0).unwrap();
        assert_eq!(client.get(b"key")?.unwrap().bytes, b"value");
        drop(attached);
        for is_notes in [true, false] {
            let connected = scope.spawn(|| relay.connect());
            let attached = relay.welcome(|attached| {
                let page = if is_notes { &mut attached.notes } else { &mut attached.header };
                *page = unsealed(page).1;
            });
            let refused = connected.join().unwrap().unwrap_err();
            assert!(refused.to_string().contains("no seal"), "{refused}");
            drop(attached);
        }
        Ok(())
    })
}

/// Reads that were sent over a stream that then ended are repeated over the next one; a write is not.
#[test]
fn reads_are_repeated_after_a_lost_stream() -> Result<(), Error> {
    type Call = fn(&mut Client) -> Result<bool, Error>;
    let calls: [(Call, bool); 4] = [
        (|client| Ok(client.gets(b"key")?.is_some_and(|value| value.cas.is_some())), true),
        (|client| Ok(client.get_and_touch(b"key", 100)?.is_some()), true),
        (|client| client.noop().map(|()| true), true),
        (|client| client.set(b"key", b"value", 0, 0).map(|()| true), false),
    ];
    for (call, is_repeated) in calls {
        let server = Local::start("-t 2");
        server.client().set(b"key", b"value", 0, 0)?;
        let relay = Relay::new(&server);
        std::thread::scope(|scope| {
            let called = scope.spawn(|| call(&mut relay.connect()?));
            let (ours, theirs) = UnixStream::pair().unwrap();
            let first = relay.welcome(|attached| attached.requests = OwnedFd::from(theirs));
            // The request has come, and the stream ends without a reply.
            assert!((&ours).read(&mut [0; 100]).unwrap() > 0);
            drop((ours, first));
            let second = is_repeated.then(|| relay.welcome(|_| {}));
            match called.join().unwrap() {
                Ok(right) => assert!(right && is_repeated),
                Err(error) => assert!(matches!(error, Error::OutcomeUnknown) && !is_repeated, "{error}"),
            }
            drop(second);
        });
    }
    Ok(())
}

/// A stream that ends during the login says nothing about the password.
#[test]
fn a_stream_that_is_lost_at_the_login_is_no_wrong_password() {
    let server = Local::start("-t 2");
    let relay = Relay::new(&server);
    let url = LocalUrl::parse(&format!("{}?user=me&password=secret", relay.url())).unwrap();
    let options = Options { deadline_ns: DEADLINE_NS, ..Options::default() };
    std::thread::scope(|scope| {
        let connected = scope.spawn(|| LocalLink::connect(&url, &options).map(drop));
        let (ours, theirs) = UnixStream::pair().unwrap();
        let first =
            relay.welcome_user((b"me", b"secret"), |attached| attached.requests = OwnedFd::from(theirs));
        assert!((&ours).read(&mut [0; 100]).unwrap() > 0);
        drop((ours, first));
        let refused = connected.join().unwrap();
        assert!(matches!(refused, Err(Error::Unreachable { .. })), "{refused:?}");
    });
}

/// A get-and-touch that may have been executed has an unknown outcome, also if the server is gone when it is
/// repeated: as a call of the client, and of its link.
#[test]
fn a_touch_whose_repetition_finds_no_server_is_unknown() {
    type Call = fn(&mut Client) -> Result<(), Error>;
    let calls: [Call; 2] = [
        |client| client.get_and_touch(b"key", 100).map(drop),
        |client| client.local_link().unwrap().call(&Operation::get_and_touch(b"key", 100)).map(drop),
    ];
    for call in calls {
        let server = Local::start("-t 2");
        let relay = Relay::new(&server);
        std::thread::scope(|scope| {
            let called = scope.spawn(|| call(&mut relay.connect()?));
            let (ours, theirs) = UnixStream::pair().unwrap();
            let first = relay.welcome(|attached| attached.requests = OwnedFd::from(theirs));
            assert!((&ours).read(&mut [0; 100]).unwrap() > 0);
            std::fs::remove_file(&relay.path).unwrap();
            drop((ours, first));
            let ended = called.join().unwrap();
            assert!(matches!(ended, Err(Error::OutcomeUnknown)), "{ended:?}");
        });
    }
}

/// A server that refuses a long value at its head, and then takes no more of it, keeps no later call waiting:
/// nothing is on its way that could end by its deadline.
#[test]
fn a_call_behind_a_refused_value_has_a_deadline() {
    let server = Local::start("-t 2");
    let relay = Relay::new(&server);
    let options = Options { deadline_ns: 3_000_000_000, ..Options::default() };
    let connect = || Builder::default().server(&relay.url()).options(options.clone()).connect();
    let (calls, called) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut client = connect().unwrap();
            calls.send(client.set(b"key", &vec![b'v'; 4 << 20], 0, 0)).unwrap();
            // One by itself, and one of a batch.
            calls.send(client.local_link().unwrap().call(&Operation::noop()).map(drop)).unwrap();
            calls.send(client.set(b"key", b"value", 0, 0)).unwrap();
        });
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let first = relay.welcome(|attached| attached.requests = OwnedFd::from(theirs));
        ours.read_exact(&mut [0; 4]).unwrap();
        ours.write_all(b"SERVER_ERROR object too large for cache\r\n").unwrap();
        let ended = called.recv_timeout(DEADLINE).unwrap();
        assert!(matches!(ended, Err(Error::TooLarge { .. })), "{ended:?}");
        // Attaching anew waits for the relay, which is silent now.
        let next = called.recv_timeout(DEADLINE);
        let last = called.recv_timeout(DEADLINE);
        drop((ours, first));
        for ended in [next, last] {
            assert!(matches!(ended, Ok(Err(Error::Unreachable { .. }))), "{ended:?}");
        }
    });
}

/// A server whose connections (`-c`) are all taken executes nothing, says so, and is asked again ever more
/// rarely. Its memory is read meanwhile, with a login or without one.
#[test]
fn a_server_without_a_free_connection_is_full() -> Result<(), Error> {
    let users = std::env::temp_dir().join(format!("micanite-local-full-{}", std::process::id()));
    std::fs::write(&users, "alice:secret\n").unwrap();
    for (options, login, first, reply) in [
        ("-c 2".to_owned(), "", &b"mn\r\n"[..], &b"MN\r\n"[..]),
        (
            format!("-c 2 -Y {} --allow-unauthenticated native", users.display()),
            "?user=alice&password=secret",
            b"set auth 0 0 12\r\nalice secret\r\n",
            b"STORED\r\n",
        ),
    ] {
        let server = Local::start(&options);
        let connect = || {
            let options = Options { deadline_ns: DEADLINE_NS, ..Options::default() };
            let url = LocalUrl::parse(&format!("{}{login}", server.url())).unwrap();
            LocalLink::connect(&url, &options)
        };
        let mut before = connect()?;
        before.call(&Operation::set(b"key", b"value"))?;
        let mut other = UnixStream::connect(server.directory.join("text")).unwrap();
        other.write_all(first).unwrap();
        let mut said = vec![0; reply.len()];
        other.read_exact(&mut said).unwrap();
        assert_eq!(said, reply);
        let mut link = connect()?;
        for _ in 0..1000 {
            let refused = link.call(&Operation::set(b"key", b"later"));
            assert!(matches!(refused, Err(Error::ServerFull { .. })), "{refused:?}");
            assert_eq!(link.get(b"key", &mut Vec::new())?, Some(0));
        }
        assert!(link.counters().attached < 20, "{:?}", link.counters());
        let shared = Client::builder().server(&format!("{}{login}", server.url())).connect_shared()?;
        for _ in 0..1000 {
            let refused = shared.run(|client| client.set(b"key", b"later", 0, 0));
            assert!(matches!(refused, Err(Error::ServerFull { .. })), "{refused:?}");
            assert_eq!(shared.get_in_memory(b"key", &mut Vec::new()), Some(Some(0)));
        }
        drop(other);
        let end = Instant::now() + DEADLINE;
        while let Err(error) = link.call(&Operation::set(b"key", b"later")) {
            assert!(Instant::now() < end && matches!(error, Error::ServerFull { .. }), "{error}");
        }
        let mut value = Vec::new();
        assert_eq!((before.get(b"key", &mut value)?, &value[..]), (Some(0), &b"later"[..]));
    }
    std::fs::remove_file(users).unwrap();
    Ok(())
}

/// A client that lacks a connection (`-c`) alone reads the memory on, though its own place is the last one
/// (`--local-clients`): by itself, and where threads share it.
#[test]
fn a_missing_connection_takes_no_memory_away() -> Result<(), Error> {
    let server = Local::start("-c 2 --local-clients 1");
    Client::connect(&server.process().native)?.set(b"key", b"value", 0, 0)?;
    let connection = || {
        let mut other = UnixStream::connect(server.directory.join("text")).unwrap();
        other.write_all(b"mn\r\n").unwrap();
        other.read_exact(&mut [0; 4]).unwrap();
        other
    };
    let others = [connection(), connection()];
    let end = Instant::now() + DEADLINE;
    let mut link = server.link();
    while link.counters().attached < 4 {
        let refused = link.call(&Operation::set(b"key", b"later"));
        assert!(matches!(refused, Err(Error::ServerFull { .. })), "{refused:?}");
        assert_eq!(link.get(b"key", &mut Vec::new())?, Some(0));
        assert!(Instant::now() < end, "{:?}", link.counters());
    }
    drop(link);
    let options = Options { deadline_ns: DEADLINE_NS, ..Options::default() };
    let connect = || Builder::default().server(&server.url()).options(options.clone()).connect_shared();
    let shared = eventually(connect);
    while shared.local_counters()?.is_none_or(|counters| counters.attached < 4) {
        let refused = shared.run(|client| client.set(b"key", b"later", 0, 0));
        assert!(matches!(refused, Err(Error::ServerFull { .. })), "{refused:?}");
        assert_eq!(shared.get_in_memory(b"key", &mut Vec::new()), Some(Some(0)));
        assert!(Instant::now() < end, "{:?}", shared.local_counters());
    }
    drop(others);
    eventually(|| shared.run(|client| client.set(b"key", b"later", 0, 0)));
    Ok(())
}

/// A key that no line of memcached's protocol holds is refused by the client.
#[test]
fn keys_that_are_not_text_are_as_long_as_base64_allows() {
    let server = Local::start("-t 1");
    let mut link = server.link();
    for length in [1, 185, 186] {
        let key = vec![b' '; length];
        assert_eq!(link.call(&Operation::set(&key, b"value")).unwrap().outcome, Outcome::Ok);
        assert_eq!(link.get(&key, &mut Vec::new()).unwrap(), Some(0));
    }
    for operation in [Operation::set(&[b' '; 187], b"value"), Operation::get(&[b' '; 250])] {
        let refused = link.call(&operation);
        assert!(matches!(refused, Err(Error::KeyNotText)), "{refused:?}");
    }
    let refused = link.call(&Operation::set(&[b' '; 251], b"value"));
    assert!(matches!(refused, Err(Error::BadKey)), "{refused:?}");
}
