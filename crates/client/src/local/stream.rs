//! Requests on their way over the stream, and their replies, in their order.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use micanite_memory::ForkMark;
use micanite_wire::memcache::text::TOO_MANY_CONNECTIONS;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};

use super::meta::{self, Reply};
use super::writes::Writes;
use crate::link::timed::Timed;
use crate::operation::{Completion, Opcode, Operation, Outcome};

/// Bytes of one read.
const READ_BYTES: usize = 16 << 10;
/// Requests on their way.
const IN_FLIGHT_MAX: usize = 1024;
/// Unsent bytes from which on no request is taken.
const UNSENT_BYTES_MAX: usize = 1 << 20;
/// Capacity that a buffer keeps when nothing is in it.
const KEPT_BYTES_MAX: usize = 2 * UNSENT_BYTES_MAX;

/// Empties a buffer, and gives the memory of the longest value back.
pub(super) fn empty(buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.shrink_to(KEPT_BYTES_MAX);
}

/// A request that was sent, or waits for room.
#[derive(Debug)]
struct Sent {
    token: u64,
    opcode: Opcode,
    /// The hash of the key, if it is a write that gets of the key wait for.
    write: Option<u64>,
    at_ns: u64,
}

/// The stream, and what is on its way.
#[derive(Debug)]
pub(super) struct RequestStream {
    stream: UnixStream,
    unsent: Vec<u8>,
    /// Bytes at the beginning of `unsent` that were sent.
    sent_bytes: usize,
    received: Vec<u8>,
    /// Bytes at the beginning of `received` that were delivered.
    delivered_bytes: usize,
    in_flight: VecDeque<Sent>,
    /// Time since when a request waits for the rest of a refused one to leave, while nothing is on its way.
    blocked_at_ns: Option<u64>,
    process: ForkMark,
}

impl RequestStream {
    pub fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            unsent: Vec::new(),
            sent_bytes: 0,
            received: Vec::new(),
            delivered_bytes: 0,
            in_flight: VecDeque::new(),
            blocked_at_ns: None,
            process: ForkMark::new()?,
        })
    }

    /// Returns whether this process opened the stream, and is no child of the one that did.
    pub fn is_of_this_process(&self) -> bool {
        self.process.is_of_this_process()
    }

    /// Logs in, as memcached's clients do in the text protocol.
    pub fn log_in(&mut self, user: &str, password: &str, end: Instant) -> io::Result<()> {
        let mut stream = Timed::new(&self.stream, end);
        let login = format!("{user} {password}");
        write!(stream, "set login 0 0 {}\r\n{login}\r\n", login.len())?;
        let mut reply = [0; 8];
        stream.read_exact(&mut reply)?;
        match &reply {
            b"STORED\r\n" => Ok(()),
            begun if TOO_MANY_CONNECTIONS.starts_with(begun) => Err(io::ErrorKind::ConnectionRefused.into()),
            _ => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }

    /// Returns the number of requests on their way.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Returns whether another request has to wait, from this time on: for others, or for the rest of one
    /// that the server has refused at its beginning.
    pub fn is_full(&mut self, now_ns: u64) -> bool {
        let is_blocked = self.unsent.len() - self.sent_bytes >= UNSENT_BYTES_MAX;
        if is_blocked && self.in_flight.is_empty() {
            self.blocked_at_ns.get_or_insert(now_ns);
        }
        is_blocked || self.in_flight.len() >= IN_FLIGHT_MAX
    }

    /// Returns whether bytes wait for room in the socket.
    pub fn has_unsent(&self) -> bool {
        self.sent_bytes < self.unsent.len()
    }

    /// Returns whether the server has closed the stream, or sent what nobody asked for. Only while nothing is
    /// on its way.
    pub fn is_closed(&self) -> bool {
        self.peek(&mut [0]) != Err(Errno::EAGAIN)
    }

    /// Returns whether the server had no free connection for this stream. Only while nothing is on its way.
    pub fn is_refused(&self) -> bool {
        let mut line = [0; TOO_MANY_CONNECTIONS.len()];
        self.peek(&mut line) == Ok(line.len()) && line == TOO_MANY_CONNECTIONS
    }

    fn peek(&self, into: &mut [u8]) -> nix::Result<usize> {
        recv(self.stream.as_raw_fd(), into, MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT)
    }

    /// Returns whether a sink has panicked: what came behind its reply is not delivered yet.
    pub fn has_undelivered(&self) -> bool {
        self.delivered_bytes > 0
    }

    /// Returns the time since when the oldest request waits for the server, on its way or for room.
    pub fn waits_since_ns(&self) -> Option<u64> {
        match self.in_flight.front() {
            Some(sent) => Some(sent.at_ns),
            None => self.blocked_at_ns.filter(|_| self.has_unsent()),
        }
    }

    /// Takes a request; a write with the hash by which gets of its key wait for it, unless the caller marks
    /// its writes itself. Returns false if it is of an unknown kind, or its key too long for this protocol.
    pub fn submit(
        &mut self,
        operation: &Operation<'_>,
        (hash, token, now_ns): (Option<u64>, u64, u64),
        writes: &Writes,
    ) -> bool {
        if !meta::request(operation, &mut self.unsent) {
            return false;
        }
        let is_write = !matches!(operation.opcode, Opcode::Get | Opcode::Noop);
        let write = hash.filter(|_| is_write);
        write.into_iter().for_each(|hash| writes.begin(hash));
        self.blocked_at_ns = None;
        self.in_flight.push_back(Sent { token, opcode: operation.opcode, write, at_ns: now_ns });
        true
    }

    /// Sends what was submitted, as far as the socket takes it, and passes replies on that have come. Returns
    /// how many there were. In the child of a fork it leaves the stream alone, which is the parent's.
    pub fn exchange(&mut self, writes: &Writes, sink: impl FnMut(Completion<'_>)) -> io::Result<usize> {
        if !self.is_of_this_process() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        self.flush()?;
        self.drop_sent();
        self.receive(writes, sink)
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.has_unsent() {
            match self.stream.write(&self.unsent[self.sent_bytes..]) {
                Ok(count) => self.sent_bytes += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Drops bytes that were sent, once they are half of the buffer: no more bytes move than were sent.
    fn drop_sent(&mut self) {
        if self.sent_bytes >= self.unsent.len() - self.sent_bytes {
            self.unsent.drain(..self.sent_bytes);
            self.sent_bytes = 0;
        }
        if self.unsent.is_empty() {
            empty(&mut self.unsent);
        }
    }

    fn receive(&mut self, writes: &Writes, mut sink: impl FnMut(Completion<'_>)) -> io::Result<usize> {
        let mut ended = if self.has_undelivered() { self.deliver(writes, &mut sink)? } else { 0 };
        let is_over = loop {
            let start = self.received.len();
            self.received.resize(start + READ_BYTES, 0);
            let read = self.stream.read(&mut self.received[start..]);
            self.received.truncate(start + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => break true,
                Ok(count) => {
                    ended += self.deliver(writes, &mut sink)?;
                    if count < READ_BYTES {
                        break false;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        };
        if is_over { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(ended) }
    }

    /// Passes the replies on that are complete. A request has ended, and its reply is delivered, before the
    /// sink gets it: if the sink panics, no other request gets this reply.
    fn deliver(&mut self, writes: &Writes, sink: &mut impl FnMut(Completion<'_>)) -> io::Result<usize> {
        let mut ended = 0;
        while let Some(opcode) = self.in_flight.front().map(|sent| sent.opcode) {
            match meta::reply(opcode, &self.received[self.delivered_bytes..]) {
                Reply::Incomplete => break,
                Reply::Nonsense => return Err(io::ErrorKind::InvalidData.into()),
                Reply::Full => return Err(io::ErrorKind::ConnectionRefused.into()),
                Reply::Complete { outcome, value, flags, cas, number, bytes } => {
                    let Some(sent) = self.in_flight.pop_front() else { break };
                    self.delivered_bytes += bytes;
                    ended += 1;
                    sent.write.into_iter().for_each(|hash| writes.end(hash));
                    let base = Completion::without_reply(sent.token, opcode, outcome);
                    sink(Completion { value, flags, cas, number, ..base });
                }
            }
        }
        self.received.drain(..std::mem::take(&mut self.delivered_bytes));
        if self.received.is_empty() {
            empty(&mut self.received);
        }
        // A reply that nobody has asked for would be taken for the next one.
        match self.in_flight.is_empty() && !self.received.is_empty() {
            true => Err(io::ErrorKind::InvalidData.into()),
            false => Ok(ended),
        }
    }

    /// Ends all requests with an outcome: the stream is of no use any more.
    pub fn give_up(mut self, outcome: Outcome, writes: &Writes, mut take: impl FnMut(u64, Opcode, Outcome)) {
        for sent in self.in_flight.drain(..) {
            sent.write.into_iter().for_each(|hash| writes.end(hash));
            take(sent.token, sent.opcode, outcome);
        }
    }
}

impl AsFd for RequestStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::EndedList;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// A reply that nobody has asked for ends the stream, before it is taken for another request's.
    #[test]
    fn a_reply_without_a_request_ends_the_stream() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let (mut stream, writes) = (RequestStream::new(near).unwrap(), Writes::default());
        assert!(stream.submit(&Operation::delete(b"key"), (None, 1, 0), &writes));
        far.write_all(b"HD\r\nHD\r\n").unwrap();
        let mut tokens = Vec::new();
        let exchanged = stream.exchange(&writes, |ended| tokens.push(ended.token));
        assert_eq!((exchanged.unwrap_err().kind(), tokens), (io::ErrorKind::InvalidData, vec![1]));
    }

    /// The next request got the reply of the one whose sink had panicked.
    #[test]
    fn a_sink_that_panics_shifts_no_reply() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let (mut stream, writes) = (RequestStream::new(near).unwrap(), Writes::default());
        for token in 0..4 {
            let operation = Operation::get_and_touch(b"key", 0);
            assert!(stream.submit(&operation, (Some(7), token, 0), &writes));
        }
        far.write_all(b"VA 1 f0\r\n0\r\nVA 1 f0\r\n1\r\nVA 1 f0\r\n2\r\n").unwrap();
        let panics = AssertUnwindSafe(|| stream.exchange(&writes, |_| panic!("meant")));
        assert!(catch_unwind(panics).is_err() && stream.has_undelivered());
        let mut got = Vec::new();
        let mut take = |ended: Completion<'_>| got.push((ended.token, ended.value.to_vec()));
        assert_eq!(stream.exchange(&writes, &mut take).unwrap(), 2);
        assert!(writes.may_hold(7) && !stream.has_undelivered());
        far.write_all(b"VA 1 f0\r\n3\r\n").unwrap();
        assert_eq!(stream.exchange(&writes, &mut take).unwrap(), 1);
        assert_eq!(got, [(1, b"1".to_vec()), (2, b"2".to_vec()), (3, b"3".to_vec())]);
        assert!(!writes.may_hold(7), "each write has ended once");
    }

    /// The buffer of a writer that keeps the socket full is bounded, though it is never empty.
    #[test]
    fn bytes_that_were_sent_take_no_memory() {
        const VALUE: [u8; 10_000] = [b'v'; 10_000];
        let (near, mut far) = UnixStream::pair().unwrap();
        let (mut stream, writes) = (RequestStream::new(near).unwrap(), Writes::default());
        let set = Operation::set(b"key", &VALUE);
        let mut one = Vec::new();
        assert!(meta::request(&set, &mut one));
        let (mut submitted, mut ended, mut taken) = (0, 0, 0);
        let mut bytes = vec![0; 2 * one.len()];
        while submitted < 2_000 {
            while !stream.is_full(0) {
                assert!(stream.submit(&set, (None, submitted, 0), &writes));
                submitted += 1;
            }
            ended += stream.exchange(&writes, |_| {}).unwrap();
            assert!(stream.has_unsent());
            assert!(stream.unsent.capacity() <= 8 * UNSENT_BYTES_MAX, "{}", stream.unsent.capacity());
            far.read_exact(&mut bytes).unwrap();
            far.write_all(&b"HD\r\n".repeat(2)).unwrap();
            taken += 2;
        }
        assert!(ended > 0 && ended <= taken);
        let longest = Operation::set(b"key", &[b'v'; 8 << 20]);
        assert!(stream.submit(&longest, (None, submitted, 0), &writes));
        stream.stream.set_nonblocking(false).unwrap();
        std::thread::scope(|scope| {
            let all = far.try_clone().unwrap();
            scope.spawn(move || io::copy(&mut { all }, &mut io::sink()).unwrap());
            stream.flush().unwrap();
            stream.drop_sent();
            far.shutdown(std::net::Shutdown::Both).unwrap();
        });
        assert!(stream.unsent.capacity() <= KEPT_BYTES_MAX, "{}", stream.unsent.capacity());
    }

    /// A long reply was kept in memory for good, by the stream and by the list of what has ended.
    #[test]
    fn bytes_that_were_delivered_take_no_memory() {
        const VALUE_BYTES: usize = 8 << 20;
        let (near, mut far) = UnixStream::pair().unwrap();
        let (mut stream, writes) = (RequestStream::new(near).unwrap(), Writes::default());
        assert!(stream.submit(&Operation::get(b"key"), (None, 1, 0), &writes));
        let mut request = Vec::new();
        assert!(meta::request(&Operation::get(b"key"), &mut request));
        let mut ended = EndedList::default();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                far.read_exact(&mut request).unwrap();
                let value = vec![b'v'; VALUE_BYTES];
                let reply = [format!("VA {VALUE_BYTES} f0\r\n").as_bytes(), &value, b"\r\n"].concat();
                far.write_all(&reply).unwrap();
                far
            });
            while stream.in_flight() > 0 {
                stream.exchange(&writes, |completion| ended.keep(&completion)).unwrap();
                std::thread::yield_now();
            }
        });
        assert!(stream.received.capacity() <= KEPT_BYTES_MAX, "{}", stream.received.capacity());
        let mut bytes = 0;
        assert!(ended.kept_bytes() >= VALUE_BYTES);
        assert_eq!(ended.deliver(|completion| bytes += completion.value.len()), 1);
        assert_eq!(bytes, VALUE_BYTES);
        assert!(ended.kept_bytes() <= KEPT_BYTES_MAX, "{}", ended.kept_bytes());
    }
}
