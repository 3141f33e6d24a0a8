//! The client: GETs as raw frames through an AF_XDP socket, writes over TCP, both from one list of
//! requests, on one core.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use micanite_net::frames::{FrameBurst, FrameQueue};
use micanite_net::xdp::XdpQueue;

use super::replies::Reply;
use super::requests::{Kind, NUMBERS, Ring};
use super::tally::Tally;
use super::writers::{Writers, Written};
use crate::Result;
use crate::generator::frames::{self, FrameMaker, Way, payload, put};

/// Without any reply for so long, the GETs in flight are lost.
const SILENCE_NS: u64 = 20_000_000;
/// A GET that so many later requests have left behind is lost.
const LATE: u16 = 8192;

/// Schedule of the requests.
#[derive(Clone, Copy, Debug)]
pub(in crate::kernel) enum Pace {
    /// Sends while fewer than so many are in flight.
    Closed(usize),
    /// Sends so many in a second, whatever the server does; latencies count from when one was due.
    Open(f64),
}

/// A GET in flight.
#[derive(Clone, Copy, Default)]
struct Waiting {
    /// Nanoseconds since the load began; 0 = nothing is in flight.
    due_ns: u64,
    place: u32,
    /// Datagrams of the answer that came.
    came: u16,
}

/// Sends the requests of a ring, and checks the replies.
pub(in crate::kernel) struct Client<Q = XdpQueue> {
    receives: Q,
    sends: Q,
    way: Way,
    /// GETs leave from so many ports.
    flows: u16,
    /// True if the server sends requests back.
    pub echoed: bool,
    pub writers: Option<Writers>,
    burst: FrameBurst,
    held: FrameBurst,
    bursts: u32,
    /// Values that came so far.
    pub hits: u64,
    waiting: Box<[Waiting]>,
    gets_in_air: usize,
    /// Writes that wait for a GET, with when they were due.
    deferred: VecDeque<(usize, u64)>,
}

impl<Q: FrameQueue> Client<Q> {
    pub fn new([receives, sends]: [Q; 2], way: Way, flows: u16) -> Result<Self> {
        if sends.computes_checksums() {
            return Err("frames made beforehand have their checksums already".into());
        }
        Ok(Self {
            receives,
            sends,
            way,
            flows,
            echoed: false,
            writers: None,
            burst: FrameBurst::new(),
            held: FrameBurst::new(),
            bursts: 0,
            hits: 0,
            waiting: vec![Waiting::default(); NUMBERS].into(),
            gets_in_air: 0,
            deferred: VecDeque::new(),
        })
    }

    fn ports(&self) -> std::ops::Range<u16> {
        let first = self.way.client.1.port();
        first..first + self.flows
    }

    /// The value of the first of each burst is verified to the last byte.
    fn receive(&mut self) -> Result<()> {
        let way = (&self.way, self.ports());
        let queue = &mut self.receives;
        frames::receive(queue, &mut self.burst, &mut self.bursts, way)
    }

    /// Runs a load, and waits until nothing of it is in flight.
    pub fn run(&mut self, ring: &mut Ring, pace: Pace, duration: Duration) -> Result<Tally> {
        let end_ns = duration.as_nanos() as u64;
        let mut tally = Tally { keeps_all: matches!(pace, Pace::Open(_)), ..Tally::default() };
        self.waiting.fill(Waiting::default());
        self.gets_in_air = 0;
        let (began, mut heard_ns) = (Instant::now(), 0);
        loop {
            self.receive()?;
            // Never 0, which is that nothing waits.
            let now_ns = began.elapsed().as_nanos() as u64 + 1;
            let before = tally.answered();
            self.hear(ring, now_ns, &mut tally)?;
            let idle = tally.answered() == before;
            if !idle {
                heard_ns = now_ns;
            } else if self.gets_in_air > 0 && now_ns > heard_ns + SILENCE_NS {
                tally.lost += self.give_up() as u64;
                heard_ns = now_ns;
            }
            self.issue_deferred(ring);
            if now_ns <= end_ns {
                self.issue(ring, pace, now_ns, &mut tally);
            } else if self.in_air() == 0 || now_ns > end_ns + 50 * SILENCE_NS {
                break;
            }
            self.flush()?;
            if idle {
                // The thread that polls our end of the cable shares this core.
                std::thread::yield_now();
            }
        }
        if self.in_air() > 0 {
            return Err("writes were not answered for a second".into());
        }
        tally.elapsed_s = duration.as_secs_f64();
        Ok(tally)
    }

    fn in_air(&self) -> usize {
        let writes = self.writers.as_ref().map_or(0, Writers::outstanding);
        self.gets_in_air + self.deferred.len() + writes
    }

    /// Counts all requests in flight as lost.
    fn give_up(&mut self) -> usize {
        self.waiting.fill(Waiting::default());
        std::mem::take(&mut self.gets_in_air)
    }

    /// Takes what was answered.
    fn hear(&mut self, ring: &Ring, now_ns: u64, tally: &mut Tally) -> Result<()> {
        let ports = self.ports();
        let mut closely = true;
        for frame in self.burst.drain(..) {
            let reply = payload(frame.bytes(), ports.clone());
            let reply = reply.and_then(|payload| Reply::read(payload, ring.protocol));
            if let Some(reply) = reply {
                let waiting = &mut self.waiting[usize::from(reply.number)];
                // The reply to a request that was given up may come late.
                if waiting.due_ns > 0 {
                    let entry = ring.entry(waiting.place as usize);
                    let answer = match self.echoed {
                        true => reply.is_echo(ring, entry).then_some(true),
                        false => reply.check(ring, entry, closely),
                    };
                    let Some(hit) = answer else {
                        let key = String::from_utf8_lossy(ring.key(entry));
                        let bytes = String::from_utf8_lossy(frame.bytes());
                        return Err(format!("a wrong reply to get {key}: {bytes:?}").into());
                    };
                    closely = false;
                    waiting.came += 1;
                    if waiting.came == reply.datagrams {
                        tally.hits += u64::from(hit);
                        self.hits += u64::from(hit);
                        tally.add(Kind::Get, now_ns.saturating_sub(waiting.due_ns));
                        *waiting = Waiting::default();
                        self.gets_in_air -= 1;
                    }
                }
            }
            self.receives.free(frame);
        }
        if let Some(writers) = &mut self.writers {
            writers.poll(|write| tally.add(write.kind, now_ns.saturating_sub(write.due_ns)))?;
        }
        Ok(())
    }

    /// Prepares what is to leave now, a burst at most.
    fn issue(&mut self, ring: &mut Ring, pace: Pace, now_ns: u64, tally: &mut Tally) {
        let wanted = match pace {
            Pace::Closed(window) => window.saturating_sub(self.in_air()) as u64,
            Pace::Open(rate) => (now_ns as f64 * rate / 1e9) as u64 - tally.sent,
        };
        for _ in 0..wanted {
            if self.held.is_full() {
                break;
            }
            let due_ns = match pace {
                Pace::Closed(_) => now_ns,
                Pace::Open(rate) => ((tally.sent as f64 * 1e9 / rate) as u64).max(1),
            };
            if !self.issue_one(ring, due_ns, tally) {
                break;
            }
            tally.sent += 1;
        }
    }

    fn issue_one(&mut self, ring: &mut Ring, due_ns: u64, tally: &mut Tally) -> bool {
        let Some(mut frame) = self.sends.alloc() else {
            return false;
        };
        let place = ring.take();
        let entry = ring.entry(place);
        if entry.kind != Kind::Get {
            self.sends.free(frame);
            self.deferred.push_back((place, due_ns));
            self.issue_deferred(ring);
            return true;
        }
        let number = place as u16;
        for stale in [number, number.wrapping_sub(LATE)] {
            let stale = std::mem::take(&mut self.waiting[usize::from(stale)]);
            if stale.due_ns > 0 {
                tally.lost += 1;
                self.gets_in_air -= 1;
            }
        }
        self.waiting[usize::from(number)] = Waiting { due_ns, place: place as u32, came: 0 };
        ring.put(entry, &mut frame);
        self.gets_in_air += 1;
        self.held.push(frame);
        true
    }

    /// Lets writes go that wait for no GET any more, in their order.
    fn issue_deferred(&mut self, ring: &Ring) {
        while let Some((place, due_ns)) = self.deferred.front().copied() {
            let entry = ring.entry(place);
            if entry.after > 0 && place >= usize::from(entry.after) {
                let asked = place - usize::from(entry.after);
                let waiting = &self.waiting[asked % NUMBERS];
                if waiting.due_ns > 0 && waiting.place as usize == asked {
                    break;
                }
            }
            self.deferred.pop_front();
            if let Some(writers) = &mut self.writers {
                let kind = entry.kind;
                writers.push(entry.item, ring.bytes(entry), Written { kind, due_ns });
            }
        }
    }

    fn flush(&mut self) -> Result<()> {
        if !self.held.is_empty() {
            self.sends.send(&mut self.held)?;
        }
        match &mut self.writers {
            Some(writers) => writers.flush(),
            None => Ok(()),
        }
    }

    /// Sends a payload until the answer to it satisfies.
    pub fn ask(
        &mut self,
        payload_sent: &[u8],
        patience: Duration,
        satisfies: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<()> {
        let (began, ports) = (Instant::now(), self.ports());
        let bytes = FrameMaker::new(&self.way).frame(payload_sent);
        while began.elapsed() < patience {
            if let Some(mut frame) = self.sends.alloc() {
                put(&mut frame, &bytes);
                self.held.push(frame);
            }
            self.flush()?;
            let asked = Instant::now();
            let mut satisfied = false;
            while asked.elapsed() < Duration::from_nanos(SILENCE_NS) && !satisfied {
                self.receive()?;
                for frame in self.burst.drain(..) {
                    let reply = payload(frame.bytes(), ports.clone());
                    satisfied |= reply.is_some_and(&mut *satisfies);
                    self.receives.free(frame);
                }
                std::thread::yield_now();
            }
            if satisfied {
                return Ok(());
            }
        }
        Err(format!("{} does not answer", self.way.server.1).into())
    }
}

#[cfg(test)]
mod tests;
