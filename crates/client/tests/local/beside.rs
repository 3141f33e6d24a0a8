//! Readers beside what a server does, and a server beside readers that end.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use micanite_client::{Error, LocalLink, LocalUrl, Operation, Options};

use super::{DEADLINE, DEADLINE_NS, Local};

const READER: &str = "MICANITE_CLIENT_TEST_READER";
/// Keys that fit, and are written all the time.
const KEYS: u64 = 4096;

/// Reads until it is killed, where the test below has started it.
#[test]
fn reader_process() {
    let Ok(url) = std::env::var(READER) else {
        return;
    };
    let options = Options { deadline_ns: DEADLINE_NS, ..Options::default() };
    let mut link = LocalLink::connect(&LocalUrl::parse(&url).unwrap(), &options).unwrap();
    let mut value = Vec::new();
    println!("reads");
    loop {
        link.get(b"key", &mut value).unwrap();
        link.get(b"none", &mut value).unwrap();
    }
}

/// Readers that are killed while they read leave nothing behind: writers go on, and places are free again.
#[test]
fn killed_readers_leave_nothing_behind() -> Result<(), Error> {
    let server = Local::start("-t 2 --set local.clients=3");
    let mut client = server.client();
    client.set(b"key", b"value", 0, 0)?;
    for round in 0..8_u64 {
        let mut readers: Vec<_> = (0..2)
            .map(|_| {
                let mut reader = Command::new(std::env::current_exe().unwrap())
                    .args(["--exact", "beside::reader_process", "--nocapture"])
                    .env(READER, server.url())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::null())
                    .spawn()
                    .unwrap();
                let mut lines = BufReader::new(reader.stdout.take().unwrap()).lines();
                assert!(lines.any(|line| line.is_ok_and(|line| line.ends_with("reads"))), "round {round}");
                reader
            })
            .collect();
        server.await_stat("local", "local_clients", |clients| clients == 3);
        client.set(b"key", &round.to_le_bytes(), 0, 0)?;
        for reader in &mut readers {
            reader.kill().unwrap();
            reader.wait().unwrap();
        }
        server.await_stat("local", "local_clients", |clients| clients == 1);
        assert_eq!(client.get(b"key")?.unwrap().bytes, round.to_le_bytes());
        client.set(b"key", b"value", 0, 0)?;
    }
    assert_eq!(server.stat("local", "local_nonsense"), 0);
    Ok(())
}

/// Sends a request to the control socket, and returns the first line of its answer.
fn control(server: &Local, request: &str) -> String {
    let mut stream = UnixStream::connect(server.directory.join("control")).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    writeln!(stream, "{request}").unwrap();
    BufReader::new(stream).lines().next().unwrap().unwrap()
}

/// Readers see whole values, not older than acknowledged ones, while modes and owners change, and while the
/// index grows and the memory evicts.
#[test]
fn readers_see_no_wrong_value_while_the_server_changes() -> Result<(), Error> {
    let mut server = Local::start("-t 2");
    server.options = format!("{} --control-socket {}/control", server.options, server.directory.display());
    server.restart();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (server, stop) = (&server, &stop);
        // Fills the memory three times, key after key.
        scope.spawn(move || {
            let mut client = server.client();
            for first in (0..200_000_u64).step_by(64) {
                let keys: Vec<_> = (first..first + 64).map(|number| format!("fill {number}")).collect();
                let values: Vec<_> = keys.iter().map(|key| key.repeat(1024 / key.len())).collect();
                let sets: Vec<_> = keys
                    .iter()
                    .zip(&values)
                    .map(|(key, value)| Operation::set(key.as_bytes(), value.as_bytes()))
                    .collect();
                assert!(client.batch(&sets).iter().all(Result::is_ok));
                if stop.load(Ordering::Relaxed) {
                    return;
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        scope.spawn(move || {
            let modes = ["erew", "crew", "crcw"];
            for round in 0.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let request = match round % 4 {
                    3 => format!("move {} {}", round / 4 % 2, round / 8 % 2),
                    _ => format!("mode {}", modes[round % modes.len()]),
                };
                let answer = control(server, &request);
                assert!(!answer.starts_with("ERROR"), "{request}: {answer}");
            }
        });
        let result = thread::Builder::new().spawn_scoped(scope, move || check(server, stop)).unwrap().join();
        stop.store(true, Ordering::Relaxed);
        result.unwrap();
    });
    assert!(server.stat("", "evictions") > 0);
    Ok(())
}

/// Writes and reads keys of its own, whose values say what they are, until `stop`.
fn check(server: &Local, stop: &AtomicBool) {
    let (mut writer, mut link) = (server.client(), server.link());
    let mut found = Vec::new();
    let mut hits = 0_u64;
    for version in 0_u64.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let key = (version * 31 % KEYS).to_le_bytes();
        let value = [version.to_le_bytes(), key].concat().repeat(1 + version as usize % 20);
        writer.set(&key, &value, 0, 0).unwrap();
        // A cache may have evicted it; what it returns is what was acknowledged last.
        if link.get(&key, &mut found).unwrap().is_some() {
            assert!(found == value, "version {version}: {found:?}");
            hits += 1;
        }
        let other = (version * 17 % KEYS).to_le_bytes();
        if link.get(&other, &mut found).unwrap().is_some() {
            let (words, rest) = found.as_chunks::<8>();
            assert!(rest.is_empty() && words.len() >= 2, "{found:?}");
            let version = u64::from_le_bytes(words[0]);
            assert_eq!(words.len() as u64, 2 * (1 + version % 20));
            assert!(words.chunks(2).all(|pair| pair == [version.to_le_bytes(), other]), "{found:?}");
        }
    }
    assert!(hits > 0);
}
