//! A client that does no more than it must: sends datagrams that were made before, in bursts, and
//! looks at what comes back.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use micanite_net::datagram::{Receiver, Sender, UdpOptions, UdpSocket};

use crate::Result;
use crate::packets::Packets;

/// Without a reply for so long, what is in the air is lost.
const SILENCE: Duration = Duration::from_millis(200);
/// Datagrams of one burst.
const BURST: usize = 32;
const NUMBERS: usize = 1 << 16;
/// The longest datagram that is expected.
const PAYLOAD_BYTES: usize = 1472;

pub(crate) struct Blaster {
    socket: UdpSocket,
    receiver: Receiver,
    sender: Sender,
    number: u16,
    /// When a datagram of each number was due, in nanoseconds since the start; 0 = not in the air.
    due_ns: Box<[u64]>,
    pub latency_ns: Vec<u32>,
}

/// What a run did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// Requests that succeeded.
    pub succeeded: u64,
    pub answered_datagrams: u64,
    pub sent_datagrams: u64,
    pub lost_datagrams: u64,
    pub elapsed_s: f64,
}

impl Tally {
    pub fn per_second(&self) -> f64 {
        self.succeeded as f64 / self.elapsed_s
    }

    /// Of the datagrams sent.
    pub fn lost_ratio(&self) -> f64 {
        self.lost_datagrams as f64 / self.sent_datagrams.max(1) as f64
    }

    /// Fails when too much of it was no success: a miss costs something else than a hit.
    pub fn check(&self, what: &str, batch: usize) -> Result<()> {
        let answered = self.answered_datagrams * batch as u64;
        let few = self.succeeded * 50 < answered * 49 || self.succeeded == 0;
        if few || self.lost_ratio() > 0.05 {
            return Err(format!("{what}: {self:?}").into());
        }
        Ok(())
    }
}

impl Blaster {
    pub fn new(offload: bool) -> Result<Self> {
        let options = UdpOptions {
            gro: offload,
            gso: offload,
            receive_buffer_bytes: 8 << 20,
            send_buffer_bytes: 8 << 20,
            ..UdpOptions::default()
        };
        let socket = UdpSocket::bind("127.0.0.1:0".parse()?, &options)?;
        Ok(Self {
            receiver: Receiver::new(socket.granted().gro, PAYLOAD_BYTES),
            sender: Sender::new(socket.granted().gso, PAYLOAD_BYTES),
            socket,
            number: 0,
            due_ns: vec![0; NUMBERS].into(),
            latency_ns: Vec::new(),
        })
    }

    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// With at most `window` datagrams in the air, as fast as the server answers.
    pub fn closed(
        &mut self,
        packets: &mut Packets,
        (server, echoed): (SocketAddr, bool),
        window: usize,
        duration: Duration,
    ) -> Result<Tally> {
        let began = Instant::now();
        let (mut tally, mut in_air, mut heard) = (Tally::default(), 0usize, began);
        loop {
            let received = self.receiver.recv(&self.socket)?;
            let now = Instant::now();
            if received > 0 {
                heard = now;
                for datagram in self.receiver.datagrams() {
                    let answer = packets.answer(datagram.bytes, echoed);
                    tally.succeeded += answer.succeeded;
                    tally.answered_datagrams += u64::from(answer.is_last);
                    in_air = in_air.saturating_sub(usize::from(answer.is_last));
                }
            } else if in_air > 0 && now - heard > SILENCE {
                tally.lost_datagrams += in_air as u64;
                (in_air, heard) = (0, now);
            }
            if now - began >= duration {
                break;
            }
            let room = window - in_air;
            if room >= BURST.min(window) || (received == 0 && room > 0) {
                for _ in 0..room.min(4 * BURST) {
                    self.number = self.number.wrapping_add(1);
                    self.push(packets.next(self.number), server)?;
                    in_air += 1;
                    tally.sent_datagrams += 1;
                }
                self.sender.send(&self.socket)?;
            }
        }
        tally.elapsed_s = began.elapsed().as_secs_f64();
        self.drain(in_air)?;
        Ok(tally)
    }

    /// At a rate, whatever the server does; latencies count from when a datagram was due.
    pub fn open(
        &mut self,
        packets: &mut Packets,
        (server, echoed): (SocketAddr, bool),
        datagrams_per_second: f64,
        duration: Duration,
    ) -> Result<Tally> {
        let began = Instant::now();
        let interval_ns = 1e9 / datagrams_per_second;
        let end_ns = duration.as_nanos() as u64;
        let mut tally = Tally::default();
        self.due_ns.fill(0);
        self.latency_ns.clear();
        let mut scheduled = 0u64;
        let mut answered = 0u64;
        loop {
            let now_ns = began.elapsed().as_nanos() as u64;
            let due = ((now_ns.min(end_ns) as f64) / interval_ns) as u64;
            let burst = (due - scheduled.min(due)).min(BURST as u64);
            for _ in 0..burst {
                self.number = self.number.wrapping_add(1);
                self.push(packets.next(self.number), server)?;
                let at_ns = (scheduled as f64 * interval_ns) as u64;
                self.due_ns[usize::from(self.number)] = at_ns.max(1);
                scheduled += 1;
            }
            if burst > 0 {
                self.sender.send(&self.socket)?;
                tally.sent_datagrams += burst;
            }
            if self.receiver.recv(&self.socket)? > 0 {
                let now_ns = began.elapsed().as_nanos() as u64;
                for datagram in self.receiver.datagrams() {
                    let answer = packets.answer(datagram.bytes, echoed);
                    tally.succeeded += answer.succeeded;
                    tally.answered_datagrams += u64::from(answer.is_last);
                    if !answer.is_last {
                        continue;
                    }
                    let due_ns = std::mem::take(&mut self.due_ns[usize::from(answer.number)]);
                    if due_ns > 0 {
                        answered += 1;
                        let latency_ns = now_ns.saturating_sub(due_ns);
                        self.latency_ns
                            .push(latency_ns.min(u64::from(u32::MAX)) as u32);
                    }
                }
            }
            if now_ns > end_ns + SILENCE.as_nanos() as u64 {
                break;
            }
        }
        tally.lost_datagrams = tally.sent_datagrams - answered;
        tally.elapsed_s = duration.as_secs_f64();
        Ok(tally)
    }

    fn push(&mut self, packet: &[u8], server: SocketAddr) -> Result<()> {
        if self.sender.is_full() {
            self.sender.send(&self.socket)?;
        }
        let room = self.sender.begin(server).ok_or("the socket is stuck")?;
        room[..packet.len()].copy_from_slice(packet);
        self.sender.commit(packet.len());
        Ok(())
    }

    /// Waits for what is in the air still.
    fn drain(&mut self, in_air: usize) -> Result<()> {
        let mut left = in_air;
        let mut heard = Instant::now();
        while left > 0 && heard.elapsed() < SILENCE {
            let received = self.receiver.recv(&self.socket)?;
            if received > 0 {
                heard = Instant::now();
            }
            left = left.saturating_sub(received);
        }
        Ok(())
    }
}
