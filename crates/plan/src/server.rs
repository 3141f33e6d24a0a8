//! A load as a running server's statistics tell it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of statistics that are read, at most, and the time for all of them.
const BYTES_MAX: u64 = 1 << 20;
const PATIENCE_ALL: Duration = Duration::from_secs(30);

/// Answers of a server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Told {
    /// Items.
    pub items: u64,
    /// Bytes of an item, on average, its header included.
    pub item_bytes: f64,
    /// Share of the requests that read.
    pub get: f64,
    /// Requests per second since its start.
    pub rate: f64,
}

/// Asks a server that speaks memcached's text protocol at `HOST:PORT`.
///
/// # Errors
/// When it does not answer, or has no items: a sentence.
pub fn ask(address: &str) -> Result<Told, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{address} does not tell its statistics: {error}");
    let address_of = |text: &str| text.to_socket_addrs().ok()?.next();
    let resolved = address_of(address.trim_start_matches("memcached://"))
        .ok_or_else(|| format!("'{address}' is no address: HOST:PORT"))?;
    let mut stream = TcpStream::connect_timeout(&resolved, PATIENCE).map_err(|error| failed(&error))?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(|error| failed(&error))?;
    stream.write_all(b"stats\r\nquit\r\n").map_err(|error| failed(&error))?;
    let (mut lines, begin) = (Vec::new(), Instant::now());
    for line in BufReader::new(stream.take(BYTES_MAX)).lines() {
        lines.push(line.map_err(|error| failed(&error))?);
        if begin.elapsed() > PATIENCE_ALL {
            return Err(failed(&"they have no end"));
        }
    }
    told(&lines).ok_or_else(|| failed(&"it has no items yet"))
}

/// Reads the lines of `stats`.
fn told(lines: &[String]) -> Option<Told> {
    let of = |name: &str| {
        let mut words = lines.iter().map(|line| line.split_ascii_whitespace());
        words.find_map(|mut words| {
            let is_it = words.next() == Some("STAT") && words.next() == Some(name);
            is_it.then(|| words.next()?.parse::<f64>().ok()).flatten()
        })
    };
    let (items, gets, sets) = (of("curr_items")?, of("cmd_get")?, of("cmd_set")?);
    (items > 0.0).then(|| Told {
        items: items as u64,
        item_bytes: of("bytes").unwrap_or(0.0) / items,
        get: gets / (gets + sets).max(1.0),
        rate: (gets + sets) / of("uptime").unwrap_or(1.0).max(1.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Statistics are read; a server without items tells nothing.
    #[test]
    fn statistics_are_read() {
        let lines = |items: u32| {
            let text = format!(
                "STAT uptime 10\nSTAT curr_items {items}\nSTAT bytes 400\nSTAT cmd_get 90\nSTAT cmd_set 10"
            );
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let expected = Told { items: 10, item_bytes: 40.0, get: 0.9, rate: 10.0 };
        assert_eq!(told(&lines(10)), Some(expected));
        assert_eq!(told(&lines(0)), None);
        assert_eq!(told(&[]), None);
        assert!(ask("nonsense").is_err());
    }
}
