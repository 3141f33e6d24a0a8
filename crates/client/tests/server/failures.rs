//! Calls that end by an error of the operating system, by a panic, or amid signals.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use micanite_client::{Client, Error, Operation, Options, Outcome};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

use super::common::Server;

/// A busy machine may take long.
const DEADLINE_NS: u64 = 30_000_000_000;
const DEADLINE: Duration = Duration::from_secs(120);

/// A server that is reached in several ways.
struct Both {
    server: Server,
    local: PathBuf,
}

impl Both {
    fn start() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let local = std::env::temp_dir().join(format!("micanite-failures-{}-{number}", std::process::id()));
        Self { server: Server::start(&format!("-t 2 --local {}", local.display())), local }
    }

    fn names(&self) -> [String; 2] {
        [self.server.native.clone(), format!("local://{}", self.local.display())]
    }
}

impl Drop for Both {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.local);
    }
}

fn builder(name: &str) -> micanite_client::Builder {
    Client::builder().server(name).options(Options { deadline_ns: DEADLINE_NS, ..Options::default() })
}

/// Runs a call while the server stands still and the kernel refuses to wait for descriptors.
fn without_waits<T>(server: &Server, call: impl FnOnce() -> T) -> T {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    server.stop();
    setrlimit(Resource::RLIMIT_NOFILE, 0, hard).unwrap();
    let result = call();
    setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
    server.resume();
    result
}

/// The replies to a call that the kernel has ended by an error are nobody's: not the next call's.
#[test]
fn replies_after_a_failed_system_call_are_taken_for_no_other_calls() -> Result<(), Error> {
    let both = Both::start();
    for name in both.names() {
        let mut client = builder(&name).connect()?;
        let keys: Vec<_> = (0..10_u8).map(|number| [number + 1]).collect();
        for key in &keys {
            client.set(key, key, 0, 0)?;
        }
        let all: Vec<_> = keys.iter().map(|key| Operation::gets(key)).collect();
        for round in 0..8 {
            let failed = without_waits(&both.server, || match round % 2 {
                0 => client.gets(&keys[0]).map(drop),
                _ => client.batch(&all).into_iter().try_for_each(|answer| answer.map(drop)),
            });
            assert!(matches!(failed, Err(Error::Io(_))), "{name}: {failed:?}");
            assert_eq!(client.gets(&keys[1])?.unwrap().bytes, keys[1], "{name}");
            for (key, answer) in keys.iter().zip(client.batch(&all)).rev() {
                assert_eq!(answer?.value.bytes, key, "{name}");
            }
            if let Some(link) = client.local_link() {
                let failed = without_waits(&both.server, || link.call(&Operation::gets(&keys[2])));
                assert!(matches!(failed, Err(Error::Io(_))), "{failed:?}");
                assert_eq!(link.call(&Operation::gets(&keys[3]))?.value.bytes, keys[3]);
            }
        }
    }
    Ok(())
}

/// A write that has ended by an error is not sent again: it would undo the writes after it.
#[test]
fn a_write_that_has_failed_is_not_sent_again() -> Result<(), Error> {
    let both = Both::start();
    let mut client = builder(&both.server.native).connect()?;
    client.set(b"key", b"0", 0, 0)?;
    let failed = without_waits(&both.server, || client.increment(b"key", 1));
    assert!(matches!(failed, Err(Error::OutcomeUnknown)), "{failed:?}");
    assert_eq!(client.link().unwrap().driver().pending(), 0);
    client.set(b"key", b"5", 0, 0)?;
    assert_eq!(client.get(b"key")?.unwrap().bytes, b"5");
    Ok(())
}

/// A write that a stopped server gets, and executes when it goes on, does not end as one that was not sent.
#[test]
fn a_write_that_was_sent_is_unknown_when_its_server_counts_as_dead() -> Result<(), Error> {
    let server = Server::start("-t 1");
    let mut client = Client::connect(&server.native)?;
    client.set(b"key", b"0", 0, 0)?;
    // It has sent no request with a number yet: one that introduces it is on its way with the first.
    let options = Options { deadline_ns: 500_000_000, ..Options::default() };
    let mut fresh = Client::builder().server(&server.native).options(options).connect()?;
    server.stop();
    let ended = [1, 10].map(|delta| fresh.increment(b"key", delta));
    server.resume();
    let unsent = |ended: &Result<_, Error>| matches!(ended, Err(Error::Unreachable { .. }));
    assert!(matches!(ended[0], Err(Error::TimedOut { .. })), "{ended:?}");
    assert!(unsent(&ended[1]) || matches!(ended[1], Err(Error::TimedOut { .. })), "{ended:?}");
    let sum = client.get(b"key")?.unwrap().bytes;
    assert!(!unsent(&ended[1]) || sum.len() == 1, "{ended:?}: {sum:?}");
    Ok(())
}

/// A write that was sent before the error of a system call may be executed: the caller is told so.
#[test]
fn a_write_that_was_sent_before_an_error_is_unknown() -> Result<(), Error> {
    let both = Both::start();
    for name in both.names() {
        let mut client = builder(&name).connect()?;
        let operations = [Operation::get(b"key"), Operation::set(b"key", b"1"), Operation::gets(b"key")];
        let failed = without_waits(&both.server, || client.batch(&operations));
        assert!(matches!(failed[1], Err(Error::OutcomeUnknown)), "{name}: {failed:?}");
        assert!(matches!(failed[2], Err(Error::Io(_))), "{name}: {failed:?}");
        client.set(b"key", b"1", 0, 0)?;
        if let Some(link) = client.local_link() {
            let failed = without_waits(&both.server, || link.call(&Operation::set(b"key", b"2")));
            assert!(matches!(failed, Err(Error::OutcomeUnknown)), "{failed:?}");
        }
    }
    Ok(())
}

/// A failed call of a client takes no completion from who has submitted operations to its link.
#[test]
fn a_failed_call_loses_no_completion_of_another_caller() -> Result<(), Error> {
    let both = Both::start();
    let mut client = builder(&both.names()[1]).connect()?;
    client.set(b"key", b"value", 0, 0)?;
    let failed = without_waits(&both.server, || {
        let link = client.local_link().unwrap();
        link.submit(link.now_ns(), &Operation::get(b"key"), 1).unwrap();
        link.submit(link.now_ns(), &Operation::set(b"key", b"other"), 2).unwrap();
        client.gets(b"key")
    });
    assert!(matches!(failed, Err(Error::Io(_))), "{failed:?}");
    let (link, mut ended) = (client.local_link().unwrap(), Vec::new());
    link.poll(link.now_ns(), |one| ended.push((one.token, one.outcome))).unwrap();
    assert_eq!(ended, [(1, Outcome::Ok), (2, Outcome::Unknown)]);
    Ok(())
}

/// A panic may leave requests on their way: the client of threads begins with new connections.
#[test]
fn threads_get_a_new_client_after_a_panic() -> Result<(), Error> {
    let both = Both::start();
    for name in both.names() {
        let client = builder(&name).connect_shared()?;
        client.run(|client| client.set(b"key", b"value", 0, 0))?;
        let sent = |client: &mut Client| match client.local_link() {
            Some(link) => link.counters().requests,
            None => client.link().unwrap().counters().submitted,
        };
        assert!(client.run(|client| Ok(sent(client)))? > 0);
        let panics = || client.run(|_| -> Result<(), Error> { panic!("amid a call") });
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert_eq!(client.run(|client| Ok(sent(client)))?, 0, "{name}");
        for _ in 0..2 {
            assert_eq!(client.run(|client| client.gets(b"key"))?.unwrap().bytes, b"value");
        }
        assert!(client.run(|client| Ok(sent(client)))? > 0);
    }
    Ok(())
}

/// A dead server that is back answers the first call that is due to try it, however rare the calls are.
#[test]
fn the_first_call_after_the_pause_finds_a_server_again() -> Result<(), Error> {
    let server = Server::start("-t 2");
    // A busy machine may take long. No later attempt helps the first one.
    let options = Options {
        deadline_ns: 1_000_000_000,
        resend_ns_first: 500_000_000,
        dead_for_ns: 1_000_000_000,
        ..Options::default()
    };
    let pause = Duration::from_nanos(2 * options.dead_for_ns);
    let mut client = Client::builder().server(&server.native).options(options).connect()?;
    client.set(b"key", b"value", 0, 0)?;
    server.stop();
    let end = Instant::now() + DEADLINE;
    while !matches!(client.get(b"key"), Err(Error::Unreachable { .. })) {
        assert!(Instant::now() < end, "it does not die");
    }
    server.resume();
    std::thread::sleep(pause);
    let found = client.get(b"key");
    assert_eq!(found?.unwrap().bytes, b"value");
    Ok(())
}

/// Signals that come faster than a deadline do not put its end off: over the stream of long values, while a
/// client attaches, and while it waits for a reply.
#[test]
fn signals_put_no_deadline_off() -> Result<(), Error> {
    extern "C" fn nothing(_: libc::c_int) {}
    const DEADLINE: Duration = Duration::from_millis(1500);
    let both = Both::start();
    let options = Options { deadline_ns: DEADLINE.as_nanos() as u64, ..Options::default() };
    let builder = |name: &str| Client::builder().server(name).options(options.clone());
    let [native, local] = both.names();
    let mut clients = [builder(&native).connect()?, builder(&local).connect()?];
    let long = vec![b'v'; 300_000];
    clients[0].set(b"key", &long, 0, 0)?;
    clients[1].set(b"key", &long, 0, 0)?;
    let action = SigAction::new(SigHandler::Handler(nothing), SaFlags::empty(), SigSet::empty());
    #[expect(unsafe_code, reason = "sigaction is unsafe")]
    // SAFETY: the handler does nothing.
    unsafe { sigaction(Signal::SIGALRM, &action) }.unwrap();
    both.server.stop();
    // The thread that calls gets the signals, until all calls have ended.
    #[expect(unsafe_code, reason = "a function of C")]
    // SAFETY: it takes nothing, and always succeeds.
    let caller = unsafe { libc::pthread_self() };
    let (ends, ended) = std::sync::mpsc::channel::<()>();
    let signals = std::thread::spawn(move || {
        while ended.recv_timeout(DEADLINE / 5) == Err(RecvTimeoutError::Timeout) {
            #[expect(unsafe_code, reason = "a function of C")]
            // SAFETY: the caller's thread waits for this one before it ends.
            let killed = unsafe { libc::pthread_kill(caller, libc::SIGALRM) };
            assert_eq!(killed, 0);
        }
    });
    // It comes back by itself: a call without an end would hang the test.
    let process = nix::unistd::Pid::from_raw(both.server.process());
    let (comes_back, is_back) = std::sync::mpsc::channel::<()>();
    let helper = std::thread::spawn(move || {
        let _ = is_back.recv_timeout(DEADLINE * 10);
        nix::sys::signal::kill(process, Signal::SIGCONT).unwrap();
    });
    for client in &mut clients {
        let began = Instant::now();
        assert!(client.set(b"key", &long, 0, 0).is_err());
        assert!(began.elapsed() < DEADLINE * 8, "{:?}", began.elapsed());
    }
    let began = Instant::now();
    assert!(builder(&local).connect().is_err());
    assert!(began.elapsed() < DEADLINE * 8, "{:?}", began.elapsed());
    drop((ends, comes_back));
    signals.join().unwrap();
    helper.join().unwrap();
    Ok(())
}
