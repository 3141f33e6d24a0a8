//! The clients of a server on the same host, against a real server in its own process.

#[path = "local/beside.rs"]
mod beside;
mod calls;
mod children;
mod common;
#[path = "../../server/tests/counting/mod.rs"]
mod counting;
#[path = "local/hostile.rs"]
mod hostile;
#[path = "local/life.rs"]
mod life;
#[path = "local/relay.rs"]
mod relay;
#[path = "local/silent.rs"]
mod silent;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::Server;
use micanite_client::{Builder, Client, Error, LocalLink, LocalUrl, Operation, Options};

const DEADLINE: Duration = Duration::from_secs(120);
/// A busy machine may take long.
const DEADLINE_NS: u64 = 30_000_000_000;

#[test]
fn server_process() {
    common::serve_if_child();
}

/// A server of `local://`, with a socket for text beside it.
struct Local {
    /// `None`: it was killed.
    server: Option<Server>,
    options: String,
    directory: PathBuf,
}

impl Drop for Local {
    fn drop(&mut self) {
        drop(self.server.take());
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Local {
    fn start(options: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("micanite-local-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let place = directory.display();
        let options = format!("-s {place}/text --local {place}/local {options}");
        let server = Some(Server::start(options.trim_end()));
        Self { server, options, directory }
    }

    fn restart(&mut self) {
        drop(self.server.take());
        self.server = Some(Server::start(self.options.trim_end()));
    }

    fn process(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    fn url(&self) -> String {
        format!("local://{}", self.directory.join("local").display())
    }

    fn client(&self) -> Client {
        let options = Options { deadline_ns: DEADLINE_NS, ..Options::default() };
        Builder::default().server(&self.url()).options(options).connect().unwrap()
    }

    fn link(&self) -> LocalLink {
        let options = Options { deadline_ns: DEADLINE_NS, ..Options::default() };
        LocalLink::connect(&LocalUrl::parse(&self.url()).unwrap(), &options).unwrap()
    }

    /// Executes a text command, and returns its reply up to a line that is one of the ends.
    fn text(&self, command: &str) -> Vec<String> {
        let mut stream = UnixStream::connect(self.directory.join("text")).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        write!(stream, "{command}\r\n").unwrap();
        let mut reply = Vec::new();
        for line in BufReader::new(stream).lines() {
            let line = line.unwrap();
            let is_end = matches!(&*line, "END" | "OK" | "STORED" | "ERROR" | "DELETED");
            reply.push(line);
            if is_end {
                break;
            }
        }
        reply
    }

    /// Returns a number of `stats GROUP`.
    fn stat(&self, group: &str, name: &str) -> u64 {
        let lines = self.text(format!("stats {group}").trim_end());
        let found = lines.iter().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
        found.unwrap_or_else(|| panic!("no {name}: {lines:?}")).parse().unwrap()
    }

    /// Waits until a number of `stats GROUP` meets a condition.
    fn await_stat(&self, group: &str, name: &str, condition: impl Fn(u64) -> bool) {
        let end = Instant::now() + DEADLINE;
        while !condition(self.stat(group, name)) {
            assert!(Instant::now() < end, "{name} is {}", self.stat(group, name));
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Each call of the blocking client works, in a cache and in a store, with one worker and with two in every
/// mode; and all plain gets read the memory.
#[test]
fn every_call_works_and_plain_gets_read_the_memory() -> Result<(), Error> {
    let modes = ["-t 1", "-t 2", "-t 2 --access erew", "-t 2 --access crew", "-t 2 -M"];
    for options in modes {
        let server = Local::start(options);
        let mut client = server.client();
        calls::every_call_works(&mut client)?;
        let counters = *client.local_link().unwrap().counters();
        assert!(counters.hits >= 8 && counters.misses >= 2, "{options}: {counters:?}");
        assert_eq!((counters.asked, counters.attached), (0, 1), "{options}");
        assert!(client.local_link().unwrap().reads_memory());
    }
    Ok(())
}

/// An expiry is the same time as over the other links.
#[test]
fn expiries_are_seconds_from_now() -> Result<(), Error> {
    let server = Local::start("-t 2");
    let ttl_s = |key: &[u8]| server.server.as_ref().unwrap().ttl_s(key);
    calls::expiries_are_seconds_from_now(&mut server.client(), ttl_s)
}

/// Each key of many has its own result, in memory and where there is no server.
#[test]
fn a_bad_key_or_a_dead_server_takes_no_other_value_away() -> Result<(), Error> {
    let mut server = Local::start("-t 2");
    let mut client = server.client();
    client.set(b"key", b"value", 0, 0)?;
    let names = [&b"key"[..], b"", b"none", &[b'k'; 251], b"key"];
    let found = client.get_each(&names);
    let value = |number: usize| found[number].as_ref().unwrap().as_ref().map(|value| &value.bytes[..]);
    assert_eq!([value(0), value(2), value(4)], [Some(&b"value"[..]), None, Some(b"value")]);
    assert!([1, 3].iter().all(|number: &usize| matches!(found[*number], Err(Error::BadKey))));
    drop(server.server.take());
    let lost = client.get_each(&names);
    assert!([0, 2, 4].iter().all(|number: &usize| matches!(lost[*number], Err(Error::Unreachable { .. }))));
    assert!([1, 3].iter().all(|number: &usize| lost[*number].is_err()));
    Ok(())
}

/// Keys of any bytes and values of any length arrive whole, by both ways.
#[test]
fn keys_and_values_of_any_kind_arrive_whole() -> Result<(), Error> {
    let server = Local::start("-t 2");
    let mut client = server.client();
    let keys: [&[u8]; 4] = [b"text", b"with space", &[0, 255, 10, 13], &[b'k'; 250]];
    for (number, key) in keys.into_iter().enumerate() {
        for bytes in [0, 1, 7, 8, 100, 4096, 70_000, 900_000] {
            let value: Vec<u8> = (0..bytes).map(|at| (at * 7 + number) as u8).collect();
            client.set(key, &value, 5, 0)?;
            let found = client.get(key)?.unwrap();
            assert!((found.bytes == value) && found.flags == 5, "{key:?} {bytes}");
            let asked = client.gets(key)?.unwrap();
            assert!(asked.bytes == value && asked.cas.is_some(), "{key:?} {bytes}");
        }
    }
    let found = client.multi_get(&keys)?;
    assert!(found.iter().all(|value| value.as_ref().is_some_and(|value| value.bytes.len() == 900_000)));
    assert!(matches!(client.set(b"k", &vec![0; 2 << 20], 0, 0), Err(Error::TooLarge { .. })));
    assert!(matches!(client.get(b""), Err(Error::BadKey)));
    client.noop()
}

/// A deadline without a bound is one of a minute, and a pause without one is no overflow.
#[test]
fn the_longest_deadline_is_a_deadline() -> Result<(), Error> {
    let mut server = Local::start("-t 2");
    let options = Options { deadline_ns: u64::MAX, dead_for_ns: u64::MAX, ..Options::default() };
    let native = server.process().native.clone();
    for name in [server.url(), native] {
        let mut client = Builder::default().server(&name).options(options.clone()).connect()?;
        for bytes in [10, 300_000] {
            let value = vec![b'v'; bytes];
            client.set(b"key", &value, 0, 0)?;
            assert!(client.gets(b"key")?.is_some_and(|found| found.bytes == value), "{name}");
        }
    }
    let mut client = Builder::default().server(&server.url()).options(options).connect()?;
    drop(server.server.take());
    for _ in 0..100 {
        assert!(matches!(client.set(b"key", b"value", 0, 0), Err(Error::Unreachable { .. })));
    }
    Ok(())
}

/// Many keys at once are looked up in batches, and in their order.
#[test]
fn many_keys_are_found_in_their_order() -> Result<(), Error> {
    let server = Local::start("-t 2");
    let mut client = server.client();
    let keys: Vec<Vec<u8>> = (0..1000).map(|number| format!("key {number}").into_bytes()).collect();
    let sets: Vec<_> = keys.iter().step_by(2).map(|key| Operation::set(key, key)).collect();
    assert!(client.batch(&sets).iter().all(Result::is_ok));
    let names: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    for (number, value) in client.multi_get(&names)?.into_iter().enumerate() {
        let expected = (number % 2 == 0).then(|| keys[number].clone());
        assert_eq!(value.map(|value| value.bytes), expected, "{number}");
    }
    let gets: Vec<_> = keys.iter().map(|key| Operation::get(key)).collect();
    for (number, answer) in client.batch(&gets).into_iter().enumerate() {
        let value = answer?.value.bytes;
        assert_eq!(value, if number % 2 == 0 { keys[number].clone() } else { Vec::new() });
    }
    Ok(())
}

/// A client sees at once what others have done by other ways: deletions, flushes, expiry, namespaces.
#[test]
fn what_ends_for_others_ends_for_a_reader() -> Result<(), Error> {
    let server = Local::start("-t 2");
    let mut client = server.client();
    client.set(b"name:a", b"1", 0, 0)?;
    client.set(b"b", b"2", 0, 0)?;
    client.set(b"c", b"3", 0, 1)?;
    assert_eq!(server.text("delete b"), ["DELETED"]);
    assert_eq!(client.get(b"b")?, None);
    assert_eq!(server.text("flush_namespace name"), ["OK"]);
    assert_eq!(client.get(b"name:a")?, None);
    let mut native = Client::connect(&server.server.as_ref().unwrap().native)?;
    native.set(b"f", b"native", 0, 0)?;
    assert_eq!(client.get(b"f")?.unwrap().bytes, b"native");
    assert!(native.delete(b"f")?);
    assert_eq!(client.get(b"f")?, None);
    let end = Instant::now() + DEADLINE;
    while client.get(b"c")?.is_some() {
        assert!(Instant::now() < end, "it does not expire");
    }
    client.set(b"d", b"4", 0, 0)?;
    assert!(client.get(b"d")?.is_some());
    assert_eq!(server.text("flush_all"), ["OK"]);
    assert_eq!(client.get(b"d")?, None);
    client.set(b"e", b"5", 0, 0)?;
    assert_eq!(server.text("flush_all 1"), ["OK"]);
    while client.get(b"e")?.is_some() {
        assert!(Instant::now() < end, "a scheduled flush does not come");
    }
    Ok(())
}

/// Gets in memory allocate nothing.
#[test]
fn gets_in_memory_allocate_nothing() -> Result<(), Error> {
    let server = Local::start("");
    let mut link = server.link();
    link.call(&Operation::set(b"key", b"value"))?;
    let (mut value, keys) = (Vec::new(), [&b"key"[..]; 100]);
    assert_eq!(link.get(b"key", &mut value)?, Some(0));
    link.get_many(&keys, |_, found| assert!(found.is_some()))?;
    let before = counting::calls();
    for _ in 0..1000 {
        assert_eq!(link.get(b"key", &mut value)?, Some(0));
        assert_eq!(link.get(b"none", &mut value)?, None);
        link.get_many(&keys, |_, found| assert_eq!(found, Some((&b"value"[..], 0))))?;
    }
    assert_eq!(counting::calls() - before, 0);
    assert_eq!(value, b"value");
    Ok(())
}

/// A thread whose every system call would be its end gets keys: seccomp's strict mode leaves it `exit`.
#[test]
fn gets_in_memory_make_no_system_call() -> Result<(), Error> {
    let server = Local::start("");
    let mut link = server.link();
    link.call(&Operation::set(b"key", b"value"))?;
    let (mut value, keys) = (Vec::new(), [&b"key"[..]; 64]);
    link.get(b"key", &mut value)?;
    link.get_many(&keys, |_, _| {})?;
    static HITS: AtomicU64 = AtomicU64::new(0);
    thread::spawn(move || {
        enter_strict_mode();
        for _ in 0..10_000 {
            let found = matches!(link.get(b"key", &mut value), Ok(Some(0))) && value == b"value";
            let missing = matches!(link.get(b"none", &mut value), Ok(None));
            let mut many = 0;
            let all = link.get_many(&keys, |_, found| many += u64::from(found.is_some())).is_ok();
            HITS.fetch_add(u64::from(found && missing && all && many == 64), Ordering::Relaxed);
        }
        HITS.fetch_add(1_000_000, Ordering::Release);
        exit_thread()
    });
    let end = Instant::now() + DEADLINE;
    while HITS.load(Ordering::Acquire) < 1_000_000 {
        assert!(Instant::now() < end, "the thread does not come to its end");
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(HITS.load(Ordering::Acquire), 1_010_000);
    Ok(())
}

#[expect(unsafe_code, reason = "a system call that takes numbers")]
fn enter_strict_mode() {
    // SAFETY: it only forbids this thread further system calls.
    let result = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_STRICT) };
    assert_eq!(result, 0);
}

#[expect(unsafe_code, reason = "a system call that takes numbers")]
fn exit_thread() -> ! {
    loop {
        // SAFETY: it ends this thread, whose stack and buffers stay: nobody joins it.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
}

/// Gets count as hits and misses of the server, and what readers request stays.
#[test]
fn the_server_counts_the_gets_of_readers() -> Result<(), Error> {
    let server = Local::start("-t 2");
    let mut client = server.client();
    client.set(b"key", b"value", 0, 0)?;
    for _ in 0..1000 {
        assert!(client.get(b"key")?.is_some());
        assert!(client.get(b"none")?.is_none());
    }
    server.await_stat("", "get_hits", |hits| hits >= 1000);
    server.await_stat("", "get_misses", |misses| misses >= 1000);
    server.await_stat("local", "local_hits", |hits| hits == 1000);
    assert_eq!(server.stat("local", "local_misses"), 1000);
    assert_eq!(server.stat("local", "local_clients"), 1);
    assert!(server.stat("local", "local_notes") > 0);
    assert_eq!(server.stat("local", "local_nonsense"), 0);
    drop(client);
    server.await_stat("local", "local_clients", |clients| clients == 0);
    assert_eq!(server.stat("local", "local_hits"), 1000);
    Ok(())
}

/// Readers beside writers of every way see whole values that are not older than acknowledged ones.
#[test]
fn readers_beside_writers_see_no_wrong_value() -> Result<(), Error> {
    const KEYS: usize = 64;
    let server = Local::start("-t 2");
    let acknowledged: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (acknowledged, stop, server) = (&acknowledged, &stop, &server);
        scope.spawn(move || {
            let mut client = server.client();
            for version in 1_u64.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let key = version as usize * 7 % KEYS;
                let value = [version.to_le_bytes(), (key as u64).to_le_bytes()].concat();
                let value = value.repeat(1 + version as usize % 40);
                client.set(&[key as u8], &value, 0, 0).unwrap();
                acknowledged[key].store(version, Ordering::Release);
            }
        });
        let mut link = server.link();
        let mut value = Vec::new();
        let (mut hits, mut round, began) = (0, 0, std::time::Instant::now());
        // On a busy machine the first rounds may end before the first write.
        while round < 300_000 || hits == 0 {
            assert!(began.elapsed().as_secs() < 120, "nobody writes");
            let key = round * 13 % KEYS;
            round += 1;
            let before = acknowledged[key].load(Ordering::Acquire);
            if link.get(&[key as u8], &mut value).unwrap().is_none() {
                assert_eq!(before, 0, "key {key} has gone");
                continue;
            }
            hits += 1;
            let (words, rest) = value.as_chunks::<8>();
            assert!(rest.is_empty());
            let version = u64::from_le_bytes(words[0]);
            assert!(version >= before, "key {key}: {version} after {before}");
            assert_eq!(words.len() as u64, 2 * (1 + version % 40));
            let is_whole = |pair: &[[u8; 8]]| pair == [version.to_le_bytes(), (key as u64).to_le_bytes()];
            assert!(words.chunks(2).all(is_whole), "key {key}: a torn value");
        }
        stop.store(true, Ordering::Relaxed);
    });
    Ok(())
}
