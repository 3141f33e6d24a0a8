//! A server that answers SETs with STORED and stores nothing: by epoll, in the kernel before anything
//! wakes, or both. What it stands for is the limit of servers that do something, so it checks nothing:
//! all requests of a connection are as long as its first.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use clap::{Args, ValueEnum};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use super::program::{COUNTERS, Program};
use crate::{Result, system};

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Answer {
    /// A loop in user space.
    Epoll,
    /// The program; user space is woken for each segment all the same, as it must be where other
    /// requests are its own.
    Kernel,
    /// The program; connections that it has answered leave the loop, so nothing wakes.
    KernelAlone,
}

impl Answer {
    pub const fn is_in_kernel(self) -> bool {
        !matches!(self, Self::Epoll)
    }
}

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Address
    #[arg(long)]
    listen: SocketAddr,
    /// Who answers
    #[arg(long, value_enum)]
    answer: Answer,
}

/// Bytes that are received at a time.
const BUFFER_BYTES: usize = 64 << 10;
const STORED: &[u8] = b"STORED\r\n";
/// How often somebody looks after connections that have left the loop.
const LOOK_AFTER_MS: u16 = 10;
/// The token of the listener; connections have their descriptors.
const LISTENER: u64 = u64::MAX;

/// Serves until it is ended.
pub(crate) fn run(options: &Options) -> Result<()> {
    system::raise_file_limit();
    let listener = TcpListener::bind(options.listen)?;
    let poller = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    poller.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER))?;
    let program = match options.answer {
        Answer::Epoll => None,
        Answer::Kernel | Answer::KernelAlone => Some(Program::load()?),
    };
    let mut responder = Responder {
        answer: options.answer,
        poller,
        program,
        connections: HashMap::new(),
        alone: Vec::new(),
        buffer: vec![0; BUFFER_BYTES],
        replies: STORED.repeat(BUFFER_BYTES / STORED.len()),
    };
    let mut events = [EpollEvent::empty(); 64];
    loop {
        let timeout = responder.timeout();
        let found = match responder.poller.wait(&mut events, timeout) {
            Err(Errno::EINTR) => 0,
            found => found?,
        };
        if found == 0 {
            responder.look_after()?;
        }
        for event in &events[..found] {
            match event.data() {
                LISTENER => responder.accept(&listener)?,
                token => responder.serve(token)?,
            }
        }
    }
}

struct Connection {
    stream: TcpStream,
    /// Of the first request; all others are like it.
    request_bytes: usize,
    /// Of a request that has not arrived as a whole.
    begun_bytes: usize,
    /// It has left the loop.
    is_alone: bool,
}

struct Responder {
    answer: Answer,
    poller: Epoll,
    program: Option<Program>,
    connections: HashMap<u64, Connection>,
    /// Those that have left the loop.
    alone: Vec<u64>,
    buffer: Vec<u8>,
    replies: Vec<u8>,
}

impl Responder {
    fn accept(&mut self, listener: &TcpListener) -> Result<()> {
        let (stream, client) = listener.accept()?;
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let token = stream.as_raw_fd() as u64;
        let mut interest = EpollFlags::EPOLLIN;
        if let Some(program) = &self.program {
            match program.add(&stream, client.port()) {
                // The client has gone already.
                Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => return Ok(()),
                added => added?,
            }
            // A socket whose segments the program has shortened is readable for ever.
            interest |= EpollFlags::EPOLLET;
        }
        self.poller.add(&stream, EpollEvent::new(interest, token))?;
        let connection = Connection {
            stream,
            request_bytes: 0,
            begun_bytes: 0,
            is_alone: false,
        };
        self.connections.insert(token, connection);
        Ok(())
    }

    /// How long to wait for events.
    fn timeout(&self) -> EpollTimeout {
        match self.alone.is_empty() {
            true => EpollTimeout::NONE,
            false => LOOK_AFTER_MS.into(),
        }
    }

    /// Serves what the program has left over of connections that have left the loop, and sees which
    /// have ended.
    fn look_after(&mut self) -> Result<()> {
        let mut alone = std::mem::take(&mut self.alone);
        for token in &alone {
            self.serve(*token)?;
        }
        alone.retain(|token| self.connections.contains_key(token));
        self.alone = alone;
        Ok(())
    }

    /// Answers what has arrived, up to what the buffer holds; whatever there is where events come
    /// once only.
    fn serve(&mut self, token: u64) -> Result<()> {
        let mut is_first = true;
        while let Some(connection) = self.connections.get_mut(&token) {
            match connection.stream.read(&mut self.buffer) {
                Ok(bytes @ 1..) => {
                    let (received, program) = (&self.buffer[..bytes], self.program.as_ref());
                    let answered = match received[0] {
                        b'v' => connection.stream.write_all(b"VERSION stored\r\n"),
                        b's' if received.starts_with(b"stats") => {
                            connection.stream.write_all(statistics(program)?.as_bytes())
                        }
                        _ => {
                            let bytes = connection.replies_bytes(received);
                            connection.stream.write_all(&self.replies[..bytes])
                        }
                    };
                    if answered.is_err() {
                        self.connections.remove(&token);
                    }
                    if program.is_none() {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let leaves = self.answer == Answer::KernelAlone && !connection.is_alone;
                    if leaves && is_first {
                        self.poller.delete(&connection.stream)?;
                        connection.is_alone = true;
                        self.alone.push(token);
                    }
                    return Ok(());
                }
                Ok(0) | Err(_) => {
                    self.connections.remove(&token);
                }
            }
            is_first = false;
        }
        Ok(())
    }
}

impl Connection {
    /// What is to be sent for what was received.
    fn replies_bytes(&mut self, received: &[u8]) -> usize {
        if self.request_bytes == 0 {
            // What is not understood counts as one request.
            self.request_bytes = set_bytes(received).unwrap_or(received.len());
        }
        let bytes = self.begun_bytes + received.len();
        self.begun_bytes = bytes % self.request_bytes;
        bytes / self.request_bytes * STORED.len()
    }
}

/// The length of the `set` that a text begins with.
fn set_bytes(text: &[u8]) -> Option<usize> {
    let line = text.split(|byte| *byte == b'\n').next()?;
    let words = str::from_utf8(line).ok()?.trim_end();
    let value_bytes: usize = words
        .strip_prefix("set ")?
        .rsplit(' ')
        .next()?
        .parse()
        .ok()?;
    Some(line.len() + 1 + value_bytes + 2)
}

fn statistics(program: Option<&Program>) -> Result<String> {
    let mut text = String::new();
    if let Some(program) = program {
        for (name, count) in COUNTERS.iter().zip(program.counters()?) {
            text += &format!("STAT {name} {count}\r\n");
        }
    }
    Ok(text + "END\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is answered to some pieces, each of which is sent when the one before is answered.
    fn replies(address: SocketAddr, pieces: &[(&[u8], usize)]) -> Vec<u8> {
        let mut stream = TcpStream::connect(address).unwrap();
        let patience = Some(std::time::Duration::from_secs(10));
        stream.set_read_timeout(patience).unwrap();
        let mut all = Vec::new();
        for (piece, reply_bytes) in pieces {
            stream.write_all(piece).unwrap();
            let mut reply = vec![0; *reply_bytes];
            stream.read_exact(&mut reply).unwrap();
            all.extend(reply);
        }
        all
    }

    fn all_are_answered(answer: Answer) {
        let any_port = TcpListener::bind("127.0.0.1:0").unwrap();
        let listen = any_port.local_addr().unwrap();
        drop(any_port);
        std::thread::spawn(move || run(&Options { listen, answer }).unwrap());
        while TcpStream::connect(listen).is_err() {
            std::thread::yield_now();
        }
        let sets = b"set key-1 0 0 5\r\nvalue\r\n".repeat(5);
        let (some, rest) = sets.split_at(30);
        // When the first is answered the program has the socket.
        let pieces: [(&[u8], usize); 4] =
            [(b"version\r\n", 16), (&sets, 40), (some, 8), (rest, 32)];
        let expected = [b"VERSION stored\r\n", &STORED.repeat(10)[..]].concat();
        assert_eq!(replies(listen, &pieces), expected, "{answer:?}");
        if answer.is_in_kernel() {
            let counted = replies(listen, &[(b"stats\r\n", 37)]);
            let counted = String::from_utf8(counted).unwrap();
            assert!(
                counted.starts_with("STAT segments 1\r\nSTAT requests 5\r\n"),
                "{counted}"
            );
        }
    }

    #[test]
    fn the_loop_answers() {
        all_are_answered(Answer::Epoll);
    }

    #[test]
    fn the_program_answers_what_is_whole_and_the_loop_the_rest() {
        if !nix::unistd::geteuid().is_root() || !super::super::program::IS_BUILT {
            println!("skipped: loading a BPF program needs root, building one clang");
            return;
        }
        all_are_answered(Answer::Kernel);
        all_are_answered(Answer::KernelAlone);
    }

    #[test]
    fn requests_are_counted_by_their_length() {
        let request = b"set key 0 0 5\r\nvalue\r\n";
        assert_eq!(set_bytes(request), Some(request.len()));
        assert_eq!(set_bytes(b"get key\r\n"), None);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut connection = Connection {
            stream: TcpStream::connect(listener.local_addr().unwrap()).unwrap(),
            request_bytes: 0,
            begun_bytes: 0,
            is_alone: false,
        };
        let three = request.repeat(3);
        let (some, rest) = three.split_at(request.len() + 3);
        assert_eq!(connection.replies_bytes(some), STORED.len());
        assert_eq!(connection.replies_bytes(rest), 2 * STORED.len());
        assert_eq!(connection.begun_bytes, 0);
    }
}
