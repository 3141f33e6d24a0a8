//! Forks of processes with clients, against a real server: no process gets what another one asked for.

mod children;
mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use children::Child;
use common::Server;
use micanite_client::{
    Client, Error, Link, Operation, Options, Outcome, ServerAddress, SharedClient, UdpOptions,
};

const DEADLINE: Duration = Duration::from_secs(30);
const CHILDREN: u8 = 4;

#[test]
fn server_process() {
    common::serve_if_child();
}

fn options() -> Options {
    // A busy machine may take long.
    Options { deadline_ns: 20_000_000_000, ..Options::default() }
}

fn client(server: &Server) -> Client {
    Client::builder().server(&server.native).options(options()).connect().unwrap()
}

/// Gets short and long values of its own, and adds to a common number; returns whether all was right.
fn works(client: &mut Client, number: u8) -> Result<bool, Error> {
    let (short, long) = ([b's', b'0' + number], [b'l', b'0' + number]);
    for _ in 0..100 {
        let short = client.get(&short)?.is_some_and(|value| value.bytes == [number; 40]);
        let long = client.get(&long)?.is_some_and(|value| value.bytes == [number; 20_000]);
        if !short || !long || client.increment(b"sum", 1)?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Children and their parent go on at the same time: each gets its own replies, and all increments count.
#[test]
fn children_of_a_fork_get_their_own_replies_and_lose_no_increment() -> Result<(), Error> {
    let server = Server::start("-t 2");
    let mut client = client(&server);
    client.set(b"sum", b"0", 0, 0)?;
    for number in 0..=CHILDREN {
        client.set(&[b's', b'0' + number], &[number; 40], 0, 0)?;
        // It is longer than a datagram, and goes over TCP.
        client.set(&[b'l', b'0' + number], &[number; 20_000], 0, 0)?;
    }
    let mut child = |number| Child::start(|| works(&mut client, number).unwrap_or(false));
    let children: Vec<_> = (0..CHILDREN).map(&mut child).collect();
    assert!(works(&mut client, CHILDREN)?);
    children.into_iter().for_each(Child::end);
    let sum = 100 * (u64::from(CHILDREN) + 1);
    assert_eq!(client.get(b"sum")?.unwrap().bytes, sum.to_string().into_bytes());
    Ok(())
}

/// A child of a child is a client of its own, too.
#[test]
fn a_child_of_a_child_connects_anew() -> Result<(), Error> {
    let server = Server::start("-t 2");
    let mut client = client(&server);
    client.set(b"sum", b"0", 0, 0)?;
    let mut adds = |times| (0..times).all(|_| matches!(client.increment(b"sum", 1), Ok(Some(_))));
    Child::start(|| {
        let own = adds(10);
        Child::start(|| adds(10)).end();
        own && adds(10)
    })
    .end();
    assert!(adds(10));
    assert_eq!(client.get(b"sum")?.unwrap().bytes, b"40");
    Ok(())
}

/// A link is the process's that opened it: it fails in the child, and the parent gets the replies.
#[test]
fn a_link_fails_in_the_child_and_its_replies_are_the_parents() -> Result<(), Error> {
    let server = Server::start("-t 2");
    let servers = [ServerAddress::resolve(&server.native)?];
    let mut link = Link::connect(&servers, options(), &UdpOptions::default())?;
    for token in 0..100 {
        link.submit(link.now_ns(), &Operation::set(&[token], b"value"), token.into()).unwrap();
    }
    link.flush();
    link.poll(link.now_ns(), |_| {})?;
    let fails = |error: std::io::Error| error.to_string().contains("child");
    Child::start(|| {
        let mut taken = 0;
        let poll = link.poll(link.now_ns(), |_| taken += 1).is_err_and(fails);
        poll && taken == 0 && link.wait(1_000_000_000).is_err_and(fails)
    })
    .end();
    while link.driver().pending() > 0 {
        link.poll(link.now_ns(), |ended| assert_eq!(ended.outcome, Outcome::Ok))?;
        link.wait(100_000_000)?;
    }
    Ok(())
}

/// Each thread of a parent may be inside a call when another one forks: the child waits for none of them.
#[test]
fn a_fork_while_another_thread_is_inside_a_call_does_not_hang_the_child() -> Result<(), Error> {
    let server = Server::start("-t 2");
    let builder = || Client::builder().server(&server.native).options(options());
    let client = Arc::new(builder().connect_shared()?);
    client.run(|client| client.set(b"key", b"value", 0, 0))?;
    server.stop();
    let (begins, began) = std::sync::mpsc::channel();
    let waits = {
        let client: Arc<SharedClient> = Arc::clone(&client);
        std::thread::spawn(move || {
            client.run(|client| {
                begins.send(()).unwrap();
                client.set(b"other", b"value", 0, 0)
            })
        })
    };
    began.recv_timeout(DEADLINE).unwrap();
    let child = Child::start(|| {
        let found = client.run(|client| client.get(b"key"));
        found.is_ok_and(|found| found.is_some_and(|value| value.bytes == b"value"))
    });
    server.resume();
    child.end();
    waits.join().unwrap()?;
    Ok(())
}

/// Each call in a child waited a deadline while the server was silent, and threads queued up behind it.
#[test]
fn a_child_of_a_silent_server_waits_for_few_attempts() -> Result<(), Error> {
    const CALLS: u32 = 10;
    let deadline = Duration::from_secs(2);
    let path = std::env::temp_dir().join(format!("micanite-silent-{}", std::process::id()));
    let server = Server::start(&format!("-t 2 --local {}", path.display()));
    for name in [server.native.clone(), format!("local://{}", path.display())] {
        let options = Options { deadline_ns: deadline.as_nanos() as u64, ..Options::default() };
        let builder = Client::builder().server(&name).options(options);
        let (mut own, shared) = (builder.clone().connect()?, builder.connect_shared()?);
        own.set(b"key", b"value", 0, 0)?;
        server.stop();
        Child::start(|| {
            let began = Instant::now();
            let fail = (0..CALLS).all(|_| own.set(b"key", b"value", 0, 0).is_err());
            fail && began.elapsed() < deadline * CALLS / 2
        })
        .end();
        Child::start(|| {
            let began = Instant::now();
            let call = || shared.run(|client| client.set(b"key", b"value", 0, 0));
            let fail = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..CALLS).map(|_| scope.spawn(call)).collect();
                threads.into_iter().all(|thread| thread.join().unwrap().is_err())
            });
            fail && began.elapsed() < deadline * CALLS / 2
        })
        .end();
        server.resume();
        own.set(b"key", b"value", 0, 0)?;
    }
    std::fs::remove_file(path)?;
    Ok(())
}

/// A task does not follow its process into a child: calls there fail at once.
#[cfg(feature = "async")]
#[test]
fn a_client_of_tokio_fails_in_the_child() -> Result<(), Error> {
    use std::task::{Context, Poll, Waker};
    let path = std::env::temp_dir().join(format!("micanite-forks-{}", std::process::id()));
    let server = Server::start(&format!("-t 2 --local {}", path.display()));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    for name in [server.native.clone(), format!("local://{}", path.display())] {
        let client = runtime.block_on(micanite_client::AsyncClient::connect(&name))?;
        runtime.block_on(client.set(b"key", b"value", 0, 0))?;
        Child::start(|| {
            let get = std::pin::pin!(client.get(b"key"));
            let set = std::pin::pin!(client.set(b"key", b"other", 0, 0));
            let mut context = Context::from_waker(Waker::noop());
            matches!(get.poll(&mut context), Poll::Ready(Err(Error::Forked)))
                && matches!(set.poll(&mut context), Poll::Ready(Err(Error::Forked)))
        })
        .end();
        assert_eq!(runtime.block_on(client.get(b"key"))?.unwrap().bytes, b"value");
    }
    std::fs::remove_file(path)?;
    Ok(())
}
