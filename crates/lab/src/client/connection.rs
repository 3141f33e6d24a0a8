//! One connection of a closed loop: a pipeline out, its replies in, checked.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use super::Tally;
use super::request::{Format, Key, Mix, Workload, is_set, key};
use crate::Result;

pub(crate) struct Connection {
    stream: TcpStream,
    workload: Workload,
    /// Place in the workload's list.
    next: usize,
    format: Format,
    /// The operations in flight: key, and whether it is a set.
    in_flight: Vec<(Key, bool)>,
    /// How many of them have been answered.
    answered: usize,
    sent_at: Instant,
    output: Vec<u8>,
    input: Vec<u8>,
    /// Bytes of `input` received, and how many of them have been looked at.
    received: usize,
    parsed: usize,
    /// What a hit begins and ends with, to be compared.
    expected: Vec<u8>,
}

/// The most that the replies of a pipeline take.
fn input_bytes(workload: &Workload) -> usize {
    workload.pipeline * (workload.value_bytes + 64) + 64
}

impl Connection {
    pub fn new(server: SocketAddr, workload: Workload, number: u64) -> Result<Self> {
        let stream = TcpStream::connect(server)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            next: number as usize * 7919 % workload.items.len(),
            in_flight: Vec::with_capacity(workload.pipeline),
            answered: 0,
            sent_at: Instant::now(),
            output: Vec::new(),
            input: vec![0; input_bytes(&workload)],
            received: 0,
            parsed: 0,
            expected: Vec::new(),
            format: Format::new(&workload),
            workload,
        })
    }

    /// Goes on with other requests.
    #[cfg(test)]
    pub fn exchange_workload(&mut self, workload: Workload) {
        self.next = 0;
        self.input = vec![0; input_bytes(&workload)];
        self.format = Format::new(&workload);
        self.workload = workload;
    }

    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Sends the next pipeline.
    pub fn send(&mut self, now: Instant) -> Result<()> {
        self.build();
        self.sent_at = now;
        let mut rest = self.output.as_slice();
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(sent) => rest = &rest[sent..],
                // Only pipelines larger than the socket's buffer; the server reads them soon.
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn build(&mut self) {
        self.output.clear();
        self.in_flight.clear();
        (self.answered, self.received, self.parsed) = (0, 0, 0);
        let Workload { mix, pipeline, .. } = self.workload;
        if mix == Mix::MultiGet {
            self.output.extend_from_slice(b"get");
        }
        for _ in 0..pipeline {
            let key = key(self.workload.items[self.next]);
            let set = is_set(mix, self.next);
            self.next = (self.next + 1) % self.workload.items.len();
            self.in_flight.push((key, set));
            let sent = self.format.sent(&key);
            if set {
                self.format.push_set(&mut self.output, &key);
            } else if mix == Mix::MultiGet {
                self.output.push(b' ');
                self.output.extend_from_slice(sent);
            } else {
                self.output.extend_from_slice(b"get ");
                self.output.extend_from_slice(sent);
                self.output.extend_from_slice(b"\r\n");
            }
        }
        if mix == Mix::MultiGet {
            self.output.extend_from_slice(b"\r\n");
        }
    }

    /// Takes what has arrived; returns whether the pipeline is complete.
    pub fn receive(&mut self, now: Instant, tally: &mut Tally) -> Result<bool> {
        match self.stream.read(&mut self.input[self.received..]) {
            Ok(0) => return Err("the server closed a connection".into()),
            Ok(received) => self.received += received,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        let complete = match self.workload.mix {
            Mix::Single { .. } => self.parse_single(tally)?,
            Mix::MultiGet => self.parse_multiget(tally)?,
        };
        if complete {
            if self.parsed != self.received {
                return Err("the server sent more than it was asked for".into());
            }
            tally.operations += self.in_flight.len() as u64;
            tally
                .latency_ns
                .push((now - self.sent_at).as_nanos().min(u128::from(u32::MAX)) as u32);
        }
        Ok(complete)
    }

    fn parse_single(&mut self, tally: &mut Tally) -> Result<bool> {
        while self.answered < self.in_flight.len() {
            let (key, set) = self.in_flight[self.answered];
            if set {
                if !self.take(b"STORED\r\n")? {
                    return Ok(false);
                }
            } else if self.rest().first() == Some(&b'E') {
                if !self.take(b"END\r\n")? {
                    return Ok(false);
                }
                tally.misses += 1;
            } else if !self.take_hit(&key, b"END\r\n")? {
                return Ok(false);
            }
            self.answered += 1;
        }
        Ok(true)
    }

    fn parse_multiget(&mut self, tally: &mut Tally) -> Result<bool> {
        loop {
            let rest = self.rest();
            match rest.first() {
                None => return Ok(false),
                Some(b'E') => {
                    if !self.take(b"END\r\n")? {
                        return Ok(false);
                    }
                    tally.misses += (self.in_flight.len() - self.answered) as u64;
                    return Ok(true);
                }
                _ => {}
            }
            let Some(name) = rest.get(6..6 + self.workload.key_bytes) else {
                return Ok(false);
            };
            // Hits come in the order of the keys; those that are passed over were missed.
            let skipped = self.in_flight[self.answered..]
                .iter()
                .position(|(key, _)| self.format.sent(key) == name);
            let skipped = skipped.ok_or("a value that was not asked for")?;
            let key = self.in_flight[self.answered + skipped].0;
            if !self.take_hit(&key, b"")? {
                return Ok(false);
            }
            tally.misses += skipped as u64;
            self.answered += skipped + 1;
        }
    }

    fn rest(&self) -> &[u8] {
        &self.input[self.parsed..self.received]
    }

    fn take_hit(&mut self, key: &Key, end: &[u8]) -> Result<bool> {
        let mut expected = std::mem::take(&mut self.expected);
        expected.clear();
        self.format.push_hit(&mut expected, key);
        expected.extend_from_slice(end);
        let taken = self.take(&expected);
        self.expected = expected;
        taken
    }

    /// Takes exactly these bytes; `false` if they have not all arrived.
    fn take(&mut self, expected: &[u8]) -> Result<bool> {
        let rest = self.rest();
        let arrived = rest.len().min(expected.len());
        if rest[..arrived] != expected[..arrived] {
            let shown = String::from_utf8_lossy(&rest[..arrived.min(80)]).into_owned();
            return Err(format!("wrong reply: {shown:?}").into());
        }
        if arrived < expected.len() {
            return Ok(false);
        }
        self.parsed += arrived;
        Ok(true)
    }
}
