//! A server whose workers stand while it welcomes clients.

use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use micanite_client::{Builder, Client, Error, Operation, Options};
use nix::poll::{PollFd, PollFlags, poll};

use super::Local;
use super::hostile::Attached;
use super::relay::Relay;
#[cfg(feature = "async")]
use super::relay::unsealed;

/// Welcomes a client. Returns the server's end of its stream, which nobody answers, and what to keep open.
fn welcome_in_silence(relay: &Relay<'_>) -> (UnixStream, (Attached, UnixStream)) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (ours, relay.welcome(|attached| attached.requests = OwnedFd::from(theirs)))
}

/// Attaching had a deadline of its own, and the reply over the new stream another one: for a read whose
/// stream ends while it waits, and which is repeated, and for a write whose stream has ended before.
#[test]
fn a_call_over_a_new_stream_ends_within_its_deadline() {
    type Call = fn(&mut Client) -> Result<(), Error>;
    let calls: [(Call, bool); 2] = [
        (|client| client.gets(b"key").map(drop), true),
        (|client| client.set(b"key", b"value", 0, 0), false),
    ];
    let server = Local::start("-t 2");
    let relay = Relay::new(&server);
    let deadline = Duration::from_secs(4);
    let options = || Options { deadline_ns: deadline.as_nanos() as u64, ..Options::default() };
    for (call, is_sent_before) in calls {
        std::thread::scope(|scope| {
            let client =
                scope.spawn(|| Builder::default().server(&relay.url()).options(options()).connect().unwrap());
            let mut first = Some(welcome_in_silence(&relay));
            let mut client = client.join().unwrap();
            first.take_if(|_| !is_sent_before);
            let called = scope.spawn(move || {
                let began = Instant::now();
                (call(&mut client), began.elapsed())
            });
            if let Some(first) = &mut first {
                assert!(first.0.read(&mut [0; 100]).unwrap() > 0);
            }
            std::thread::sleep(deadline * 3 / 4);
            drop(first);
            let second = welcome_in_silence(&relay);
            let (ended, took) = called.join().unwrap();
            assert!(ended.is_err() && took < deadline * 3 / 2, "{ended:?} after {took:?}");
            drop(second);
        });
    }
}

/// A server whose worker stands while it welcomes clients: each wave of a batch waited for it.
#[test]
fn a_batch_at_a_silent_server_waits_two_deadlines() {
    let server = Local::start("-t 2");
    let relay = Relay::new(&server);
    let deadline = Duration::from_secs(1);
    let options = Options { deadline_ns: deadline.as_nanos() as u64, ..Options::default() };
    let (ended, is_over) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let relay = &relay;
        scope.spawn(move || {
            let mut client = Builder::default().server(&relay.url()).options(options).connect().unwrap();
            let value = vec![b'v'; 200_000];
            let operations: Vec<_> = (0..40).map(|_| Operation::set(b"key", &value)).collect();
            let began = Instant::now();
            let answers = client.batch(&operations);
            ended.send((answers, began.elapsed())).unwrap();
        });
        let mut streams = Vec::new();
        relay.listener.set_nonblocking(true).unwrap();
        let (answers, took) = loop {
            if let Ok(over) = is_over.try_recv() {
                break over;
            }
            let mut waiting = [PollFd::new(relay.listener.as_fd(), PollFlags::POLLIN)];
            if poll(&mut waiting, 10_u8).unwrap() > 0 {
                streams.push(welcome_in_silence(relay));
            }
        };
        assert!(answers.iter().all(Result::is_err));
        assert!(took < deadline * 6, "{took:?} over {} streams", streams.len());
    });
}

/// A server that does not answer for one of many keys is not asked for the others.
#[cfg(feature = "async")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_keys_of_a_task_wait_for_a_silent_server_once() -> Result<(), Error> {
    let server = Local::start("-t 2");
    let relay = Relay::new(&server);
    let options = Options { deadline_ns: 1_000_000_000, ..Options::default() };
    let builder = Builder::default().server(&relay.url()).options(options);
    let connected = tokio::spawn(builder.connect_async());
    let (ours, theirs) = UnixStream::pair().unwrap();
    let attached = relay.welcome(|attached| {
        attached.requests = OwnedFd::from(theirs);
        // Gets are requests, because this memory is not read.
        attached.partitions[0] = unsealed(&attached.partitions[0]).1;
    });
    let client = connected.await.unwrap()?;
    let found = client.get_each(&[b"a", b"b", b"", b"c"]).await;
    drop((ours, attached));
    assert!(matches!(found[2], Err(Error::BadKey)), "{found:?}");
    // Each further question would have found no stream.
    let is_late = |number: &usize| matches!(found[*number], Err(Error::TimedOut { .. }));
    assert!([0, 1, 3].iter().all(is_late), "{found:?}");
    Ok(())
}

/// A call that got its turn at the end of its deadline began another one.
#[cfg(feature = "async")]
#[test]
fn a_call_and_its_wait_for_the_link_share_a_deadline() {
    let server = Local::start("-t 2");
    let relay = Relay::new(&server);
    let deadline = Duration::from_secs(2);
    let options = Options { deadline_ns: deadline.as_nanos() as u64, ..Options::default() };
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    relay.listener.set_nonblocking(true).unwrap();
    let (first, (second, took)) = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut streams = Vec::new();
            while !is_over.load(std::sync::atomic::Ordering::Acquire) {
                let mut waiting = [PollFd::new(relay.listener.as_fd(), PollFlags::POLLIN)];
                if poll(&mut waiting, 10_u8).unwrap() > 0 {
                    streams.push(welcome_in_silence(&relay));
                }
            }
        });
        let called = runtime.block_on(async {
            let client = Builder::default().server(&relay.url()).options(options).connect_async().await?;
            let second = async {
                tokio::time::sleep(deadline / 2).await;
                let began = Instant::now();
                let ended = client.set(b"key", b"two", 0, 0).await;
                (ended, began.elapsed())
            };
            Ok::<_, Error>(tokio::join!(client.set(b"key", b"one", 0, 0), second))
        });
        is_over.store(true, std::sync::atomic::Ordering::Release);
        called.unwrap()
    });
    assert!(first.is_err() && second.is_err(), "{first:?}, {second:?}");
    assert!(took < deadline * 5 / 4, "{took:?}");
}
