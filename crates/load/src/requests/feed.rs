//! Times of requests, and the connections that send them.

use std::ops::Range;

use micanite_workload::{Next, Pool, Random};

use crate::requests::Stream;
use crate::requests::arrivals::Arrivals;
use crate::run::clock::{Clock, LATE_NS};
use crate::run::recorder::Recorder;
use crate::target::{Connection, Stamp};

/// Requests that the open loop hands over before it looks for replies again.
const BURST_MAX: usize = 256;

/// Connections of a thread; those that have failed are gone.
pub(crate) type Connections<C> = Vec<Option<C>>;

/// Decides what is sent.
pub(crate) enum Feed {
    Closed(Source),
    Open(Box<Open>),
    Fill(Fill),
}

pub(crate) struct Source {
    pub requests: Stream,
    /// Items of one reading request.
    items: Box<[u64]>,
    /// Requests that are handed over together.
    batch: usize,
    limits: Limits,
}

/// Bounds of a thread's requests.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// The measured part; nothing is sent after it.
    pub window_ns: Range<u64>,
    /// Operations that the measured part still has.
    pub operations_left: u64,
    /// Requests in flight on a connection, which may have room for more.
    pub in_flight_max: usize,
}

impl Limits {
    /// Returns how many requests a connection may take.
    #[inline]
    fn room<C: Connection>(&self, connection: &C) -> usize {
        connection.room().min(self.in_flight_max.saturating_sub(connection.in_flight()))
    }
}

impl Source {
    pub fn new(requests: Stream, multiget: usize, batch: usize, limits: Limits) -> Self {
        Self { requests, items: vec![0; multiget].into(), batch, limits }
    }

    /// Returns whether the measured part has had all its operations.
    pub const fn is_spent(&self) -> bool {
        self.limits.operations_left == 0
    }

    #[inline]
    fn hand_over<C: Connection>(&mut self, to: &mut C, stamp: Stamp, recorder: &mut Recorder) {
        let operations = match self.requests.next(&mut self.items, &mut recorder.held_updates) {
            Next::Read(items) => {
                to.read(&self.items[..items], stamp);
                items as u64
            }
            Next::Write(item, version) => {
                to.write(item, version, stamp);
                1
            }
            Next::Delete(item) => {
                to.delete(item, stamp);
                1
            }
        };
        if stamp.scheduled_ns >= self.limits.window_ns.start {
            self.limits.operations_left = self.limits.operations_left.saturating_sub(operations);
        }
        recorder.sent(stamp.scheduled_ns);
    }

    /// Stores an item that was missed, if one was, on a connection that has room.
    #[inline]
    fn store_missed<C: Connection>(&mut self, to: &mut C, now_ns: u64, recorder: &mut Recorder) -> bool {
        let Some(item) = recorder.missed.as_mut().and_then(Vec::pop) else {
            return false;
        };
        let stamp = Stamp { scheduled_ns: now_ns, now_ns };
        to.write(item, self.requests.next_version(), stamp);
        recorder.sent(now_ns);
        true
    }

    /// Keeps as much in flight as one connection may have.
    pub fn fill_up<C: Connection>(
        &mut self,
        connection: &mut C,
        clock: Clock,
        recorder: &mut Recorder,
    ) -> bool {
        let mut any = false;
        while self.limits.room(connection) >= self.batch && !self.is_spent() {
            let now_ns = clock.now_ns();
            if now_ns >= self.limits.window_ns.end {
                break;
            }
            any = true;
            if self.store_missed(connection, now_ns, recorder) {
                continue;
            }
            let stamp = Stamp { scheduled_ns: now_ns, now_ns };
            for _ in 0..self.batch {
                self.hand_over(connection, stamp, recorder);
            }
        }
        any
    }
}

/// The open loop: requests are due when the schedule says, whatever the server does.
pub(crate) struct Open {
    pub source: Source,
    pub arrivals: Arrivals,
    /// Due, and waiting for the rest of their batch or for a connection with room.
    due_ns: Vec<u64>,
    /// The connection whose turn it is.
    next: usize,
    /// Connections that have something to send.
    pub dirty: Vec<usize>,
    /// Requests that were due until then may have waited for room.
    blocked_ns: u64,
    pub lateness: Lateness,
}

/// Requests that left too late although there was room.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lateness {
    pub requests: u64,
    pub longest_ns: u64,
}

impl Open {
    pub fn new(source: Source, arrivals: Arrivals) -> Self {
        Self {
            due_ns: Vec::with_capacity(source.batch),
            source,
            arrivals,
            next: 0,
            dirty: Vec::new(),
            blocked_ns: 0,
            lateness: Lateness::default(),
        }
    }

    /// Hands over what is due; returns whether there was anything.
    pub fn hand_over<C: Connection>(
        &mut self,
        connections: &mut Connections<C>,
        now_ns: u64,
        recorder: &mut Recorder,
    ) -> bool {
        let mut any = self.store_missed(connections, now_ns, recorder);
        for _ in 0..BURST_MAX.div_ceil(self.source.batch) {
            self.collect(now_ns);
            let complete = self.due_ns.len() == self.source.batch
                || now_ns >= self.source.limits.window_ns.end && !self.due_ns.is_empty();
            if !complete {
                break;
            }
            let Some(turn) = self.with_room(connections, self.due_ns.len()) else {
                self.blocked_ns = now_ns;
                break;
            };
            if let Some(connection) = &mut connections[turn] {
                self.hand_over_due(connection, now_ns, recorder);
                any = true;
            }
            if !self.dirty.contains(&turn) {
                self.dirty.push(turn);
            }
        }
        any
    }

    /// Stores what was missed, beside what is due.
    fn store_missed<C: Connection>(
        &mut self,
        connections: &mut Connections<C>,
        now_ns: u64,
        recorder: &mut Recorder,
    ) -> bool {
        let mut any = false;
        while recorder.missed.as_ref().is_some_and(|missed| !missed.is_empty())
            && let Some(turn) = self.with_room(connections, 1)
            && let Some(connection) = &mut connections[turn]
        {
            any |= self.source.store_missed(connection, now_ns, recorder);
            if !self.dirty.contains(&turn) {
                self.dirty.push(turn);
            }
        }
        any
    }

    /// Adds to the batch what has come due.
    fn collect(&mut self, now_ns: u64) {
        while self.due_ns.len() < self.source.batch {
            let next_ns = self.arrivals.next_ns();
            if next_ns > now_ns || next_ns >= self.source.limits.window_ns.end {
                break;
            }
            self.due_ns.push(next_ns);
            self.arrivals.advance();
        }
    }

    fn hand_over_due<C: Connection>(&mut self, connection: &mut C, now_ns: u64, recorder: &mut Recorder) {
        // The last of a batch completes it: the others wait for it on purpose.
        if let Some(&last_ns) = self.due_ns.last()
            && last_ns > self.blocked_ns
        {
            let late_ns = now_ns.saturating_sub(last_ns);
            self.lateness.longest_ns = self.lateness.longest_ns.max(late_ns);
            if late_ns > LATE_NS {
                self.lateness.requests += self.due_ns.len() as u64;
            }
        }
        for at in 0..self.due_ns.len() {
            let stamp = Stamp { scheduled_ns: self.due_ns[at], now_ns };
            self.source.hand_over(connection, stamp, recorder);
        }
        self.due_ns.clear();
    }

    /// The next connection in turn that has room for a batch.
    fn with_room<C: Connection>(&mut self, connections: &Connections<C>, requests: usize) -> Option<usize> {
        for _ in 0..connections.len() {
            let turn = self.next;
            self.next = (self.next + 1) % connections.len();
            let limits = &self.source.limits;
            let room = connections[turn].as_ref().map_or(0, |connection| limits.room(connection));
            if room >= requests {
                return Some(turn);
            }
        }
        None
    }

    /// Returns when the next request is due; none if no more are.
    pub fn next_due_ns(&self) -> Option<u64> {
        let next_ns = self.arrivals.next_ns();
        (next_ns < self.source.limits.window_ns.end).then_some(next_ns)
    }

    /// Returns whether everything that was due has been handed over.
    pub fn is_done(&self, now_ns: u64) -> bool {
        now_ns >= self.source.limits.window_ns.end && self.due_ns.is_empty() && self.next_due_ns().is_none()
    }

    /// Counts what has been due and was never sent.
    pub fn give_up(&mut self, now_ns: u64, recorder: &mut Recorder) {
        for due_ns in self.due_ns.drain(..) {
            recorder.unsent(due_ns, now_ns);
        }
        while let Some(due_ns) = self.next_due_ns() {
            recorder.unsent(due_ns, now_ns);
            self.arrivals.advance();
        }
    }
}

/// Writes every item of a target once, or reads it.
pub(crate) struct Fill {
    pass: Pass,
    /// The items that each connection has still to write.
    shares: Vec<Share>,
    /// The pool that they are of, and its resident items.
    pool: Option<(Pool, u64)>,
    /// Versions of the values.
    random: Random,
}

/// Purpose of a visit of all items before the measured part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Stores them.
    Write,
    /// Reads them, so that the client knows where they are.
    Read,
}

impl Pass {
    /// Beginning of the message that it has failed.
    pub const fn failed(self) -> &'static str {
        match self {
            Self::Write => "filling failed",
            Self::Read => "reading all items failed",
        }
    }
}

/// Every `step`-th of the items (of a pool: of their places) from `next` on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub next: u64,
    pub step: u64,
    pub items: u64,
}

impl Fill {
    pub fn new(pass: Pass, shares: Vec<Share>, pool: Option<(Pool, u64)>, seed: u64) -> Self {
        Self { pass, shares, pool, random: Random::new(seed) }
    }

    /// Keeps as much in flight as connection `turn` may have.
    pub fn fill_up<C: Connection>(
        &mut self,
        connection: &mut C,
        turn: usize,
        clock: Clock,
        recorder: &mut Recorder,
    ) -> bool {
        let now_ns = clock.now_ns();
        let stamp = Stamp { scheduled_ns: now_ns, now_ns };
        let mut any = false;
        while connection.room() > 0 {
            let Some(item) = self.next_item(turn, recorder) else {
                break;
            };
            match self.pass {
                Pass::Write => connection.write(item, self.random.word() as u32, stamp),
                Pass::Read => connection.read(&[item], stamp),
            }
            recorder.sent(now_ns);
            any = true;
        }
        any
    }

    /// Returns the next item, lost ones first.
    fn next_item(&mut self, turn: usize, recorder: &mut Recorder) -> Option<u64> {
        if let Some(item) = recorder.resend.as_mut().and_then(Vec::pop) {
            return Some(item);
        }
        let share = &mut self.shares[turn];
        if share.next >= share.items {
            return None;
        }
        let place = share.next;
        share.next += share.step;
        Some(match self.pool {
            None => place,
            Some((pool, keys)) => pool.prefill_item(keys, place).number,
        })
    }

    /// Returns whether every item has been handed over.
    pub fn is_done(&self, recorder: &Recorder) -> bool {
        recorder.resend.as_ref().is_none_or(Vec::is_empty)
            && self.shares.iter().all(|share| share.next >= share.items)
    }
}
