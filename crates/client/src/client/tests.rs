//! Clients of a server that loses requests with ids.

use super::*;
use crate::driver::tests::fake::Fake;
use crate::options::Options;
use micanite_wire::native::{Header, Kind, PartitionAccess, Requests};
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(2);

/// A server that remembers two ids, until it is dropped.
struct Server {
    name: String,
    loses: Arc<AtomicBool>,
    /// It lost a request with an id.
    has_lost: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
    }
}

impl Server {
    fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let address = socket.local_addr().unwrap();
        let flag = |value| Arc::new(AtomicBool::new(value));
        let server = Self {
            name: address.to_string(),
            loses: flag(true),
            has_lost: flag(false),
            is_over: flag(false),
        };
        let (loses, has_lost) = (Arc::clone(&server.loses), Arc::clone(&server.has_lost));
        let is_over = Arc::clone(&server.is_over);
        std::thread::spawn(move || {
            let mut fake = Fake::new(&address.to_string(), 1, 4, PartitionAccess::Erew);
            fake.facts.ids_window = 2;
            let mut bytes = [0; 2048];
            while !is_over.load(Ordering::Acquire) {
                let Ok((count, from)) = socket.recv_from(&mut bytes) else {
                    continue;
                };
                let datagram = &bytes[..count];
                if has_id(datagram) && loses.load(Ordering::Acquire) {
                    has_lost.store(true, Ordering::Release);
                } else if let Some(reply) = fake.answer(address, datagram) {
                    socket.send_to(&reply, from).unwrap();
                }
            }
        });
        server
    }

    fn builder(&self) -> Builder {
        let options = Options {
            deadline_ns: DEADLINE.as_nanos() as u64,
            dead_after_deadlines: 100,
            ..Options::default()
        };
        Client::builder().server(&self.name).options(options)
    }
}

fn has_id(datagram: &[u8]) -> bool {
    let header = Header::read(datagram).unwrap();
    let requests = (header.kind == Kind::Requests).then(|| Requests::check(datagram, header.count).unwrap());
    requests.into_iter().flatten().any(|request| request.id != 0)
}

/// The client's introduction to a server may fill the window of ids alone: requests wait for its end.
#[test]
fn requests_wait_for_the_room_of_an_introduction() -> Result<(), Error> {
    let server = Server::start();
    let mut client = server.builder().connect()?;
    client.set(b"n", b"0", 0, 0)?;
    let lost = client.increment(b"n", 1);
    assert!(matches!(lost, Err(Error::TimedOut { .. })), "{lost:?}");
    server.loses.store(false, Ordering::Release);
    assert_eq!(client.increment(b"n", 10)?, Some(10));
    Ok(())
}

/// As over the blocking client.
#[cfg(feature = "async")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_wait_for_the_room_of_an_introduction() -> Result<(), Error> {
    let server = Server::start();
    let client = server.builder().connect_async().await?;
    client.set(b"n", b"0", 0, 0).await?;
    let other = client.clone();
    let first = tokio::spawn(async move { other.increment(b"n", 1).await });
    while !server.has_lost.load(Ordering::Acquire) {
        tokio::task::yield_now().await;
    }
    // It has no room until the first one has ended, and time left then.
    tokio::time::sleep(DEADLINE / 2).await;
    let second = tokio::spawn(async move { client.increment(b"n", 10).await });
    let lost = first.await.unwrap();
    assert!(matches!(lost, Err(Error::TimedOut { .. })), "{lost:?}");
    server.loses.store(false, Ordering::Release);
    assert_eq!(second.await.unwrap()?, Some(10));
    Ok(())
}

/// Binds two sockets of 127.0.0.1 whose ports follow each other.
fn neighbours() -> [UdpSocket; 2] {
    loop {
        let first = UdpSocket::bind("127.0.0.1:0").unwrap();
        let next = first.local_addr().unwrap().port().wrapping_add(1);
        if let Ok(second) = UdpSocket::bind(("127.0.0.1", next)) {
            return [first, second];
        }
    }
}

/// Serves two cores, each of a node of its own if wanted, the second of which is deaf until it is told not to
/// be. Returns the address. The thread ends with the other end of the channel.
fn serve_deaf_core(
    access: PartitionAccess,
    is_deaf: &Arc<AtomicBool>,
    is_over: std::sync::mpsc::Receiver<()>,
) -> (String, std::thread::JoinHandle<()>) {
    let sockets = neighbours();
    let base = sockets[0].local_addr().unwrap();
    let deaf = Arc::clone(is_deaf);
    let served = std::thread::spawn(move || {
        let mut fake = Fake::new(&base.to_string(), 2, 4, access);
        fake.nodes = vec![0, u16::from(access == PartitionAccess::Crew)];
        fake.may_be_late = true;
        let mut bytes = [0; 2048];
        sockets.iter().for_each(|socket| socket.set_nonblocking(true).unwrap());
        while is_over.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            let mut is_idle = true;
            for (core, socket) in sockets.iter().enumerate() {
                let Ok((count, from)) = socket.recv_from(&mut bytes) else { continue };
                is_idle = false;
                let to = socket.local_addr().unwrap();
                let is_lost = core == 1 && deaf.load(Ordering::Acquire);
                if let Some(reply) = fake.answer(to, &bytes[..count]).filter(|_| !is_lost) {
                    socket.send_to(&reply, from).unwrap();
                }
            }
            if is_idle {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    });
    (base.to_string(), served)
}

/// Calls to a core that answers wait for none to a silent one, and those that were not sent say so.
#[cfg(feature = "async")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_wait_for_no_silent_core() -> Result<(), Error> {
    let (ended, is_over) = std::sync::mpsc::channel();
    let is_deaf = Arc::new(AtomicBool::new(true));
    let (base, served) = serve_deaf_core(PartitionAccess::Erew, &is_deaf, is_over);
    // Enough for the calls to a core that answers, on a machine that has little time for them.
    let deadline_ns = 2 * DEADLINE.as_nanos() as u64;
    let options = Options { deadline_ns, datagrams: 64, dead_after_deadlines: 100, ..Options::default() };
    let client = Client::builder().server(&base).options(options).connect_async().await?;
    let mut calls = tokio::task::JoinSet::new();
    for key in 0..6_000_u32 {
        let client = client.clone();
        // Those with ids, of which a server has few, wait apart from the others.
        calls.spawn(async move {
            let key = key.to_le_bytes();
            match key[0] % 10 {
                0 => client.increment(&key, 1).await.map(|_| false),
                _ => client.set(&key, &[b'v'; 300], 0, 0).await.map(|()| true),
            }
        });
    }
    let (mut done, mut sent, mut unsent) = (0, 0, 0);
    for call in calls.join_all().await {
        match call {
            Ok(is_set) => done += usize::from(is_set),
            Err(Error::TimedOut { .. } | Error::OutcomeUnknown) => sent += 1,
            Err(Error::Unreachable { .. }) => unsent += 1,
            Err(other) => return Err(other),
        }
    }
    // The fake has four partitions, two on each core.
    assert!((2_000..3_400).contains(&done), "{done} done, {sent} timed out, {unsent} not sent");
    assert!(sent > 0 && unsent > sent, "{sent} timed out, {unsent} not sent");
    drop(ended);
    served.join().unwrap();
    Ok(())
}

/// A batch waited a deadline for each window of a silent core, and stopped for the others meanwhile.
#[test]
fn a_batch_waits_for_a_silent_core_once() -> Result<(), Error> {
    // The cores are of one node, and the owner executes all, or of two, and one executes gets.
    for access in [PartitionAccess::Erew, PartitionAccess::Crew] {
        let (ended, is_over) = std::sync::mpsc::channel();
        let is_deaf = Arc::new(AtomicBool::new(true));
        let (base, served) = serve_deaf_core(access, &is_deaf, is_over);
        let deadline_ns = DEADLINE.as_nanos() as u64;
        let options = Options { deadline_ns, datagrams: 64, ..Options::default() };
        let mut client = Client::builder().server(&base).options(options).connect()?;
        let keys: Vec<_> = (0..20_000_u32).map(u32::to_le_bytes).collect();
        let operation = |key| match access {
            PartitionAccess::Crew => Operation::get(key),
            _ => Operation::set(key, &[b'v'; 300]),
        };
        let operations: Vec<_> = keys.iter().map(|key| operation(key)).collect();
        let began = std::time::Instant::now();
        let answers = client.batch(&operations);
        let took = began.elapsed();
        let done = answers.iter().filter(|answer| answer.is_ok()).count();
        let down = |answer: &Result<Answer, Error>| matches!(answer, Err(Error::Unreachable { .. }));
        let refused = answers.iter().filter(|answer| down(answer)).count();
        assert!((8_000..12_000).contains(&done) && refused > 5_000, "{done} done, {refused} refused");
        // There were a hundred windows.
        assert!(took < 10 * DEADLINE, "{took:?}");
        // It answers again: one operation may find it silent.
        is_deaf.store(false, Ordering::Release);
        // If nothing else was asked for a whole deadline, the server counts as dead for a while.
        let answers = loop {
            let answers = client.batch(&operations);
            if answers.iter().any(Result::is_ok) {
                break answers;
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let failed: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
        assert!(failed.is_empty(), "{access:?}: {} failed, {:?}", failed.len(), failed[0]);
        drop(ended);
        served.join().unwrap();
    }
    Ok(())
}

/// A core that has forgotten the client, and one that loses a datagram later, are not silent.
#[test]
fn a_batch_is_not_refused_at_a_core_that_answers() -> Result<(), Error> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let (ended, is_over) = std::sync::mpsc::channel::<()>();
    let served = std::thread::spawn(move || {
        let mut fake = Fake::new(&address.to_string(), 1, 4, PartitionAccess::Erew);
        fake.refuse = vec![micanite_wire::native::Status::Forgotten; 20];
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let (mut bytes, mut number) = ([0; 2048], 0);
        while is_over.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            let Ok((count, from)) = socket.recv_from(&mut bytes) else { continue };
            number += 1;
            // Each hundredth datagram is lost.
            if let Some(reply) = fake.answer(address, &bytes[..count]).filter(|_| number % 100 != 0) {
                socket.send_to(&reply, from).unwrap();
            }
        }
    });
    let options = Options { deadline_ns: 5 * DEADLINE.as_nanos() as u64, ..Options::default() };
    let mut client = Client::builder().server(&address.to_string()).options(options).connect()?;
    let keys: Vec<_> = (0..20_000_u32).map(u32::to_le_bytes).collect();
    let operations: Vec<_> = keys.iter().map(|key| Operation::set(key, &[b'v'; 300])).collect();
    let answers = client.batch(&operations);
    drop(ended);
    served.join().unwrap();
    let unknown = answers.iter().filter(|answer| matches!(answer, Err(Error::OutcomeUnknown))).count();
    let failed = answers.iter().filter(|answer| answer.is_err()).count();
    assert_eq!((unknown, failed), (20, 20));
    Ok(())
}
