//! A bare ping-pong of a provider: messages that come back as they are, and an area to read. No protocol,
//! no table: what a provider does at best.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use micanite_fabric::{
    Buffer, Completion, Completions, Endpoint, EndpointOptions, Error, FabricAddress, Operation, Peer,
    RemoteArea,
};
use micanite_memory::Region;

use crate::Result;

/// Bytes of the longest message, and of the area.
pub(super) const BYTES_MAX: usize = 1 << 20;
const RECEIVES: usize = 4;
/// A greeting is marked by no more bytes.
const GREETING_BYTES_MAX: usize = 64;
/// A transfer takes no longer.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Address to listen on: PROVIDER,ADDRESS:PORT
    #[arg(long)]
    address: FabricAddress,
}

/// Serves until it is ended.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut endpoint = open(Endpoint::listen(&options.address, &EndpointOptions::default()))?;
    let area = open(endpoint.area(Arc::new(Region::private(BYTES_MAX)?)))?;
    for _ in 0..RECEIVES {
        let buffer = open(endpoint.buffer(BYTES_MAX))?;
        posted(endpoint.receive(buffer, 0))?;
    }
    let mut completions = Completions::new();
    loop {
        open(endpoint.poll(&mut completions))?;
        if completions.is_empty() {
            std::thread::yield_now();
        }
        for completion in completions.drain(..) {
            let Completion { operation, peer, mut buffer, result, .. } = completion;
            let (Ok(mut bytes), Some(peer)) = (result, peer) else {
                posted(endpoint.receive(buffer, 0))?;
                continue;
            };
            match operation {
                Operation::Send => posted(endpoint.receive(buffer, 0))?,
                _ => {
                    if operation == Operation::Greeting {
                        let numbers = area.remote().encode();
                        buffer[..numbers.len()].copy_from_slice(&numbers);
                        bytes = numbers.len();
                    }
                    posted(send(&mut endpoint, peer, buffer, bytes))?;
                }
            }
        }
    }
}

fn open<T>(result: std::result::Result<T, Error>) -> Result<T> {
    result.map_err(|error| error.to_string().into())
}

fn posted(result: std::result::Result<(), micanite_fabric::Unposted>) -> Result<()> {
    result.map_err(|unposted| unposted.error.to_string().into())
}

/// Sends, again while the peer is busy.
fn send(
    endpoint: &mut Endpoint,
    peer: Peer,
    mut buffer: Buffer,
    bytes: usize,
) -> std::result::Result<(), micanite_fabric::Unposted> {
    loop {
        match endpoint.send(peer, buffer, bytes, 0) {
            Err(unposted) if unposted.error == Error::Busy => buffer = unposted.buffer,
            other => return other,
        }
    }
}

/// The client's end.
pub(super) struct Pong {
    endpoint: Endpoint,
    server: Peer,
    area: RemoteArea,
    completions: Completions,
    /// For what is sent or read, and for what comes back.
    buffers: Vec<Buffer>,
}

impl Pong {
    /// Connects, and learns where the area is.
    pub fn connect(address: &FabricAddress) -> Result<Self> {
        let mut endpoint = open(Endpoint::connect(address, &EndpointOptions::default()))?;
        let server = endpoint.server().ok_or("no server")?;
        let receive = open(endpoint.buffer(BYTES_MAX))?;
        posted(endpoint.receive(receive, 0))?;
        let end = Instant::now() + PATIENCE;
        let mut greeting = open(endpoint.buffer(BYTES_MAX))?;
        while let Err(unposted) = endpoint.greet(greeting, 0) {
            if unposted.error != Error::Busy || Instant::now() > end {
                return Err(unposted.error.to_string().into());
            }
            open(endpoint.poll(&mut Completions::new()))?;
            greeting = unposted.buffer;
        }
        let area = RemoteArea { key: 0, base: 0, bytes: 0 };
        let mut pong = Self { endpoint, server, area, completions: Completions::new(), buffers: Vec::new() };
        let reply = pong.wait(Operation::Receive)?;
        pong.area = RemoteArea::decode(&reply).ok_or("the server tells no area")?;
        pong.buffers.push(reply);
        Ok(pong)
    }

    /// Waits until an operation of this kind has finished; buffers of others are kept.
    fn wait(&mut self, wanted: Operation) -> Result<Buffer> {
        let end = Instant::now() + PATIENCE;
        loop {
            open(self.endpoint.poll(&mut self.completions))?;
            let mut found = None;
            for completion in self.completions.drain(..) {
                completion.result.map_err(|error| error.to_string())?;
                match completion.operation == wanted {
                    true => found = Some(completion.buffer),
                    false => self.buffers.push(completion.buffer),
                }
            }
            match found {
                Some(buffer) => return Ok(buffer),
                None if Instant::now() > end => return Err("a transfer does not finish".into()),
                None => {}
            }
        }
    }

    fn buffer(&mut self) -> Result<Buffer> {
        while self.buffers.is_empty() {
            open(self.endpoint.poll(&mut self.completions))?;
            let done = self.completions.drain(..).map(|completion| completion.buffer);
            self.buffers.extend(done);
        }
        self.buffers.pop().ok_or_else(|| "no buffer".into())
    }

    /// Sends so many bytes and waits for them; the time in microseconds.
    pub fn message_us(&mut self, bytes: usize) -> Result<f64> {
        // Two buffers are in use: the first greeting's, and its reply's.
        let receive = self.buffer()?;
        posted(self.endpoint.receive(receive, 0))?;
        let mut message = self.buffer()?;
        // Not the greeting that it may have been.
        message[..GREETING_BYTES_MAX].fill(0);
        let begin = Instant::now();
        posted(send(&mut self.endpoint, self.server, message, bytes))?;
        let reply = self.wait(Operation::Receive)?;
        let us = begin.elapsed().as_secs_f64() * 1e6;
        self.buffers.push(reply);
        Ok(us)
    }

    /// Reads so many bytes of the area; the time in microseconds.
    pub fn read_us(&mut self, bytes: usize) -> Result<f64> {
        let buffer = self.buffer()?;
        let begin = Instant::now();
        posted(self.endpoint.read(self.server, &self.area, 0, bytes, buffer, 0))?;
        let buffer = self.wait(Operation::Read)?;
        let us = begin.elapsed().as_secs_f64() * 1e6;
        self.buffers.push(buffer);
        Ok(us)
    }
}
