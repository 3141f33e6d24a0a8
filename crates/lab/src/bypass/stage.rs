//! A server over a port that does only so much of what the server does: the bare echo, and the loops
//! whose differences say where the time of a request goes.

use std::io::{BufRead, Write};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use clap::{Args, ValueEnum};
use micanite_net::bypass::{Bypass, BypassOptions, BypassQueue, PortName};
use micanite_net::frames::{FrameBurst, FrameDatagram, FramePort, FrameQueue, Local, Replies, ReplyTo};
use micanite_net::{Idle, IdleRounds, Interest, Poller, Step};
use micanite_wire::native::{Header, PAYLOAD_BYTES, Requests};

use super::execution::Execution;
use crate::Result;

/// Last step of a request before its frame is sent back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Stage {
    /// Received and sent, only the addresses exchanged.
    Io,
    /// The bare echo: Ethernet, IP and UDP headers are checked, the payload is sent back.
    Echo,
    /// The requests are checked and read, too.
    Parse,
    /// They are executed, too, in batches, and what comes of them is dropped.
    Engine,
    /// They are answered, as the server does.
    All,
}

impl Stage {
    /// Tells whether requests reach the engine.
    pub const fn executes(self) -> bool {
        matches!(self, Self::Engine | Self::All)
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Io => "io",
            Self::Echo => "echo",
            Self::Parse => "parse",
            Self::Engine => "engine",
            Self::All => "all",
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
    /// Last step of a request
    #[arg(long, value_enum, default_value_t = Stage::Echo)]
    stage: Stage,
    /// Time the rounds that find something
    #[arg(long)]
    timed: bool,
    /// Items that are there when requests are executed
    #[arg(long, default_value_t = 0)]
    items: u64,
}

/// Counts so far: the answer to every line of the standard input.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub datagrams: AtomicU64,
    pub bursts: AtomicU64,
    pub busy_ns: AtomicU64,
}

impl Done {
    fn add(&self, datagrams: usize, busy_ns: u64) {
        // One thread writes.
        let add = |to: &AtomicU64, n: u64| {
            to.store(to.load(Ordering::Relaxed) + n, Ordering::Relaxed);
        };
        add(&self.datagrams, datagrams as u64);
        add(&self.bursts, 1);
        add(&self.busy_ns, busy_ns);
    }

    fn answer(&self) -> Result<()> {
        for line in std::io::stdin().lock().lines() {
            line?;
            let of = |n: &AtomicU64| n.load(Ordering::Relaxed);
            let mut out = std::io::stdout().lock();
            writeln!(out, "{} {} {}", of(&self.datagrams), of(&self.bursts), of(&self.busy_ns))?;
            out.flush()?;
        }
        Ok(())
    }
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
    let done = Arc::new(Done::default());
    let answering = Arc::clone(&done);
    std::thread::spawn(move || answering.answer().is_ok());
    let local = Local { addresses: vec![address.0], ports: options.native..=options.native };
    // The port lives as long as its queue is used.
    let (_bypass, queue) = open(&options.bypass, address, options.native)?;
    match queue {
        BypassQueue::Xdp(queue) => serve(queue, local, options, &done),
        BypassQueue::Dpdk(queue) => serve(queue, local, options, &done),
    }
}

fn serve<Q: FrameQueue + Send>(queue: Q, local: Local, options: &Options, done: &Done) -> Result<()> {
    if options.stage == Stage::Io {
        let mut burst = FrameBurst::new();
        return turns(queue, options.timed, done, |queue| {
            queue.recv(&mut burst)?;
            let frames = burst.len();
            if frames > 0 {
                burst.iter_mut().for_each(turn_back);
                queue.send(&mut burst)?;
            }
            Ok(frames)
        });
    }
    let parses = options.stage == Stage::Parse;
    let mut port = FramePort::new(queue, local, PAYLOAD_BYTES);
    let mut execution = match options.stage.executes() {
        true => Some(Execution::new(options.items)?),
        false => None,
    };
    let answers = options.stage == Stage::All;
    let mut turn = |port: &mut FramePort<Q>| {
        let count = port.recv()?;
        if count == 0 {
            return Ok(0);
        }
        match &mut execution {
            Some(execution) => execution.round(port, answers)?,
            None => echo(port, parses),
        }
        port.send()?;
        Ok(count)
    };
    let mut rounds = Rounds::new(port.queue(), options.timed)?;
    loop {
        rounds.round(done, || turn(&mut port))?;
    }
}

/// Sends the payloads of a burst back.
fn echo<Q: FrameQueue>(port: &mut FramePort<Q>, parses: bool) {
    let (datagrams, mut replies) = port.split();
    for datagram in datagrams {
        if parses {
            read(datagram.bytes);
        }
        send_back(&mut replies, &datagram);
    }
}

/// Makes a datagram the reply to itself.
#[inline]
pub(super) fn send_back<Q: FrameQueue>(replies: &mut Replies<'_, Q>, datagram: &FrameDatagram<'_>) {
    replies.open(ReplyTo::Datagram(datagram.number));
    let slot = &mut replies.slot()[..datagram.bytes.len()];
    slot.copy_from_slice(datagram.bytes);
    replies.commit(datagram.bytes.len());
}

fn turns<Q: FrameQueue>(
    mut queue: Q,
    timed: bool,
    done: &Done,
    mut turn: impl FnMut(&mut Q) -> Result<usize>,
) -> Result<()> {
    let mut rounds = Rounds::new(&queue, timed)?;
    loop {
        rounds.round(done, || turn(&mut queue))?;
    }
}

/// Waits as the server's workers do.
struct Rounds {
    idle: Idle,
    poller: Option<Poller>,
    timed: bool,
}

impl Rounds {
    fn new(queue: &impl FrameQueue, timed: bool) -> Result<Self> {
        let poller = match queue.descriptor() {
            Some(descriptor) => {
                let poller = Poller::new()?;
                poller.add(descriptor, 0, Interest::Read)?;
                Some(poller)
            }
            None => None,
        };
        Ok(Self { idle: Idle::new(IdleRounds::default()), poller, timed })
    }

    #[inline]
    fn round(&mut self, done: &Done, turn: impl FnOnce() -> Result<usize>) -> Result<()> {
        let began = self.timed.then(Instant::now);
        let count = turn()?;
        if count > 0 {
            self.idle.busy();
            let busy_ns = began.map_or(0, |began| began.elapsed().as_nanos() as u64);
            done.add(count, busy_ns);
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

/// Exchanges the addresses of a frame with IPv4 and UDP; sums stay as they are.
#[inline]
fn turn_back(frame: &mut micanite_net::frames::Frame) {
    let (start, bytes) = (frame.start(), frame.len());
    let Some(header) = frame.buffer_mut()[start..start + bytes].first_chunk_mut::<42>() else {
        return;
    };
    let (first, second) = header.split_at_mut(6);
    first.swap_with_slice(&mut second[..6]);
    let (first, second) = header.split_at_mut(30);
    first[26..30].swap_with_slice(&mut second[..4]);
    let (first, second) = header.split_at_mut(36);
    first[34..36].swap_with_slice(&mut second[..2]);
    frame.header_bytes = (14, 20);
}

/// Reads every request of a datagram.
#[inline]
fn read(datagram: &[u8]) {
    let Ok(header) = Header::read(datagram) else {
        return;
    };
    let Ok(requests) = Requests::check(datagram, header.count) else {
        return;
    };
    for request in requests {
        std::hint::black_box(&request);
    }
}
