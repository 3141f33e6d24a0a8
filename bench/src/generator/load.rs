//! Closed and open loops over any port.

use std::time::{Duration, Instant};

use micanite_workload::Random;

use super::directory;
use super::packets::{Packets, Terms};
use super::tally::Tally;
use crate::Result;

/// Datagrams of one burst.
pub(super) const BURST: usize = 32;
const NUMBERS: usize = 1 << 16;
/// Turns of the loop between looks at the clock, while there is something to do.
const TURNS: u32 = 16;
/// A question is asked again after so long.
const ANSWER_TIME: Duration = Duration::from_millis(20);

/// Sends requests and takes replies, in bursts.
pub(crate) trait Port {
    /// Without a reply for so long, what is in flight is lost.
    const SILENCE: Duration;

    /// Takes a burst of what has arrived, and returns how much that was. `each` sees every payload for
    /// us, and says whether the next of the requests, if there are some, is to leave in its place.
    fn receive(&mut self, requests: Option<&mut Packets>, each: impl FnMut(&[u8]) -> bool) -> Result<usize>;

    /// Holds the next request for the next burst, and returns its number; none if there is no room.
    fn push(&mut self, requests: &mut Packets) -> Result<Option<u16>>;

    /// Holds a payload, if there is room.
    fn push_payload(&mut self, payload: &[u8]) -> Result<()>;

    /// Sends what is held: `all` of it, or only if it is a burst.
    fn flush(&mut self, all: bool) -> Result<()>;
}

/// Loads that are put on a server, whatever the port. `echoed`: the server sends back what it gets.
pub(crate) trait Load {
    /// Sends as fast as the server answers, with at most `window` datagrams in flight.
    fn closed(
        &mut self,
        requests: &mut Packets,
        echoed: bool,
        window: usize,
        duration: Duration,
    ) -> Result<Tally>;

    /// Sends at a rate, whatever the server does; latencies count from when a datagram was due, and
    /// `latency_ns` gets those of answered datagrams.
    fn open(
        &mut self,
        requests: &mut Packets,
        echoed: bool,
        schedule: &Schedule,
        latency_ns: &mut Vec<u32>,
    ) -> Result<Tally>;

    /// Sends each of the requests until it is answered. Returns how many succeeded.
    fn deliver(&mut self, requests: &mut Packets) -> Result<u64>;

    /// Sends a payload until the answer to it satisfies.
    fn ask(
        &mut self,
        payload: &[u8],
        patience: Duration,
        satisfies: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<()>;

    /// Learns the values that every request carries for a server of the native protocol.
    fn terms(&mut self, patience: Duration) -> Result<Terms> {
        directory::learn(|request, satisfies| self.ask(request, patience, satisfies))
    }
}

/// An open loop: when datagrams are due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    /// Mean rate; datagrams are due at random (Poisson).
    pub datagrams_per_second: f64,
    /// No more are in flight, since the rings of a port hold no more. What is due beyond that waits here, and
    /// its time goes on: otherwise a client that was not on its CPU for a moment would flood the server.
    pub window: usize,
    pub duration: Duration,
}

impl Schedule {
    /// Datagrams that were due and could not be sent have so long after the end.
    const DELAY_MAX: Duration = Duration::from_millis(100);
    const SEED: u64 = 62;
}

/// A client on a port.
pub(crate) struct Generator<P> {
    port: P,
    /// Due time of each number's datagram, in nanoseconds since the start; 0 = not in flight.
    due_ns: Box<[u64]>,
}

impl<P: Port> Generator<P> {
    pub fn new(port: P) -> Self {
        Self { port, due_ns: vec![0; NUMBERS].into() }
    }

    /// Waits for what is in flight still; returns how much of it came.
    fn drain(&mut self, requests: &Packets, echoed: bool, in_air: usize) -> Result<u64> {
        let (mut answered, mut heard_at) = (0, Instant::now());
        while answered < in_air as u64 && heard_at.elapsed() < P::SILENCE {
            let before = answered;
            self.port.receive(None, |reply| {
                answered += u64::from(requests.reader.answer(reply, echoed).is_last);
                false
            })?;
            if answered > before {
                heard_at = Instant::now();
            }
        }
        Ok(answered)
    }

    /// Drops what arrives until nothing does for a while.
    fn wait_for_silence(&mut self) -> Result<()> {
        let mut heard_at = Instant::now();
        while heard_at.elapsed() < P::SILENCE {
            if self.port.receive(None, |_| false)? > 0 {
                heard_at = Instant::now();
            }
        }
        Ok(())
    }

    /// Sends some of the requests, by their numbers, with few in flight. `each` gets the number of an
    /// answer, and how many requests succeeded.
    fn send_some(
        &mut self,
        requests: &mut Packets,
        numbers: &[usize],
        mut each: impl FnMut(u16, u64),
    ) -> Result<()> {
        const WINDOW: usize = 128;
        let reader = requests.reader;
        let (mut next, mut in_air, mut heard_at) = (0, 0usize, Instant::now());
        while (next < numbers.len() || in_air > 0) && heard_at.elapsed() < P::SILENCE {
            while next < numbers.len() && in_air < WINDOW {
                requests.seek(numbers[next]);
                if self.port.push(requests)?.is_none() {
                    break;
                }
                (next, in_air) = (next + 1, in_air + 1);
            }
            self.port.flush(true)?;
            self.port.receive(None, |reply| {
                let answer = reader.answer(reply, false);
                if answer.is_last {
                    each(answer.number, answer.succeeded);
                    in_air = in_air.saturating_sub(1);
                    heard_at = Instant::now();
                }
                false
            })?;
        }
        Ok(())
    }
}

impl<P: Port> Load for Generator<P> {
    fn closed(
        &mut self,
        requests: &mut Packets,
        echoed: bool,
        window: usize,
        duration: Duration,
    ) -> Result<Tally> {
        let (reader, began) = (requests.reader, Instant::now());
        let (mut tally, mut heard_at, mut turns) = (Tally::default(), began, 0);
        // Requests without an answer yet.
        let mut in_air = 0;
        let mut heard_some = false;
        loop {
            let (mut succeeded, mut answered, mut reply_bytes) = (0, 0, 0);
            let came = self.port.receive(Some(requests), |reply| {
                let answer = reader.answer(reply, echoed);
                succeeded += answer.succeeded;
                answered += u64::from(answer.is_last);
                reply_bytes += reply.len() as u64;
                answer.is_last
            })?;
            tally.succeeded += succeeded;
            tally.reply_bytes += reply_bytes;
            tally.answered_datagrams += answered;
            tally.sent_datagrams += answered;
            heard_some |= came > 0;
            self.port.flush(came == 0)?;
            turns += 1;
            if came > 0 && turns < TURNS {
                continue;
            }
            turns = 0;
            let now = Instant::now();
            if std::mem::take(&mut heard_some) {
                heard_at = now;
            } else if in_air > 0 && now - heard_at > P::SILENCE {
                // All of it is lost; what is counted as lost is what was never answered.
                (in_air, heard_at) = (0, now);
            }
            if now - began >= duration {
                break;
            }
            for _ in 0..(window - in_air).min(BURST) {
                if self.port.push(requests)?.is_none() {
                    break;
                }
                in_air += 1;
                tally.sent_datagrams += 1;
            }
        }
        self.port.flush(true)?;
        tally.elapsed_s = began.elapsed().as_secs_f64();
        // Late answers are not lost, but do not count.
        let answered = tally.answered_datagrams + self.drain(requests, echoed, in_air)?;
        tally.lost_datagrams = tally.sent_datagrams.saturating_sub(answered);
        Ok(tally)
    }

    fn open(
        &mut self,
        requests: &mut Packets,
        echoed: bool,
        schedule: &Schedule,
        latency_ns: &mut Vec<u32>,
    ) -> Result<Tally> {
        let (interval_ns, silence_ns) = (1e9 / schedule.datagrams_per_second, P::SILENCE.as_nanos() as u64);
        let end_ns = schedule.duration.as_nanos() as u64;
        let last_ns = end_ns + Schedule::DELAY_MAX.as_nanos() as u64;
        let mut random = Random::new(Schedule::SEED);
        let mut next_ns = random.exponential(interval_ns);
        let (mut tally, reader) = (Tally::default(), requests.reader);
        let (mut in_air, mut heard_ns) = (0usize, 0);
        self.due_ns.fill(0);
        latency_ns.clear();
        requests.seek(0);
        let began = Instant::now();
        let elapsed_ns = || began.elapsed().as_nanos() as u64;
        loop {
            let now_ns = elapsed_ns();
            let is_due = |next_ns: f64| next_ns as u64 <= now_ns && (next_ns as u64) < end_ns;
            let room = schedule.window.saturating_sub(in_air).min(BURST);
            for _ in 0..room {
                if !is_due(next_ns) {
                    break;
                }
                let Some(number) = self.port.push(requests)? else {
                    break;
                };
                self.due_ns[usize::from(number)] = (next_ns as u64).max(1);
                next_ns += random.exponential(interval_ns);
                tally.sent_datagrams += 1;
                if in_air == 0 {
                    heard_ns = now_ns;
                }
                in_air += 1;
            }
            self.port.flush(true)?;
            let (due_ns, mut came_ns, mut answered) = (&mut self.due_ns, None, 0);
            self.port.receive(None, |reply| {
                let came_ns = *came_ns.get_or_insert_with(elapsed_ns);
                let answer = reader.answer(reply, echoed);
                let due_ns = match answer.is_last {
                    true => std::mem::take(&mut due_ns[usize::from(answer.number)]),
                    false => 0,
                };
                if due_ns > 0 {
                    answered += 1;
                    tally.succeeded += answer.succeeded;
                    let took_ns: u64 = came_ns.saturating_sub(due_ns);
                    latency_ns.push(took_ns.min(u64::from(u32::MAX)) as u32);
                }
                false
            })?;
            if let Some(came_ns) = came_ns {
                (in_air, heard_ns) = (in_air.saturating_sub(answered), came_ns);
            } else if in_air > 0 && now_ns.saturating_sub(heard_ns) > silence_ns {
                // It is lost.
                in_air = 0;
            }
            let is_complete = next_ns as u64 >= end_ns && in_air == 0;
            if is_complete && now_ns >= end_ns || now_ns > last_ns + silence_ns {
                break;
            }
        }
        // Datagrams that could not be sent count as lost ones.
        while (next_ns as u64) < end_ns {
            next_ns += random.exponential(interval_ns);
            tally.sent_datagrams += 1;
        }
        tally.answered_datagrams = latency_ns.len() as u64;
        tally.lost_datagrams = tally.sent_datagrams.saturating_sub(tally.answered_datagrams);
        tally.elapsed_s = schedule.duration.as_secs_f64();
        Ok(tally)
    }

    fn deliver(&mut self, requests: &mut Packets) -> Result<u64> {
        let (mut missing, mut succeeded) = (vec![true; requests.len()], 0);
        if missing.len() > NUMBERS {
            return Err("more datagrams than numbers".into());
        }
        for round in 0..100 {
            let todo: Vec<_> = (0..missing.len()).filter(|at| missing[*at]).collect();
            if todo.is_empty() {
                if round > 1 {
                    // A request that was sent twice may be answered twice. Its second answer is awaited
                    // here, so that the next request does not take it.
                    self.wait_for_silence()?;
                }
                return Ok(succeeded);
            }
            self.send_some(requests, &todo, |number, stored| {
                let was_missing = missing.get_mut(usize::from(number));
                if was_missing.is_some_and(std::mem::take) {
                    succeeded += stored;
                }
            })?;
        }
        Err("the server does not answer all that is stored".into())
    }

    fn ask(
        &mut self,
        payload: &[u8],
        patience: Duration,
        satisfies: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<()> {
        let began = Instant::now();
        while began.elapsed() < patience {
            self.port.push_payload(payload)?;
            self.port.flush(true)?;
            let asked = Instant::now();
            let mut satisfied = false;
            while asked.elapsed() < ANSWER_TIME {
                self.port.receive(None, |reply| {
                    satisfied |= satisfies(reply);
                    false
                })?;
            }
            if satisfied {
                return Ok(());
            }
        }
        Err("a question is not answered".into())
    }
}

#[cfg(test)]
mod tests;
