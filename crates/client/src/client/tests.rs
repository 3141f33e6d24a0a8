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

/// A batch waited a deadline for each window of a silent core, and stopped for the others meanwhile.
#[test]
fn a_batch_waits_for_a_silent_core_once() -> Result<(), Error> {
    let (socket, _silent) = loop {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let next = socket.local_addr().unwrap().port().wrapping_add(1);
        if let Ok(silent) = UdpSocket::bind(("127.0.0.1", next)) {
            break (socket, silent);
        }
    };
    let address = socket.local_addr().unwrap();
    let (ended, is_over) = std::sync::mpsc::channel::<()>();
    let served = std::thread::spawn(move || {
        let mut fake = Fake::new(&address.to_string(), 2, 4, PartitionAccess::Erew);
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let mut bytes = [0; 2048];
        while is_over.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            if let Ok((count, from)) = socket.recv_from(&mut bytes)
                && let Some(reply) = fake.answer(address, &bytes[..count])
            {
                socket.send_to(&reply, from).unwrap();
            }
        }
    });
    let options = Options { deadline_ns: DEADLINE.as_nanos() as u64, datagrams: 64, ..Options::default() };
    let mut client = Client::builder().server(&address.to_string()).options(options).connect()?;
    let keys: Vec<_> = (0..20_000_u32).map(u32::to_le_bytes).collect();
    let operations: Vec<_> = keys.iter().map(|key| Operation::set(key, &[b'v'; 300])).collect();
    let began = std::time::Instant::now();
    let answers = client.batch(&operations);
    let took = began.elapsed();
    drop(ended);
    served.join().unwrap();
    let stored = answers.iter().filter(|answer| answer.is_ok()).count();
    let refused = answers.iter().filter(|answer| matches!(answer, Err(Error::Unreachable { .. }))).count();
    assert!(stored > 5_000 && refused > 5_000, "{stored} stored, {refused} refused");
    // There were a hundred windows.
    assert!(took < 10 * DEADLINE, "{took:?}");
    Ok(())
}
