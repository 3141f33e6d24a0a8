//! Stores items over TCP before the clock runs, many without asking after each.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use micanite_workload::{Keys, Values};

use crate::Result;
use crate::generator::packets::{KEY_BYTES, VALUE_BYTES};

/// A server has so long to execute a megabyte of stores.
const PATIENCE: Duration = Duration::from_secs(60);
const FLUSH_BYTES: usize = 1 << 20;

/// A connection that stores.
pub(crate) struct Filler {
    stream: TcpStream,
    bytes: Vec<u8>,
    name: String,
}

impl Filler {
    pub fn connect(server: SocketAddr, name: &str) -> Result<Self> {
        let stream = TcpStream::connect(server)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream, bytes: Vec::new(), name: name.to_owned() })
    }

    /// Lines that ask for no reply.
    pub fn push_lines(&mut self, lines: &[u8]) {
        self.bytes.extend(lines);
    }

    /// The value of an item under a key.
    pub fn push(&mut self, key: &[u8], item: u64, value_bytes: usize) -> Result<()> {
        push_set(&mut self.bytes, (key, item, value_bytes), 0, " noreply");
        match self.bytes.len() > FLUSH_BYTES {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Waits until all is stored.
    pub fn finish(mut self) -> Result<()> {
        self.flush()
    }

    fn flush(&mut self) -> Result<()> {
        self.bytes.extend(b"mn\r\n");
        self.stream.write_all(&self.bytes)?;
        self.bytes.clear();
        let mut line = String::new();
        BufReader::new(&self.stream).read_line(&mut line)?;
        match line.as_str() {
            "MN\r\n" => Ok(()),
            said => Err(format!("{} does not store: {said:?}", self.name).into()),
        }
    }
}

/// Appends a `set` of an item's value; `suffix` follows the length on its line.
pub(crate) fn push_set(
    bytes: &mut Vec<u8>,
    (key, item, value_bytes): (&[u8], u64, usize),
    version: u32,
    suffix: &str,
) {
    bytes.extend(b"set ");
    bytes.extend(key);
    bytes.extend(format!(" 0 0 {value_bytes}{suffix}\r\n").as_bytes());
    Values::new(value_bytes).push(item, version, bytes);
    bytes.extend(b"\r\n");
}

/// Stores the tiny items 0 to `items - 1` in a server at this address.
pub(crate) fn fill(name: &str, server: SocketAddr, items: u64) -> Result<()> {
    eprint!("\rfilling {name}   ");
    let mut filler = Filler::connect(server, name)?;
    let (keys, mut key) = (Keys::new(KEY_BYTES), [0; KEY_BYTES]);
    for item in 0..items {
        keys.write(item, &mut key);
        filler.push(&key, item, VALUE_BYTES)?;
    }
    filler.finish()?;
    eprintln!();
    Ok(())
}
