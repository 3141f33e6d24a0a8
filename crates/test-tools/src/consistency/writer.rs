//! Writers over TCP. They overwrite, delete, touch and flush the keys that are read, and fill the memory with
//! others.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use micanite_workload::Random;

use super::content::{self, Operation};
use super::history::{History, is_shared};
use crate::Result;

/// Requests that are sent together.
const PIPELINE: u64 = 16;
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Keys of a writer that take half of its operations.
const HOT: u64 = 8;

/// Shared state of the writers.
#[derive(Debug)]
pub(super) struct Writing<'a> {
    pub server: SocketAddr,
    pub names: &'a [Vec<u8>],
    pub history: &'a History,
    pub ended: &'a AtomicBool,
    pub operations: &'a AtomicU64,
}

/// The second of the clock.
pub(super) fn now_s() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

/// A connection, and what is to be sent on it.
struct Connection {
    stream: BufReader<TcpStream>,
    requests: Vec<u8>,
    line: Vec<u8>,
}

impl Connection {
    fn open(server: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(server)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        Ok(Self { stream: BufReader::new(stream), requests: Vec::new(), line: Vec::new() })
    }

    fn send(&mut self) -> Result<()> {
        self.stream.get_mut().write_all(&self.requests)?;
        self.requests.clear();
        Ok(())
    }

    /// The next line of the replies.
    fn reply(&mut self) -> Result<&[u8]> {
        self.line.clear();
        if self.stream.read_until(b'\n', &mut self.line)? == 0 {
            return Err("the server closed a connection".into());
        }
        Ok(self.line.trim_ascii_end())
    }

    fn expect(&mut self, replies: &[&[u8]], what: &str) -> Result<()> {
        let reply = self.reply()?;
        match replies.contains(&reply) {
            true => Ok(()),
            false => Err(format!("{what}: {}", String::from_utf8_lossy(reply)).into()),
        }
    }

    fn push(&mut self, name: &[u8], key: u32, sequence: u64) {
        let (bytes, flags, expiry_s) = match content::operation(key, sequence) {
            Operation::Set { bytes, flags } => (bytes, flags, None),
            Operation::SetExpiring { bytes, flags } => (bytes, flags, Some(now_s() as u32 + 1)),
            Operation::Touch => return self.push_line(b"touch ", name, " 0\r\n"),
            Operation::Delete => return self.push_line(b"delete ", name, "\r\n"),
        };
        self.push_line(b"set ", name, &format!(" {flags} {} {bytes}\r\n", expiry_s.unwrap_or(0)));
        content::push_value(&mut self.requests, key, sequence, bytes, expiry_s);
        self.requests.extend(b"\r\n");
    }

    fn push_line(&mut self, verb: &[u8], name: &[u8], rest: &str) {
        self.requests.extend([verb, name, rest.as_bytes()].concat());
    }
}

fn replies(operation: Operation) -> &'static [&'static [u8]] {
    match operation {
        Operation::Set { .. } | Operation::SetExpiring { .. } => &[b"STORED"],
        Operation::Touch => &[b"TOUCHED", b"NOT_FOUND"],
        Operation::Delete => &[b"DELETED", b"NOT_FOUND"],
    }
}

impl Writing<'_> {
    /// One of `of` writers of the keys, until the end.
    pub fn write(&self, number: u32, of: u32, seed: u64) -> Result<()> {
        let mut connection = Connection::open(self.server)?;
        let mut random = Random::of_stream(seed, u64::from(number));
        let keys = self.history.keys();
        let own: Vec<_> = (0..keys).filter(|key| is_shared(*key, keys) || key % of == number).collect();
        let mut sent = Vec::new();
        // First every key once.
        let mut first = own.iter();
        while !self.ended.load(Ordering::Relaxed) {
            for _ in 0..PIPELINE {
                let drawn = |()| own[self.draw(&mut random, own.len() as u64) as usize];
                let key = first.next().copied().ok_or(()).unwrap_or_else(drawn);
                let issued = self.history.issue(key);
                connection.push(&self.names[key as usize], key, issued.0);
                sent.push((key, issued));
            }
            connection.send()?;
            for (key, issued) in sent.drain(..) {
                let operation = content::operation(key, issued.0);
                connection.expect(replies(operation), "a write")?;
                self.history.acknowledge(key, issued);
            }
            self.operations.fetch_add(PIPELINE, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Half of them from a few; most others from three quarters; the rest, whose expiry comes about, from
    /// all.
    fn draw(&self, random: &mut Random, keys: u64) -> u64 {
        match random.below(2048) {
            0..1024 => random.below(HOT.min(keys)),
            1024..2047 => random.below(keys - keys / 4) + keys / 4,
            _ => random.below(keys),
        }
    }

    /// Flushes everything, whenever so many replies have come.
    pub fn flush(&self, replies: &AtomicU64, every: u64) -> Result<u64> {
        let mut connection = Connection::open(self.server)?;
        let mut flushes = 0;
        while !self.ended.load(Ordering::Relaxed) {
            if replies.load(Ordering::Relaxed) < (flushes + 1) * every {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            self.history.flush(|| {
                connection.requests.extend(b"flush_all\r\n");
                connection.send()?;
                connection.expect(&[b"OK"], "flush_all")
            })?;
            flushes += 1;
        }
        Ok(flushes)
    }

    /// Stores items that nobody reads, and deletes them one round later: the index grows, the memory fills,
    /// items leave.
    pub fn fill(&self, items: u64, seed: u64) -> Result<u64> {
        let mut connection = Connection::open(self.server)?;
        let mut random = Random::of_stream(seed, u64::MAX);
        let mut stored = 0;
        for item in 0.. {
            if self.ended.load(Ordering::Relaxed) {
                break;
            }
            let name = format!("fill-{:010}", item % items);
            if (item / items).is_multiple_of(2) {
                let bytes = 8 + random.below(100) as usize;
                connection.push_line(b"set ", name.as_bytes(), &format!(" 0 0 {bytes}\r\n"));
                connection.requests.extend(std::iter::repeat_n(b'f', bytes));
                connection.requests.extend(b"\r\n");
            } else {
                connection.push_line(b"delete ", name.as_bytes(), "\r\n");
            }
            if (item + 1) % PIPELINE == 0 {
                connection.send()?;
                for _ in 0..PIPELINE {
                    // There may be no room, and it may have left.
                    stored += u64::from(connection.reply()? == b"STORED");
                }
            }
        }
        Ok(stored)
    }
}
