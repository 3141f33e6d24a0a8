//! A client that does no more than it must: each reply's frame becomes the next request's.

use std::time::{Duration, Instant};

use micanite_net::frames::{FrameBurst, FrameQueue, parse};

use super::frames::Prepared;
use crate::Result;
use crate::frames::{FrameMaker, Way};
use crate::network::blaster::Tally;
use crate::packets::Reader;

/// Without a reply for so long, what is in the air is lost.
const SILENCE: Duration = Duration::from_millis(20);
/// Frames of one burst.
const BURST: usize = 32;
const NUMBERS: usize = 1 << 16;
/// Turns of the loop between looks at the clock, while there is something to do.
const TURNS: u32 = 16;
/// One frame in so many bursts is verified to the last checksum.
const VERIFIED: u32 = 64;
/// Ethernet, IPv4 without options, UDP.
const HEADER_BYTES: usize = 42;

/// What can be done with either kind of port.
pub(super) trait Load {
    /// With at most `window` datagrams in the air, as fast as the server answers.
    fn closed(
        &mut self,
        requests: &mut Prepared,
        echoed: bool,
        window: usize,
        duration: Duration,
    ) -> Result<Tally>;

    /// At a rate, whatever the server does; latencies count from when a datagram was due, and
    /// `latency_ns` gets those of what was answered.
    fn open(
        &mut self,
        requests: &mut Prepared,
        echoed: bool,
        datagrams_per_second: f64,
        duration: Duration,
        latency_ns: &mut Vec<u32>,
    ) -> Result<Tally>;

    /// Sends each of the requests until it is answered. Returns how many succeeded.
    fn deliver(&mut self, requests: &mut Prepared) -> Result<u64>;

    /// Sends a payload until the answer to it satisfies.
    fn ask(
        &mut self,
        payload: &[u8],
        patience: Duration,
        satisfies: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<()>;
}

/// See the module.
pub(super) struct Generator<Q> {
    queue: Q,
    way: Way,
    /// What arrived last.
    burst: FrameBurst,
    /// What will be sent next.
    held: FrameBurst,
    bursts: u32,
    /// When a datagram of each number was due, in nanoseconds since the start; 0 = not in the air.
    due_ns: Box<[u64]>,
}

/// What arrived with a burst.
#[derive(Clone, Copy, Default)]
struct Heard {
    datagrams: usize,
    succeeded: u64,
}

impl<Q: FrameQueue> Generator<Q> {
    pub fn new(queue: Q, way: Way) -> Result<Self> {
        if queue.computes_checksums() {
            return Err("frames made beforehand have their checksums already".into());
        }
        Ok(Self {
            queue,
            way,
            burst: FrameBurst::new(),
            held: FrameBurst::new(),
            bursts: 0,
            due_ns: vec![0; NUMBERS].into(),
        })
    }

    fn receive(&mut self) -> Result<()> {
        self.queue.recv(&mut self.burst)?;
        if let Some(frame) = self.burst.first() {
            self.bursts += 1;
            let ours = payload(frame.bytes(), self.way.client.1.port()).is_some();
            if ours && self.bursts.is_multiple_of(VERIFIED) {
                let found = parse(frame.bytes(), self.queue.receive_checksums());
                let found = found.map_err(|why| format!("a reply is wrong: {why:?}"))?;
                if found.source != self.way.server.1 || found.destination != self.way.client.1 {
                    return Err(format!("a reply of somebody else: {found:?}").into());
                }
            }
        }
        Ok(())
    }

    /// Reads the replies of the burst; the frames of as many of them as are `wanted` get the next
    /// requests, which leave when a burst of them is complete.
    #[inline]
    fn turn_around(
        &mut self,
        requests: &mut Prepared,
        echoed: bool,
        mut wanted: usize,
    ) -> Result<Heard> {
        let mut heard = Heard::default();
        let port = self.way.client.1.port();
        for mut frame in self.burst.drain(..) {
            let answer =
                payload(frame.bytes(), port).map(|reply| requests.reader.answer(reply, echoed));
            if let Some(answer) = answer {
                heard.succeeded += answer.succeeded;
                heard.datagrams += usize::from(answer.is_last);
            }
            if answer.is_some_and(|answer| answer.is_last) && wanted > 0 {
                wanted -= 1;
                requests.put(&mut frame);
                self.held.push(frame);
                if self.held.is_full() {
                    self.queue.send(&mut self.held)?;
                }
            } else {
                self.queue.free(frame);
            }
        }
        Ok(heard)
    }

    /// Frames of our own for so many more requests; returns how many there are.
    fn add(&mut self, requests: &mut Prepared, count: usize) -> Result<usize> {
        for added in 0..count {
            let Some(mut frame) = self.queue.alloc() else {
                return Ok(added);
            };
            requests.put(&mut frame);
            self.held.push(frame);
            if self.held.is_full() {
                self.queue.send(&mut self.held)?;
            }
        }
        Ok(count)
    }

    fn flush(&mut self) -> Result<()> {
        if !self.held.is_empty() {
            self.queue.send(&mut self.held)?;
        }
        Ok(())
    }

    /// Waits for what is in the air still; returns how much of it came.
    fn drain(&mut self, requests: &mut Prepared, echoed: bool, mut in_air: usize) -> Result<Heard> {
        let (mut all, mut last) = (Heard::default(), Instant::now());
        while in_air > 0 && last.elapsed() < SILENCE {
            self.receive()?;
            let heard = self.turn_around(requests, echoed, 0)?;
            if heard.datagrams > 0 {
                last = Instant::now();
            }
            all.datagrams += heard.datagrams;
            all.succeeded += heard.succeeded;
            in_air = in_air.saturating_sub(heard.datagrams);
        }
        Ok(all)
    }

    /// Drops what arrives until nothing does for a while.
    fn wait_for_silence(&mut self) -> Result<()> {
        let mut heard_at = Instant::now();
        while heard_at.elapsed() < SILENCE {
            self.receive()?;
            if !self.burst.is_empty() {
                heard_at = Instant::now();
            }
            for frame in self.burst.drain(..) {
                self.queue.free(frame);
            }
        }
        Ok(())
    }

    /// Replies of the burst, for latencies: `(number, succeeded)` of each.
    fn numbers(&mut self, reader: Reader, echoed: bool, mut each: impl FnMut(u16, u64)) {
        let port = self.way.client.1.port();
        for frame in self.burst.drain(..) {
            if let Some(reply) = payload(frame.bytes(), port) {
                let answer = reader.answer(reply, echoed);
                if answer.is_last {
                    each(answer.number, answer.succeeded);
                }
            }
            self.queue.free(frame);
        }
    }
}

impl<Q: FrameQueue> Load for Generator<Q> {
    fn closed(
        &mut self,
        requests: &mut Prepared,
        echoed: bool,
        window: usize,
        duration: Duration,
    ) -> Result<Tally> {
        let began = Instant::now();
        let (mut tally, mut heard_at, mut turns) = (Tally::default(), began, 0);
        // What has not been answered yet.
        let mut in_air = 0;
        let mut heard_some = false;
        loop {
            self.receive()?;
            let nothing = self.burst.is_empty();
            heard_some |= !nothing;
            let heard = self.turn_around(requests, echoed, usize::MAX)?;
            tally.succeeded += heard.succeeded;
            tally.answered_datagrams += heard.datagrams as u64;
            tally.sent_datagrams += heard.datagrams as u64;
            turns += 1;
            if !nothing && turns < TURNS {
                continue;
            }
            turns = 0;
            let now = Instant::now();
            if nothing {
                self.flush()?;
            }
            if std::mem::take(&mut heard_some) {
                heard_at = now;
            } else if in_air > 0 && now - heard_at > SILENCE {
                // All of it is lost; what is counted as lost is what was never answered.
                (in_air, heard_at) = (0, now);
            }
            if now - began >= duration {
                break;
            }
            if in_air < window {
                let added = self.add(requests, (window - in_air).min(BURST))?;
                in_air += added;
                tally.sent_datagrams += added as u64;
            }
        }
        self.flush()?;
        tally.elapsed_s = began.elapsed().as_secs_f64();
        let late = self.drain(requests, echoed, in_air)?;
        tally.answered_datagrams += late.datagrams as u64;
        tally.lost_datagrams = tally
            .sent_datagrams
            .saturating_sub(tally.answered_datagrams);
        Ok(tally)
    }

    fn open(
        &mut self,
        requests: &mut Prepared,
        echoed: bool,
        datagrams_per_second: f64,
        duration: Duration,
        latency_ns: &mut Vec<u32>,
    ) -> Result<Tally> {
        let interval_ns = 1e9 / datagrams_per_second;
        let (end_ns, silence_ns) = (duration.as_nanos() as u64, SILENCE.as_nanos() as u64);
        let (mut tally, mut scheduled) = (Tally::default(), 0u64);
        let mut due_ns = std::mem::take(&mut self.due_ns);
        due_ns.fill(0);
        latency_ns.clear();
        requests.seek(0);
        let began = Instant::now();
        let elapsed_ns = || began.elapsed().as_nanos() as u64;
        loop {
            let now_ns = elapsed_ns();
            let due = ((now_ns.min(end_ns) as f64) / interval_ns) as u64;
            for _ in 0..due.saturating_sub(scheduled).min(BURST as u64) {
                let Some(mut frame) = self.queue.alloc() else {
                    break;
                };
                let number = requests.put(&mut frame);
                let at_ns = (scheduled as f64 * interval_ns) as u64;
                due_ns[usize::from(number)] = at_ns.max(1);
                scheduled += 1;
                self.held.push(frame);
            }
            self.flush()?;
            self.receive()?;
            if !self.burst.is_empty() {
                let now_ns = elapsed_ns();
                self.numbers(requests.reader, echoed, |number, succeeded| {
                    let due_ns = std::mem::take(&mut due_ns[usize::from(number)]);
                    if due_ns > 0 {
                        tally.succeeded += succeeded;
                        let took_ns = now_ns.saturating_sub(due_ns);
                        latency_ns.push(took_ns.min(u64::from(u32::MAX)) as u32);
                    }
                });
            }
            if now_ns > end_ns + silence_ns {
                break;
            }
        }
        self.due_ns = due_ns;
        tally.sent_datagrams = scheduled;
        tally.answered_datagrams = latency_ns.len() as u64;
        tally.lost_datagrams = scheduled - tally.answered_datagrams;
        tally.elapsed_s = duration.as_secs_f64();
        Ok(tally)
    }

    fn deliver(&mut self, requests: &mut Prepared) -> Result<u64> {
        const WINDOW: usize = 128;
        let (mut missing, mut succeeded) = (vec![true; requests.len()], 0);
        if missing.len() > NUMBERS {
            return Err("more datagrams than numbers".into());
        }
        for round in 0..100 {
            let todo: Vec<_> = (0..missing.len()).filter(|at| missing[*at]).collect();
            if todo.is_empty() {
                if round > 1 {
                    // What was sent twice may be answered twice: not to whatever is sent next.
                    self.wait_for_silence()?;
                }
                return Ok(succeeded);
            }
            let (mut next, mut in_air, mut heard_at) = (0, 0, Instant::now());
            while (next < todo.len() || in_air > 0) && heard_at.elapsed() < SILENCE {
                while next < todo.len() && in_air < WINDOW && !self.held.is_full() {
                    requests.seek(todo[next]);
                    if self.add(requests, 1)? == 0 {
                        break;
                    }
                    (next, in_air) = (next + 1, in_air + 1);
                }
                self.flush()?;
                self.receive()?;
                self.numbers(requests.reader, false, |number, stored| {
                    if missing
                        .get_mut(usize::from(number))
                        .is_some_and(std::mem::take)
                    {
                        succeeded += stored;
                    }
                    in_air = in_air.saturating_sub(1);
                    heard_at = Instant::now();
                });
            }
        }
        Err("the server does not answer all that is stored".into())
    }

    fn ask(
        &mut self,
        payload_sent: &[u8],
        patience: Duration,
        satisfies: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<()> {
        let (began, port) = (Instant::now(), self.way.client.1.port());
        let bytes = FrameMaker::new(&self.way).frame(payload_sent);
        while began.elapsed() < patience {
            if let Some(mut frame) = self.queue.alloc() {
                let start = frame.start();
                frame.place(start, bytes.len());
                frame.buffer_mut()[start..start + bytes.len()].copy_from_slice(&bytes);
                self.held.push(frame);
            }
            self.flush()?;
            let asked = Instant::now();
            let mut satisfied = false;
            while asked.elapsed() < SILENCE {
                self.receive()?;
                for frame in self.burst.drain(..) {
                    satisfied |= payload(frame.bytes(), port).is_some_and(&mut *satisfies);
                    self.queue.free(frame);
                }
            }
            if satisfied {
                return Ok(());
            }
        }
        Err(format!("{} does not answer", self.way.server.1).into())
    }
}

/// The payload of a datagram to a port, by what is cheap to look at.
#[inline]
fn payload(frame: &[u8], port: u16) -> Option<&[u8]> {
    let header = frame.first_chunk::<HEADER_BYTES>()?;
    let is_ours = header[12..14] == [8, 0] && header[23] == 17;
    let udp_bytes = usize::from(u16::from_be_bytes([header[38], header[39]]));
    (is_ours && header[36..38] == port.to_be_bytes())
        .then(|| frame.get(HEADER_BYTES..HEADER_BYTES - 8 + udp_bytes))
        .flatten()
}

#[cfg(test)]
mod tests;
