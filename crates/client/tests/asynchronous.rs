//! The client for tokio, against a real server.
#![cfg(feature = "async")]

mod common;
#[path = "asynchronous/streams.rs"]
mod streams;
#[path = "asynchronous/turns.rs"]
mod turns;

use common::Server;
use micanite_client::{AsyncClient, Builder, CasOutcome, Error, Options};

#[test]
fn server_process() {
    common::serve_if_child();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_share_a_client() -> Result<(), Error> {
    let server = Server::start("-t 2");
    let client = AsyncClient::connect(&server.native).await?;
    client.set(b"sum", b"0", 0, 0).await?;
    let task = |number: u64| {
        let client = client.clone();
        tokio::spawn(async move {
            for round in 0..50 {
                let key = format!("key {number} {round}");
                client.set(key.as_bytes(), key.as_bytes(), 3, 0).await?;
                let found = client.gets(key.as_bytes()).await?.unwrap_or_default();
                assert_eq!((found.bytes, found.flags), (key.clone().into_bytes(), 3));
                let unique = found.cas.unwrap_or_default();
                let stored = client.cas(key.as_bytes(), b"new", unique, (0, 0)).await?;
                assert_eq!(stored, CasOutcome::Stored);
                assert!(client.increment(b"sum", 1).await?.is_some());
                assert!(client.delete(key.as_bytes()).await?);
            }
            Ok::<_, Error>(())
        })
    };
    let tasks: Vec<_> = (0..64).map(task).collect();
    for task in tasks {
        task.await.unwrap()?;
    }
    assert_eq!(client.get(b"sum").await?.unwrap_or_default().bytes, b"3200");

    let long = vec![b'v'; 300_000];
    client.set(b"long", &long, 0, 0).await?;
    assert_eq!(client.get(b"long").await?.unwrap_or_default().bytes, long);
    assert!(matches!(client.get(b"").await, Err(Error::BadKey)));
    Ok(())
}

/// Proves that a CAS store gives an item flags and an expiry of its own.
#[tokio::test]
async fn a_cas_store_has_flags_and_an_expiry() -> Result<(), Error> {
    let server = Server::start("-t 1");
    let client = AsyncClient::connect(&server.native).await?;
    client.set(b"key", b"old", 3, 0).await?;
    let unique = client.gets(b"key").await?.and_then(|found| found.cas).unwrap_or_default();
    assert_eq!(client.cas(b"key", b"new", unique, (7, 2)).await?, CasOutcome::Stored);
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let mut flags = Vec::new();
    while let Some(found) = client.get(b"key").await? {
        assert!(std::time::Instant::now() < end, "it does not expire");
        flags.push(found.flags);
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(!flags.is_empty() && flags.iter().all(|flags| *flags == 7), "{flags:?}");
    Ok(())
}

/// Proves that each key has its own result: those of a server that lives, though another one is dead, and
/// those beside a key that cannot be one.
#[tokio::test]
async fn a_dead_server_takes_no_other_value_away() -> Result<(), Error> {
    let (first, second) = (Server::start("-t 1"), Server::start("-t 1"));
    let builder = Builder::default().server(&first.native).server(&second.native);
    let client = builder.connect_async().await?;
    let names: Vec<_> = (0..64).map(|number| format!("key {number}")).collect();
    for name in &names {
        client.set(name.as_bytes(), name.as_bytes(), 0, 0).await?;
    }
    drop(second);
    let mut keys: Vec<_> = names.iter().map(String::as_bytes).collect();
    keys.push(b"");
    let found = client.get_each(&keys).await;
    assert!(matches!(found.last(), Some(Err(Error::BadKey))));
    let (mut there, mut lost) = (0, 0);
    for (name, found) in names.iter().zip(&found) {
        match found {
            Ok(Some(value)) => {
                assert_eq!(value.bytes, name.as_bytes());
                there += 1;
            }
            Ok(None) => panic!("{name} is missing"),
            Err(_) => lost += 1,
        }
    }
    assert!(there > 8 && lost > 8, "{there} there, {lost} lost");
    assert!(client.multi_get(&keys).await.is_err());
    Ok(())
}

/// Found by `many_tasks_share_a_client` on a busy machine: if everything in flight was answered
/// before the task looked, a call that had been refused for lack of room waited for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_wait_for_room_are_not_forgotten() -> Result<(), Error> {
    let server = Server::start("-t 2");
    let options = Options { datagrams: 1, ..Options::default() };
    let builder = Builder::default().server(&server.native).options(options);
    let client = builder.connect_async().await?;
    let task = |number: u64| {
        let client = client.clone();
        tokio::spawn(async move {
            for round in 0..300 {
                let key = format!("key {number} {round}");
                client.set(key.as_bytes(), &[7; 1000], 0, 0).await?;
            }
            Ok::<_, Error>(())
        })
    };
    let tasks: Vec<_> = (0..32).map(task).collect();
    for task in tasks {
        task.await.unwrap()?;
    }
    Ok(())
}

/// Calls that wait for room at a server that stands still keep no call to another one waiting, and end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stands_still_does_not_block_the_others() -> Result<(), Error> {
    let servers = [Server::start("-t 1"), Server::start("-t 1")];
    // Without the reply of the other server, this long.
    let options = Options { deadline_ns: 5_000_000_000, ..Options::default() };
    let list = servers.iter().fold(Builder::default(), |list, server| list.server(&server.native));
    let builder = list.options(options);
    let client = builder.clone().connect_async().await?;
    let blocking = tokio::task::spawn_blocking(|| builder.connect()).await.unwrap()?;
    let driver = blocking.link().unwrap().driver();
    let key = |of: usize| (0_u64..).map(u64::to_le_bytes).find(|key| driver.server_of(key) == of).unwrap();
    let (still, lives) = (key(0), key(1));
    client.set(&still, b"0", 0, 0).await?;
    client.set(&lives, b"value", 0, 0).await?;
    servers[0].stop();
    // More than a server remembers, and than calls wait for one.
    let (ends, mut ended) = tokio::sync::mpsc::unbounded_channel();
    for _ in 0..3000 {
        let (client, ends) = (client.clone(), ends.clone());
        tokio::spawn(async move { ends.send(client.increment(&still, 1).await) });
    }
    drop(ends);
    // Until all of them have begun.
    tokio::task::yield_now().await;
    for _ in 0..1000 {
        assert_eq!(client.get(&lives).await?.unwrap_or_default().bytes, b"value");
    }
    let mut lost = 0;
    // A slow machine may find the server silent by now, and give up calls that were not sent.
    while let Ok(early) = ended.try_recv() {
        assert!(matches!(early, Err(Error::Unreachable { .. })), "{early:?}");
        lost += 1;
    }
    assert!(lost < 3000);
    while let Some(answer) = ended.recv().await {
        let is_lost = matches!(answer, Err(Error::TimedOut { .. } | Error::Unreachable { .. }));
        assert!(is_lost, "{answer:?}");
        lost += 1;
    }
    assert_eq!(lost, 3000);
    servers[0].resume();
    Ok(())
}

/// Returns the descriptors of this process's UDP sockets.
fn udp_descriptors() -> Vec<i32> {
    let table = std::fs::read_to_string("/proc/self/net/udp").unwrap();
    let is_udp = |name: &str| {
        let inode = name.strip_prefix("socket:[").and_then(|name| name.strip_suffix(']'));
        inode.is_some_and(|inode| table.lines().any(|line| line.split_whitespace().nth(9) == Some(inode)))
    };
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    let names = descriptors.filter_map(|path| Some((path.clone(), std::fs::read_link(path).ok()?)));
    let found = names.filter(|(_, name)| name.to_str().is_some_and(is_udp));
    found.map(|(path, _)| path.file_name().unwrap().to_str().unwrap().parse().unwrap()).collect()
}

/// Makes a descriptor the copy of another one.
#[expect(unsafe_code, reason = "dup2 replaces a descriptor that somebody else owns")]
fn replace(descriptor: i32, by: i32) {
    // SAFETY: the descriptor stays open, and nobody relies on what it is but the client under test.
    assert_eq!(unsafe { libc::dup2(by, descriptor) }, descriptor);
}

/// Returns the bytes that wait in the UDP socket of a server with one worker.
fn queued_bytes(native: &str) -> u64 {
    let base: u16 = native.rsplit_once(':').unwrap().1.parse().unwrap();
    let table = std::fs::read_to_string("/proc/self/net/udp").unwrap();
    let queued = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        let port = u16::from_str_radix(words[1].rsplit_once(':')?.1, 16).ok()?;
        let bytes = u64::from_str_radix(words[4].rsplit_once(':')?.1, 16).ok()?;
        (port == base).then_some(bytes)
    };
    table.lines().skip(1).filter_map(queued).sum()
}

/// Waits for a condition.
async fn until(condition: impl Fn() -> bool) {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while !condition() {
        assert!(std::time::Instant::now() < end, "it does not come");
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

/// An error of the sockets ends the calls of the time, and not those that come later. A write that was sent
/// may be executed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_goes_on_after_an_error_of_its_sockets() -> Result<(), Error> {
    use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
    let server = Server::start("-t 1");
    let before = udp_descriptors();
    let client = AsyncClient::connect(&server.native).await?;
    client.set(b"key", b"value", 0, 0).await?;
    let opened: Vec<_> = udp_descriptors().into_iter().filter(|one| !before.contains(one)).collect();
    assert!(!opened.is_empty());
    let null = std::fs::File::open("/dev/null")?;
    #[expect(unsafe_code, reason = "a descriptor is copied by its number")]
    // SAFETY: the client is open.
    let copy = |one: &i32| unsafe { BorrowedFd::borrow_raw(*one) }.try_clone_to_owned().unwrap();
    let kept: Vec<OwnedFd> = opened.iter().map(copy).collect();
    for _ in 0..3 {
        // The server stands still, so that a write is on its way when the sockets fail.
        until(|| queued_bytes(&server.native) == 0).await;
        server.stop();
        let mut set = Box::pin(client.set(b"other", b"value", 0, 0));
        assert!(poll_once(&mut set).await.is_none());
        until(|| queued_bytes(&server.native) > 0).await;
        opened.iter().for_each(|one| replace(*one, null.as_raw_fd()));
        let (written, failed) = (set.await, client.get(b"key").await);
        server.resume();
        assert!(matches!(written, Err(Error::OutcomeUnknown)), "{written:?}");
        assert!(matches!(failed, Err(Error::Io(_))), "{failed:?}");
        opened.iter().zip(&kept).for_each(|(one, kept)| replace(*one, kept.as_raw_fd()));
        // The task may be within its pause, or in the middle of another error.
        let end = std::time::Instant::now() + std::time::Duration::from_secs(120);
        let found = loop {
            match client.get(b"key").await {
                Ok(found) => break found,
                Err(error) => assert!(std::time::Instant::now() < end, "{error}"),
            }
        };
        assert_eq!(found.unwrap_or_default().bytes, b"value");
    }
    Ok(())
}

/// A server on the same host, and the path of its socket.
fn local_server(name: &str) -> (Server, String) {
    let path = std::env::temp_dir().join(format!("micanite-async-{name}-{}", std::process::id()));
    let server = Server::start(&format!("-t 2 --local {}", path.display()));
    (server, format!("local://{}", path.display()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_share_the_memory_of_a_server_on_the_same_host() -> Result<(), Error> {
    let (_server, url) = local_server("many");
    let client = AsyncClient::connect(&url).await?;
    client.set(b"sum", b"0", 0, 0).await?;
    let task = |number: u64| {
        let client = client.clone();
        tokio::spawn(async move {
            for round in 0..20 {
                let key = format!("key {number} {round}");
                client.set(key.as_bytes(), key.as_bytes(), 3, 0).await?;
                let found = client.get(key.as_bytes()).await?.unwrap_or_default();
                assert_eq!((found.bytes, found.flags), (key.clone().into_bytes(), 3));
                assert!(client.increment(b"sum", 1).await?.is_some());
                assert!(client.delete(key.as_bytes()).await?);
                assert_eq!(client.get(key.as_bytes()).await?, None);
            }
            Ok::<_, Error>(())
        })
    };
    let tasks: Vec<_> = (0..16).map(task).collect();
    for task in tasks {
        task.await.unwrap()?;
    }
    let keys: [&[u8]; 2] = [b"sum", b"none"];
    let found = client.multi_get(&keys).await?;
    assert_eq!(found[0].as_ref().map(|value| &value.bytes[..]), Some(&b"320"[..]));
    assert_eq!(found[1], None);
    assert!(matches!(client.get(b"").await, Err(Error::BadKey)));
    Ok(())
}

/// A get after a write whose caller has lost interest waits for that write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_get_waits_for_an_abandoned_write() -> Result<(), Error> {
    let (_server, url) = local_server("abandoned");
    let client = AsyncClient::connect(&url).await?;
    for round in 0..200_u32 {
        let value = round.to_le_bytes();
        let set = client.set(b"key", &value, 0, 0);
        // Polled once, and dropped.
        let begun = tokio::time::timeout(std::time::Duration::ZERO, set).await;
        drop(begun);
        let found = client.get(b"key").await?.unwrap_or_default();
        assert_eq!(found.bytes, value, "{round}");
    }
    Ok(())
}

/// Gets of other keys do not wait for a write on its way, but for those that share its place in the table of
/// writes. These read the memory afterwards. Two writes have no such key in common, unless they share a place
/// themselves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_on_its_way_makes_few_other_gets_wait() -> Result<(), Error> {
    let (server, url) = local_server("waits");
    let options = Options { deadline_ns: 30_000_000_000, ..Options::default() };
    let client = Builder::default().server(&url).options(options).connect_async().await?;
    let keys: Vec<_> = (0..4096).map(|number| format!("key {number}").into_bytes()).collect();
    let mut waiting: Vec<Vec<usize>> = Vec::new();
    let mut next = 0;
    for _ in 0..2 {
        server.stop();
        let mut set = Box::pin(client.set(&keys[next], b"value", 0, 0));
        assert!(poll_once(&mut set).await.is_none());
        let (mut waits, mut gets) = (Vec::new(), Vec::new());
        for (number, key) in keys.iter().enumerate() {
            let mut get = Box::pin(client.get(key));
            match poll_once(&mut get).await {
                Some(found) => drop(found?),
                None => {
                    waits.push(number);
                    gets.push(get);
                }
            }
        }
        let mut first = gets.swap_remove(0);
        drop(gets);
        server.resume();
        set.await?;
        // After the write the memory answers, whatever the server does.
        server.stop();
        let found = tokio::time::timeout(std::time::Duration::from_secs(15), &mut first).await;
        assert!(matches!(found, Ok(Ok(_))), "{found:?}");
        server.resume();
        assert!(waits.contains(&next) && waits.len() < 100, "{}", waits.len());
        next = (0..keys.len()).find(|number| !waits.contains(number)).unwrap();
        waiting.push(waits);
    }
    let both: Vec<_> = waiting[0].iter().filter(|number| waiting[1].contains(number)).collect();
    assert!(both.is_empty(), "{both:?}");
    Ok(())
}

/// Polls a future once.
async fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    let once = std::future::poll_fn(|context| match std::pin::Pin::new(&mut *future).poll(context) {
        std::task::Poll::Ready(output) => std::task::Poll::Ready(Some(output)),
        std::task::Poll::Pending => std::task::Poll::Ready(None),
    });
    once.await
}

/// Calls fail while there is no server, and work with the next one, whose items are the only ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_on_the_same_host_is_found_again() -> Result<(), Error> {
    let (server, url) = local_server("killed");
    let client = AsyncClient::connect(&url).await?;
    client.set(b"old", b"1", 0, 0).await?;
    drop(server);
    assert!(client.get(b"old").await.is_err());
    let (_server, _) = local_server("killed");
    let end = std::time::Instant::now() + std::time::Duration::from_secs(120);
    loop {
        match client.get(b"old").await {
            Ok(found) => break assert_eq!(found, None),
            Err(error) => assert!(std::time::Instant::now() < end, "{error}"),
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    client.set(b"new", b"2", 0, 0).await?;
    assert_eq!(client.get(b"new").await?.unwrap_or_default().bytes, b"2");
    Ok(())
}
