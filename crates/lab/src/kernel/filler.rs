//! Stores over TCP that nobody measures.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::requests::{Drawn, push_set};
use crate::Result;

/// A server has so long to execute a megabyte of them.
const PATIENCE: Duration = Duration::from_secs(60);

/// Stores many items without asking after each.
pub(super) struct Filler {
    stream: TcpStream,
    bytes: Vec<u8>,
    name: String,
}

impl Filler {
    pub fn connect(server: SocketAddr, name: &str) -> Result<Self> {
        let stream = TcpStream::connect(server)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self {
            stream,
            bytes: Vec::new(),
            name: name.to_owned(),
        })
    }

    /// Lines that ask for no reply.
    pub fn push_lines(&mut self, lines: &[u8]) {
        self.bytes.extend(lines);
    }

    pub fn push(&mut self, drawn: &Drawn<'_>) -> Result<()> {
        push_set(&mut self.bytes, drawn, 0, " noreply");
        match self.bytes.len() > 1 << 20 {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// All of them are there.
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
