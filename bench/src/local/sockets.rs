//! A reader beside memcached over its Unix socket: one connection, one get in flight, 500,000 items.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use micanite_client::LocalLink;

use super::Options;
use super::place::Place;
use crate::Result;
use crate::engine::contenders::Done;
use crate::harness::peers::memcacheds_or_none;
use crate::harness::popularity::Popularity;
use crate::harness::process::Process;
use crate::results::measurement::Measurement;

const ITEMS: u64 = 500_000;
const MEMORY_BYTES: usize = 256 << 20;
const CASE: &str = "500,000 items 16/32, one in flight";
const PATIENCE: Duration = Duration::from_secs(30);
/// Gets of a round over a socket; a reader does more in less time.
const GETS: usize = 50_000;
const GETS_OF_READER: usize = 1 << 20;
const VALUE_BYTES: usize = 32;

pub(super) fn run(options: &Options, cpu: usize, report: &mut Measurement) -> Result<()> {
    if !options.common.wants(CASE) {
        return Ok(());
    }
    let server = Place::start(&options.binaries.server, MEMORY_BYTES, cpu)?;
    let mut text = Text::connect(&server.text())?;
    text.fill()?;
    let mut link = server.link()?;
    let list = Popularity::Uniform.draw(ITEMS, GETS_OF_READER, 3);
    for binary in memcacheds_or_none(&options.binaries.memcached, report)? {
        let socket = std::env::temp_dir().join(format!("micanite-lab-memcached-{}", std::process::id()));
        let mut command = vec![binary.as_os_str().to_owned()];
        command.extend(["-t", "1", "-u", "root", "-m", "256", "-s"].map(OsString::from));
        command.push(socket.clone().into());
        let mut process = Process::start("memcached", &command, cpu, false)?;
        let mut theirs = process.wait_until(PATIENCE, || Text::connect(&socket))?;
        let name = format!("memcached {} over its Unix socket", theirs.version()?);
        theirs.fill()?;
        let mut rates = [const { Vec::new() }; 3];
        for round in 0..=options.common.rounds() {
            eprint!("\r{CASE} round {round}   ");
            let of_round = [
                rate(&list, |list| read(&mut link, list))?,
                rate(&list[..GETS], |list| theirs.read(list))?,
                rate(&list[..GETS], |list| text.read(list))?,
            ];
            for (rates, of_round) in rates.iter_mut().zip(of_round) {
                rates.extend((round > 0).then_some(of_round));
            }
        }
        eprintln!();
        let [ours, memcached, socket_of_ours] = rates;
        report.beside((CASE, "GETs by a reader", "k/s"), &ours, &name, &memcached);
        report.beside((CASE, "GETs over our Unix socket", "k/s"), &socket_of_ours, &name, &memcached);
    }
    Ok(())
}

fn rate(list: &[u32], run: impl FnOnce(&[u32]) -> Result<Done>) -> Result<f64> {
    let start = Instant::now();
    run(list)?.check("gets")?;
    Ok(list.len() as f64 / start.elapsed().as_secs_f64() / 1e3)
}

fn key(item: u32) -> [u8; 16] {
    let mut key = *b"key-000000000000";
    let mut rest = item;
    for digit in key.iter_mut().rev() {
        if rest == 0 {
            break;
        }
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// A value that begins with the item's key.
fn value(item: u32) -> [u8; VALUE_BYTES] {
    let mut value = [b'v'; VALUE_BYTES];
    value[..16].copy_from_slice(&key(item));
    value
}

fn read(link: &mut LocalLink, list: &[u32]) -> Result<Done> {
    let (mut done, mut found) = (Done::default(), Vec::new());
    for item in list {
        let is_hit = link.get(&key(*item), &mut found)?.is_some();
        count(&mut done, is_hit.then_some(&found[..]), *item);
    }
    Ok(done)
}

fn count(done: &mut Done, found: Option<&[u8]>, item: u32) {
    let found = found.map(|found| u64::from(found != value(item)));
    done.count(found, 0);
}

/// A connection for text over a Unix socket.
struct Text {
    stream: BufReader<UnixStream>,
    line: Vec<u8>,
}

impl Text {
    fn connect(path: &Path) -> Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream: BufReader::new(stream), line: Vec::new() })
    }

    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.stream.get_mut().write_all(bytes)?)
    }

    /// Reads a line, without its end.
    fn line(&mut self) -> Result<&[u8]> {
        self.line.clear();
        self.stream.read_until(b'\n', &mut self.line)?;
        self.line.strip_suffix(b"\r\n").ok_or_else(|| "the server has closed".into())
    }

    fn version(&mut self) -> Result<String> {
        self.send(b"version\r\n")?;
        let line = String::from_utf8_lossy(self.line()?).into_owned();
        Ok(line.trim_start_matches("VERSION ").to_owned())
    }

    fn fill(&mut self) -> Result<()> {
        let items: Vec<u32> = (0..ITEMS as u32).collect();
        for part in items.chunks(1000) {
            let mut bytes = Vec::new();
            for item in part {
                bytes.extend_from_slice(b"set ");
                bytes.extend_from_slice(&key(*item));
                bytes.extend_from_slice(format!(" 0 0 {VALUE_BYTES} noreply\r\n").as_bytes());
                bytes.extend_from_slice(&value(*item));
                bytes.extend_from_slice(b"\r\n");
            }
            bytes.extend_from_slice(b"version\r\n");
            self.send(&bytes)?;
            self.line()?;
        }
        Ok(())
    }

    fn read(&mut self, list: &[u32]) -> Result<Done> {
        let mut done = Done::default();
        let mut request = *b"get key-000000000000\r\n";
        for item in list {
            request[4..20].copy_from_slice(&key(*item));
            self.send(&request)?;
            let is_hit = self.line()?.starts_with(b"VALUE ");
            if is_hit {
                self.line()?;
                count(&mut done, Some(&self.line[..VALUE_BYTES]), *item);
                self.line()?;
            } else {
                count(&mut done, None, *item);
            }
        }
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_numbers_of_the_items() {
        assert_eq!(&key(0), b"key-000000000000");
        assert_eq!(&key(4_294_967_295), b"key-004294967295");
        let mut done = Done::default();
        count(&mut done, Some(&value(7)), 7);
        count(&mut done, Some(&value(8)), 7);
        count(&mut done, None, 7);
        assert_eq!((done.hits, done.wrong, done.misses), (1, 1, 1));
    }
}
