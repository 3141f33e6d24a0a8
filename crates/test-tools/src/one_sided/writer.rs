//! Clients that write: over memcached's protocol and over the fabric.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use micanite_client::{FabricLink, Operation, Outcome};
use micanite_workload::Random;

use super::key::Keys;
use super::reader::connect;
use super::{AWAY, Shared, count};

const PATIENCE: Duration = Duration::from_secs(10);
const WAIT_NS: u64 = 1_000_000;
/// One of so many writes deletes.
const DELETES: u64 = 32;
/// Writes go to the hottest keys of a writer so often.
const HOT: f64 = 0.5;
const HOT_KEYS: u64 = 4;

/// Fate of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Acknowledged,
    /// Nothing has changed.
    Refused,
    Unknown,
}

/// The keys of one of several writers, in an order by chance.
struct Choice {
    random: Random,
    number: u64,
    writers: u64,
    own: u64,
}

impl Choice {
    fn new(shared: &Shared, (number, writers): (u32, u32)) -> Self {
        let random = Random::of_stream(shared.options.seed, u64::from(number));
        let own = u64::from(shared.keys.len().saturating_sub(number).div_ceil(writers));
        Self { random, number: u64::from(number), writers: u64::from(writers), own }
    }

    /// A key, and whether it is to be deleted.
    fn next(&mut self) -> (u32, bool) {
        let own = if self.random.chance(HOT) { self.own.min(HOT_KEYS) } else { self.own };
        let key = self.random.below(own) * self.writers + self.number;
        (key as u32, self.random.below(DELETES) == 0)
    }
}

/// Writes one of the keys, by `write`, which gets name and value; none is a deletion.
fn write_one(
    shared: &Shared,
    choice: &mut Choice,
    write: impl FnOnce(&[u8], Option<&[u8]>) -> Ending,
) -> Ending {
    thread::sleep(Duration::from_micros(shared.options.write_pause_us));
    let (key, deletes) = choice.next();
    let number = shared.keys.begin(key);
    let value = (!deletes).then(|| Keys::value(key, number));
    let ending = write(&shared.keys.name(key), value.as_deref());
    match ending {
        Ending::Acknowledged => {
            shared.keys.acknowledge(key, number);
            count(&shared.tally.writes);
        }
        Ending::Refused => {}
        Ending::Unknown => {
            shared.keys.leave_unknown(key, number);
            count(&shared.tally.unknown_writes);
        }
    }
    ending
}

pub(super) fn write_over_tcp(shared: &Shared, part: (u32, u32)) {
    let mut choice = Choice::new(shared, part);
    while !shared.is_over() {
        let Ok(mut stream) = open(shared.options.tcp) else {
            thread::sleep(AWAY);
            continue;
        };
        while !shared.is_over() {
            let ending = write_one(shared, &mut choice, |name, value| {
                let replied = exchange(&mut stream, name, value);
                replied.unwrap_or(Ending::Unknown)
            });
            if ending == Ending::Unknown {
                break;
            }
        }
    }
}

fn open(address: SocketAddr) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    Ok(BufReader::new(stream))
}

fn exchange(stream: &mut BufReader<TcpStream>, name: &[u8], value: Option<&[u8]>) -> io::Result<Ending> {
    let mut request = Vec::new();
    match value {
        None => request.extend_from_slice(&[b"delete ", name, b"\r\n"].concat()),
        Some(value) => {
            let length = format!(" 0 0 {}\r\n", value.len());
            request.extend_from_slice(&[b"set ", name, length.as_bytes(), value, b"\r\n"].concat());
        }
    }
    stream.get_mut().write_all(&request)?;
    let mut line = Vec::new();
    stream.read_until(b'\n', &mut line)?;
    match line.as_slice() {
        b"STORED\r\n" | b"DELETED\r\n" | b"NOT_FOUND\r\n" => Ok(Ending::Acknowledged),
        line if line.starts_with(b"SERVER_ERROR") => Ok(Ending::Refused),
        _ => Ok(Ending::Unknown),
    }
}

/// Flushes everything.
pub(super) fn flush(address: SocketAddr) -> io::Result<()> {
    let mut stream = open(address)?;
    stream.get_mut().write_all(b"flush_all\r\n")?;
    let mut line = Vec::new();
    stream.read_until(b'\n', &mut line)?;
    match line.as_slice() {
        b"OK\r\n" => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

pub(super) fn write_over_fabric(shared: &Shared, part: (u32, u32)) {
    let mut choice = Choice::new(shared, part);
    while !shared.is_over() {
        let Some(mut link) = connect(shared) else {
            continue;
        };
        while !shared.is_over() {
            let ending = write_one(shared, &mut choice, |name, value| {
                let operation = match value {
                    None => Operation::delete(name),
                    Some(value) => Operation::set(name, value),
                };
                execute(&mut link, &operation)
            });
            if ending != Ending::Acknowledged {
                thread::sleep(AWAY);
            }
        }
    }
}

/// One operation to its end.
fn execute(link: &mut FabricLink, operation: &Operation<'_>) -> Ending {
    if link.submit(link.now_ns(), operation, 0).is_err() {
        return Ending::Refused;
    }
    link.flush();
    let mut ending = None;
    while ending.is_none() {
        let now_ns = link.now_ns();
        let polled = link.poll(now_ns, |completion| {
            ending = Some(match completion.outcome {
                Outcome::Ok | Outcome::NotFound => Ending::Acknowledged,
                Outcome::TimedOut | Outcome::ServerDown | Outcome::Unknown => Ending::Unknown,
                _ => Ending::Refused,
            });
        });
        match polled {
            Ok(0) if ending.is_none() => drop(link.wait(WAIT_NS)),
            Ok(_) => {}
            Err(_) => return Ending::Unknown,
        }
    }
    ending.unwrap_or(Ending::Unknown)
}
