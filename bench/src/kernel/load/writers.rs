//! Writes over TCP, on a few connections that many requests share, as those of a proxy: what comes to
//! a connection while its replies are outstanding is pipelined.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use super::requests::Kind;
use crate::Result;

/// One write that was answered: what it was, and when it was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kernel) struct Written {
    pub kind: Kind,
    pub due_ns: u64,
}

struct Connection {
    stream: TcpStream,
    out: Vec<u8>,
    input: Vec<u8>,
    waiting: VecDeque<Written>,
}

pub(in crate::kernel) struct Writers {
    epoll: Epoll,
    connections: Vec<Connection>,
    outstanding: usize,
}

impl Writers {
    pub fn connect(server: SocketAddr, connections: usize) -> Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let mut writers = Self { epoll, connections: Vec::new(), outstanding: 0 };
        for number in 0..connections {
            let stream = TcpStream::connect(server)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let event = EpollEvent::new(EpollFlags::EPOLLIN, number as u64);
            writers.epoll.add(&stream, event)?;
            writers.connections.push(Connection {
                stream,
                out: Vec::new(),
                input: Vec::new(),
                waiting: VecDeque::new(),
            });
        }
        Ok(writers)
    }

    /// Writes that were not answered yet.
    pub fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Appends a line to the connection of an item, where the writes of one item stay in order.
    #[inline]
    pub fn push(&mut self, item: u64, line: &[u8], write: Written) {
        let count = self.connections.len() as u64;
        let connection = &mut self.connections[(item % count) as usize];
        connection.out.extend_from_slice(line);
        connection.waiting.push_back(write);
        self.outstanding += 1;
    }

    /// Sends what the sockets take.
    pub fn flush(&mut self) -> Result<()> {
        let filled = self.connections.iter_mut();
        for connection in filled.filter(|connection| !connection.out.is_empty()) {
            match connection.stream.write(&connection.out) {
                Ok(bytes) => drop(connection.out.drain(..bytes)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(format!("writing over TCP: {error}").into()),
            }
        }
        Ok(())
    }

    /// Reads what has arrived.
    pub fn poll(&mut self, mut each: impl FnMut(Written)) -> Result<()> {
        if self.outstanding == 0 {
            return Ok(());
        }
        let mut events = [EpollEvent::empty(); 16];
        let count = self.epoll.wait(&mut events, EpollTimeout::ZERO)?;
        for event in &events[..count] {
            let connection = &mut self.connections[event.data() as usize];
            self.outstanding -= connection.read(&mut each)?;
        }
        Ok(())
    }
}

impl Connection {
    /// Returns how many writes were answered.
    fn read(&mut self, each: &mut impl FnMut(Written)) -> Result<usize> {
        let mut buffer = [0; 4096];
        let bytes = match self.stream.read(&mut buffer) {
            Ok(0) => return Err("the server has closed a connection".into()),
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
            Err(error) => return Err(format!("reading over TCP: {error}").into()),
        };
        self.input.extend_from_slice(&buffer[..bytes]);
        let (mut answered, mut begin) = (0, 0);
        while let Some(length) = self.input[begin..].iter().position(|byte| *byte == b'\n') {
            let line = &self.input[begin..=begin + length];
            let write = self.waiting.pop_front().ok_or("a reply to nothing")?;
            let is_done = match write.kind {
                Kind::Update => line == b"STORED\r\n",
                Kind::Delete => matches!(line, b"DELETED\r\n" | b"NOT_FOUND\r\n"),
                Kind::Get => false,
            };
            if !is_done {
                let line = String::from_utf8_lossy(line);
                return Err(format!("{} was answered {line:?}", write.kind.name()).into());
            }
            each(write);
            (answered, begin) = (answered + 1, begin + length + 1);
        }
        self.input.drain(..begin);
        Ok(answered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufRead;
    use std::net::TcpListener;

    #[test]
    fn writes_are_answered_in_order_whatever_the_pieces() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut lines = std::io::BufReader::new(stream.try_clone().unwrap()).lines();
            let mut stream = stream;
            for piece in ["STO", "RED\r\nNOT_", "FOUND\r\nDELETED\r\n"] {
                stream.write_all(piece.as_bytes()).unwrap();
            }
            lines.next().unwrap().unwrap()
        });
        let mut writers = Writers::connect(address, 1).unwrap();
        let kinds = [Kind::Update, Kind::Delete, Kind::Delete];
        for (due_ns, kind) in (1..).zip(kinds) {
            writers.push(7, b"line\r\n", Written { kind, due_ns });
        }
        writers.flush().unwrap();
        let mut done = Vec::new();
        while writers.outstanding() > 0 {
            writers.poll(|write| done.push((write.kind, write.due_ns))).unwrap();
        }
        let expected: Vec<_> = kinds.into_iter().zip(1..).collect();
        assert_eq!(done, expected);
        assert_eq!(server.join().unwrap(), "line");
    }
}
