//! Ends and beginnings: killed servers, images, forks, stopped servers, logins, limits.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use micanite_client::{Builder, Client, Error, LocalLink, LocalUrl, Operation, Options, Outcome};
use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket};

use super::children::Child;
use super::{DEADLINE, Local};

/// Tries until a call succeeds.
pub fn eventually<T>(mut call: impl FnMut() -> Result<T, Error>) -> T {
    let end = Instant::now() + DEADLINE;
    loop {
        match call() {
            Ok(value) => return value,
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// After a kill no old item is returned: calls fail until there is a server, whose items are the only ones.
#[test]
fn a_killed_server_is_noticed_and_found_again() -> Result<(), Error> {
    let mut server = Local::start("-t 2");
    let mut client = server.client();
    client.set(b"old", b"1", 0, 0)?;
    assert!(client.get(b"old")?.is_some());
    drop(server.server.take());
    for _ in 0..100 {
        let error = client.get(b"old").unwrap_err();
        assert!(matches!(error, Error::Unreachable { .. }), "{error}");
        assert!(error.to_string().contains("--local"), "{error}");
    }
    assert!(client.set(b"new", b"2", 0, 0).is_err());
    server.restart();
    assert_eq!(eventually(|| client.get(b"old")), None);
    client.set(b"new", b"2", 0, 0)?;
    assert_eq!(client.get(b"new")?.unwrap().bytes, b"2");
    assert_eq!(client.local_link().unwrap().counters().attached, 2);
    Ok(())
}

/// A client of an image goes on with the next server, and sees what this one wrote meanwhile.
#[test]
fn an_image_is_read_through_a_kill() -> Result<(), Error> {
    let directory = std::env::temp_dir().join(format!("micanite-local-image-{}", std::process::id()));
    for semantics in ["", " -M"] {
        let mut server = Local::start(&format!("-t 2 --image {}{semantics}", directory.display()));
        let mut client = server.client();
        for round in 0..3_u8 {
            client.set(b"key", &[round; 100], 0, 0)?;
            assert_eq!(client.get(b"key")?.unwrap().bytes, [round; 100]);
            server.restart();
            let found = eventually(|| client.get(b"key"));
            assert_eq!(found.unwrap().bytes, [round; 100]);
        }
        drop(client);
        drop(server);
        std::fs::remove_dir_all(&directory).unwrap();
    }
    Ok(())
}

/// Both processes of a fork go on; the child has an attachment of its own.
#[test]
fn the_child_of_a_fork_attaches_anew() -> Result<(), Error> {
    let server = Local::start("-t 2");
    let mut client = server.client();
    client.set(b"key", b"value", 0, 0)?;
    let mut works = || -> Result<bool, Error> {
        let found = client.get(b"key")?.is_some_and(|value| value.bytes == b"value");
        client.set(b"child", b"1", 0, 0)?;
        let own = client.get(b"child")?.is_some();
        Ok(found && own && client.local_link().is_some_and(|link| link.counters().attached == 2))
    };
    Child::start(|| works().unwrap_or(false)).end();
    assert_eq!(client.get(b"child")?.unwrap().bytes, b"1");
    assert_eq!(client.local_link().unwrap().counters().attached, 1);
    server.await_stat("local", "local_clients", |clients| clients == 1);
    assert_eq!(server.stat("local", "local_attached"), 2);
    Ok(())
}

/// Requests on their way at a fork are the parent's: in the child they end as unknown, and the parent loses
/// no reply.
#[test]
fn requests_on_their_way_at_a_fork_are_the_parents() -> Result<(), Error> {
    let server = Local::start("-t 2");
    let mut link = server.link();
    let mut ended = Vec::new();
    for token in 0..100 {
        link.submit(link.now_ns(), &Operation::set(&[token], b"value"), token.into()).unwrap();
    }
    Child::start(|| {
        link.wait(1_000_000_000).unwrap();
        link.poll(link.now_ns(), |one| ended.push((one.token, one.outcome))).unwrap();
        let expected: Vec<_> = (0..100).map(|token| (token, Outcome::Unknown)).collect();
        let is_over = std::mem::take(&mut ended) == expected;
        is_over && link.call(&Operation::set(b"child", b"1")).is_ok()
    })
    .end();
    while ended.len() < 100 {
        link.poll(link.now_ns(), |one| ended.push((one.token, one.outcome))).unwrap();
        link.wait(1_000_000_000).unwrap();
    }
    assert!(ended.iter().all(|(_, outcome)| *outcome == Outcome::Ok));
    assert_eq!(link.get(b"child", &mut Vec::new())?, Some(0));
    Ok(())
}

/// Returns the bytes of shared memory that count as this process's.
fn resident_shared_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssShmem:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

/// Memory counts as a reader's when it has read it: an attachment alone takes less than a quarter of the 64
/// MiB.
#[test]
fn a_reader_is_as_large_as_what_it_reads() -> Result<(), Error> {
    let server = Local::start("-t 2");
    server.client().set(b"key", b"value", 0, 0)?;
    // A process of its own: other tests read memory, too.
    Child::start(|| {
        let before = resident_shared_bytes();
        let mut link = server.link();
        let is_found = link.get(b"key", &mut Vec::new()).is_ok_and(|found| found.is_some());
        is_found && link.reads_memory() && resident_shared_bytes() - before < 16 << 20
    })
    .end();
    Ok(())
}

/// Gets need no server that runs. A get after an own write waits for it.
#[test]
fn a_stopped_server_is_read_and_own_writes_are_waited_for() -> Result<(), Error> {
    let server = Local::start("-t 2");
    let mut link = server.link();
    link.call(&Operation::set(b"key", b"old"))?;
    link.call(&Operation::set(b"other", b"value"))?;
    server.process().stop();
    let mut value = Vec::new();
    assert_eq!(link.get(b"key", &mut value)?, Some(0));
    assert_eq!(value, b"old");
    let now_ns = link.now_ns();
    link.submit(now_ns, &Operation::set(b"key", b"new"), 1).unwrap();
    link.poll(now_ns, |_| panic!("nobody answers")).unwrap();
    link.submit(now_ns, &Operation::get(b"key"), 2).unwrap();
    assert_eq!(link.poll(now_ns, |_| panic!("the write is not acknowledged")).unwrap(), 0);
    assert_eq!(link.get(b"other", &mut value)?, Some(0));
    server.process().resume();
    assert_eq!(link.get(b"key", &mut value)?, Some(0));
    assert_eq!(value, b"new");
    let mut ended = Vec::new();
    while ended.len() < 2 {
        link.poll(link.now_ns(), |completion| ended.push((completion.token, completion.value.to_vec())))
            .unwrap();
        link.wait(1_000_000_000).unwrap();
    }
    assert_eq!(ended, [(1, Vec::new()), (2, b"new".to_vec())]);
    Ok(())
}

/// A server that is stopped for too long ends a write as unknown, after its deadline.
#[test]
fn a_write_has_a_deadline() -> Result<(), Error> {
    let server = Local::start("");
    let options = Options { deadline_ns: 200_000_000, ..Options::default() };
    let mut client = Builder::default().server(&server.url()).options(options).connect()?;
    client.set(b"key", b"value", 0, 0)?;
    server.process().stop();
    let ended = client.set(b"key", b"other", 0, 0);
    assert!(matches!(ended, Err(Error::TimedOut { .. })), "{ended:?}");
    server.process().resume();
    eventually(|| client.set(b"key", b"last", 0, 0));
    assert_eq!(client.get(b"key")?.unwrap().bytes, b"last");
    Ok(())
}

/// A write that timed out costs the stream, and takes no read away: the memory is read until the server dies.
#[test]
fn reads_go_on_after_a_write_that_timed_out() -> Result<(), Error> {
    let mut server = Local::start("-t 2");
    let options = Options { deadline_ns: 200_000_000, ..Options::default() };
    let url = LocalUrl::parse(&server.url()).unwrap();
    let mut link = LocalLink::connect(&url, &options)?;
    link.call(&Operation::set(b"key", b"value"))?;
    server.process().stop();
    let mut value = Vec::new();
    for round in 0..3 {
        let ended = link.call(&Operation::set(b"other", b"value"));
        let is_lost = matches!(ended, Err(Error::TimedOut { .. } | Error::Unreachable { .. }));
        assert!(is_lost, "{round}: {ended:?}");
        for _ in 0..1000 {
            assert_eq!(link.get(b"key", &mut value)?, Some(0));
            assert_eq!(value, b"value");
        }
        link.get_many(&[b"key", b"none"], |index, found| assert_eq!(found.is_some(), index == 0))?;
        let mut ended = Vec::new();
        link.submit(link.now_ns(), &Operation::get(b"key"), 1).unwrap();
        link.poll(link.now_ns(), |one| ended.push((one.token, one.value.to_vec()))).unwrap();
        assert_eq!(ended, [(1, b"value".to_vec())]);
    }
    assert_eq!((link.counters().asked, link.counters().attached), (0, 1));
    server.process().resume();
    eventually(|| link.call(&Operation::set(b"key", b"last")));
    assert_eq!(link.get(b"key", &mut value)?, Some(0));
    assert_eq!((&value[..], link.counters().asked), (&b"last"[..], 0));
    drop(server.server.take());
    assert!(matches!(link.get(b"key", &mut value), Err(Error::Unreachable { .. })));
    Ok(())
}

/// A link whose place is the last one lets its memory go to get a stream, also where threads share it.
#[test]
fn a_link_with_the_last_place_gets_another_stream() -> Result<(), Error> {
    let server = Local::start("--local-clients 1");
    let options = Options { deadline_ns: 200_000_000, ..Options::default() };
    let mut link = LocalLink::connect(&LocalUrl::parse(&server.url()).unwrap(), &options)?;
    server.process().stop();
    assert!(link.call(&Operation::set(b"key", b"value")).is_err());
    server.process().resume();
    eventually(|| link.call(&Operation::set(b"key", b"value")));
    assert_eq!(link.get(b"key", &mut Vec::new())?, Some(0));
    drop(link);
    let connect = || Builder::default().server(&server.url()).options(options.clone()).connect_shared();
    let shared = eventually(connect);
    server.process().stop();
    assert!(shared.run(|client| client.set(b"key", b"other", 0, 0)).is_err());
    server.process().resume();
    eventually(|| shared.run(|client| client.set(b"key", b"other", 0, 0)));
    let mut value = Vec::new();
    assert_eq!((shared.get_in_memory(b"key", &mut value), &value[..]), (Some(Some(0)), &b"other"[..]));
    Ok(())
}

/// Operations whose server dies before a call are completed all the same: the call fails, and they end.
#[test]
fn a_call_after_the_servers_end_loses_no_completion() {
    let mut server = Local::start("-t 2");
    let mut link = server.link();
    server.process().stop();
    for token in 0..100 {
        link.submit(link.now_ns(), &Operation::set(&[token], b"value"), token.into()).unwrap();
    }
    assert_eq!(link.poll(link.now_ns(), |one| panic!("{one:?}")).unwrap(), 0);
    drop(server.server.take());
    let failed = link.call(&Operation::set(b"key", b"value"));
    assert!(matches!(failed, Err(Error::Unreachable { .. })), "{failed:?}");
    let mut ended = Vec::new();
    link.poll(link.now_ns(), |one| ended.push((one.token, one.outcome))).unwrap();
    let expected: Vec<_> = (0..100).map(|token| (token, Outcome::Unknown)).collect();
    assert_eq!(ended, expected);
}

/// Operations that were submitted to the link of a client are completed there, whatever the client does.
#[test]
fn calls_of_a_client_lose_no_completion_of_its_link() -> Result<(), Error> {
    let server = Local::start("-t 2");
    let mut client = server.client();
    let link = client.local_link().unwrap();
    for token in 0..10 {
        link.submit(link.now_ns(), &Operation::set(&[token], b"value"), token.into()).unwrap();
    }
    client.set(b"other", b"value", 0, 0)?;
    client.gets(b"other")?;
    assert!(client.batch(&[Operation::noop()])[0].is_ok());
    let (link, mut ended) = (client.local_link().unwrap(), Vec::new());
    link.poll(link.now_ns(), |one| ended.push((one.token, one.outcome))).unwrap();
    let expected: Vec<_> = (0..10).map(|token| (token, Outcome::Ok)).collect();
    assert_eq!(ended, expected);
    Ok(())
}

/// Threads that share a client get what is in memory without waiting for another thread's write.
#[test]
fn threads_get_from_memory_while_one_waits_for_a_write() -> Result<(), Error> {
    let server = Local::start("-t 2");
    let options = Options { deadline_ns: super::DEADLINE_NS, ..Options::default() };
    let client = Builder::default().server(&server.url()).options(options).connect_shared()?;
    client.run(|client| client.set(b"key", b"value", 0, 0))?;
    server.process().stop();
    std::thread::scope(|scope| {
        let (begins, began) = std::sync::mpsc::channel();
        let write = scope.spawn(|| {
            client.run(move |client| {
                begins.send(()).unwrap();
                client.set(b"other", b"value", 0, 0)
            })
        });
        began.recv_timeout(DEADLINE).unwrap();
        let mut value = Vec::new();
        for _ in 0..1000 {
            assert_eq!(client.get_in_memory(b"key", &mut value), Some(Some(0)));
            assert_eq!(client.get_in_memory(b"none", &mut value), Some(None));
        }
        let found = client.multi_get(&[b"key", b"none"])?;
        assert_eq!(found[0].as_ref().map(|value| &value.bytes[..]), Some(&b"value"[..]));
        assert_eq!(found[1], None);
        assert!(!write.is_finished());
        server.process().resume();
        let _ = write.join().unwrap();
        Ok(())
    })
}

/// With users (`-Y`) nobody attaches without a password.
#[test]
fn a_login_is_asked_for_where_there_are_users() -> Result<(), Error> {
    let users = std::env::temp_dir().join(format!("micanite-local-users-{}", std::process::id()));
    std::fs::write(&users, "me:secret\n").unwrap();
    let server = Local::start(&format!("-Y {} --allow-unauthenticated native", users.display()));
    for login in ["", "?user=me&password=wrong", "?user=you&password=secret"] {
        let refused = Client::connect(&format!("{}{login}", server.url())).unwrap_err();
        assert!(matches!(refused, Error::Login { .. }), "{refused}");
        assert!(!refused.to_string().contains("secret"), "{refused}");
    }
    let mut client = Client::connect(&format!("{}?user=me&password=secret", server.url()))?;
    client.set(b"key", b"value", 0, 0)?;
    assert_eq!(client.get(b"key")?.unwrap().bytes, b"value");
    std::fs::remove_file(users).unwrap();
    Ok(())
}

/// The number of readers is bounded, and a place is free again when one goes.
#[test]
fn readers_are_bounded() {
    let server = Local::start("--local-clients 2");
    let (first, second) = (server.link(), server.link());
    let url = LocalUrl::parse(&server.url()).unwrap();
    let refused = LocalLink::connect(&url, &Options::default()).unwrap_err();
    assert!(matches!(refused, Error::ServerFull { .. }), "{refused}");
    drop(first);
    let third = Arc::new(eventually(|| LocalLink::connect(&url, &Options::default())));
    assert!(third.reads_memory() && second.reads_memory());
}

/// A server that dies while a batch is read has no further part in it.
#[test]
fn a_batch_returns_nothing_of_a_server_that_died_in_it() -> Result<(), Error> {
    let mut server = Local::start("-t 2");
    let mut link = server.link();
    link.call(&Operation::set(b"key", b"value"))?;
    let mut taken = 0;
    let result = link.get_many(&[&b"key"[..]; 64], |_, found| {
        assert!(found.is_some());
        taken += 1;
        drop(server.server.take());
    });
    assert!(matches!(result, Err(Error::Unreachable { .. })), "{result:?}");
    assert_eq!(taken, 1);
    Ok(())
}

/// A server that is stopped while others wait for it keeps nobody longer than the deadline.
#[test]
fn an_attachment_has_a_deadline_where_many_wait() {
    let path = std::env::temp_dir().join(format!("micanite-local-backlog-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let listener = socket(AddressFamily::Unix, SockType::Stream, SockFlag::empty(), None).unwrap();
    bind(listener.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
    listen(&listener, Backlog::new(0).unwrap()).unwrap();
    let _waits = UnixStream::connect(&path).unwrap();
    let url = LocalUrl::parse(&format!("local://{}", path.display())).unwrap();
    let (ended, ends) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let options = Options { deadline_ns: 100_000_000, ..Options::default() };
        ended.send(LocalLink::connect(&url, &options).map(|_| ())).unwrap();
    });
    let refused = ends.recv_timeout(DEADLINE).expect("an end");
    assert!(matches!(refused, Err(Error::Unreachable { .. })), "{refused:?}");
    std::fs::remove_file(path).unwrap();
}

/// An item that has ended for a client of the native protocol has ended for a reader.
#[test]
fn a_reader_is_in_no_earlier_second_than_other_clients() -> Result<(), Error> {
    let server = Local::start("");
    let mut link = server.link();
    let mut native = Client::connect(&server.server.as_ref().unwrap().native)?;
    let end = Instant::now() + DEADLINE;
    for round in 0..4_u8 {
        native.set(&[round], b"value", 0, 1)?;
        while native.get(&[round])?.is_some() {
            assert!(Instant::now() < end, "it does not expire");
        }
        assert_eq!(link.get(&[round], &mut Vec::new())?, None, "{round}");
    }
    Ok(())
}
