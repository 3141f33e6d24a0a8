//! A server over a port: the bare echo, and the server's own loop, whose samples say where the time of a
//! request goes.

use std::io::{BufRead, Write};
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use micanite_net::bypass::{Bypass, BypassOptions, BypassQueue, PortName};
use micanite_net::frames::testing::WatchedQueue;
use micanite_net::frames::{FramePort, FrameQueue, Local, ReplyTo};
use micanite_net::{Idle, IdleRounds, Interest, Poller, Step};
use micanite_server::native::{BypassPort, rings};
use micanite_server::session::Context;
use micanite_wire::native::PAYLOAD_BYTES;

use super::samples::{self, Noted, Samples};
use crate::Result;
use crate::harness::in_process::{self, NOW_S};

/// Work on a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Stage {
    /// The bare echo: Ethernet, IP and UDP headers are checked, the payload is sent back.
    Echo,
    /// The server's own loop, sampled.
    Server,
}

impl Stage {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Server => "server",
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The port: xdp:INTERFACE or dpdk:DEVICE
    #[arg(long)]
    bypass: PortName,
    /// Address of the port, with the length of the prefix
    #[arg(long)]
    bypass_ip: String,
    /// UDP port
    #[arg(long)]
    native: u16,
    /// Work on a datagram
    #[arg(long, value_enum, default_value_t = Stage::Echo)]
    stage: Stage,
    /// Items that the server's loop finds
    #[arg(long, default_value_t = 0)]
    items: u64,
}

/// Answers every line of the standard input with the samples so far.
fn answer(samples: &Samples) -> Result<()> {
    for line in std::io::stdin().lock().lines() {
        line?;
        let counts = samples.counts().map(|count| count.to_string());
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", counts.join(" "))?;
        out.flush()?;
    }
    Ok(())
}

/// An address and the length of its prefix.
pub(super) fn prefix(text: &str) -> Result<(IpAddr, u8)> {
    let (address, bits) = text.split_once('/').ok_or("an address has a prefix")?;
    Ok((address.parse()?, bits.parse()?))
}

/// Opens the only queue of a port.
pub(super) fn open(name: &PortName, address: (IpAddr, u8), port: u16) -> Result<(Bypass, BypassQueue)> {
    let options = BypassOptions {
        name: name.clone(),
        addresses: vec![address],
        gateway: None,
        ports: port..=port,
        queues: 1,
        payload_bytes_max: PAYLOAD_BYTES,
        busy_poll_us: 0,
        dpdk_arguments: Vec::new(),
    };
    let (bypass, mut queues) = Bypass::open(&options)?;
    let queue = queues.pop().ok_or("a port without a queue")?;
    Ok((bypass, queue))
}

/// Serves until it is ended.
pub(crate) fn run(options: &Options) -> Result<()> {
    let address = prefix(&options.bypass_ip)?;
    let local = Local { addresses: vec![address.0], ports: options.native..=options.native };
    // The port lives as long as its queue is used.
    let (_bypass, queue) = open(&options.bypass, address, options.native)?;
    match queue {
        BypassQueue::Xdp(queue) => serve(queue, local, options),
        BypassQueue::Dpdk(queue) => serve(queue, local, options),
    }
}

fn serve<Q: FrameQueue + Send>(queue: Q, local: Local, options: &Options) -> Result<()> {
    match options.stage {
        Stage::Echo => echo(FramePort::new(queue, local, PAYLOAD_BYTES)),
        Stage::Server => sampled(queue, local, options.items),
    }
}

/// Sends payloads back.
fn echo<Q: FrameQueue>(mut port: FramePort<Q>) -> Result<()> {
    let mut rounds = Rounds::new(port.queue().descriptor())?;
    loop {
        let count = port.recv()?;
        let (datagrams, mut replies) = port.split();
        for datagram in datagrams {
            replies.open(ReplyTo::Datagram(datagram.number));
            let slot = &mut replies.slot()[..datagram.bytes.len()];
            slot.copy_from_slice(datagram.bytes);
            replies.commit(datagram.bytes.len());
        }
        port.send()?;
        rounds.end(count)?;
    }
}

/// Serves by the server's own loop with all the items, and samples what it is at.
fn sampled<Q: FrameQueue + Send>(queue: Q, local: Local, items: u64) -> Result<()> {
    let server = in_process::server(1, "2g")?;
    let mut worker = server.shared.cache.worker(0).ok_or("a worker is in use")?;
    in_process::fill(&server.shared.cache, &mut worker, items);
    let native = server.shared.native.as_ref().ok_or("no native protocol")?;
    let noted = Noted(Arc::new(Samples::new()));
    let calls = noted.clone();
    let queue = WatchedQueue { queue, watch: move |call| calls.call(call) };
    let port = FramePort::new(queue, local, PAYLOAD_BYTES);
    let rings = rings(1, PAYLOAD_BYTES).pop().ok_or("no end of the rings")?;
    let samples = Arc::clone(&noted.0);
    let mut port = BypassPort::watched(0, port, rings, native, noted);
    samples::take(Arc::clone(&samples));
    std::thread::spawn(move || answer(&samples).is_ok());
    let mut rounds = Rounds::new(port.descriptor())?;
    loop {
        let count = port.round(&mut Context::new(&mut worker, &server, NOW_S), 0)?;
        rounds.end(count)?;
    }
}

/// Waits as the server's workers do.
struct Rounds {
    idle: Idle,
    poller: Option<Poller>,
}

impl Rounds {
    fn new(descriptor: Option<BorrowedFd<'_>>) -> Result<Self> {
        let poller = match descriptor {
            Some(descriptor) => {
                let poller = Poller::new()?;
                poller.add(descriptor, 0, Interest::Read)?;
                Some(poller)
            }
            None => None,
        };
        Ok(Self { idle: Idle::new(IdleRounds::default()), poller })
    }

    /// Ends a round with so many datagrams.
    #[inline]
    fn end(&mut self, count: usize) -> Result<()> {
        if count > 0 {
            self.idle.busy();
            return Ok(());
        }
        match (self.idle.step(), &mut self.poller) {
            (Step::Spin, _) => std::hint::spin_loop(),
            (Step::Block, Some(poller)) => drop(poller.wait(100)?),
            (Step::Yield | Step::Block, _) => std::thread::yield_now(),
        }
        Ok(())
    }
}
