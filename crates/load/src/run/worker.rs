//! The loop of a thread: receive, send, wait.

use std::io;
use std::ops::Range;
use std::sync::mpsc::Sender;

use crate::requests::feed::{Connections, Feed, Lateness};
use crate::run::clock::{Clock, SECOND_NS};
use crate::run::cpu_time::CpuTime;
use crate::run::machine;
use crate::run::recorder::{Interval, Recorder};
use crate::run::wait::{Claim, Waiter};
use crate::target::Connection;

/// Largest number of connections that are asked one by one; epoll chooses among more.
const DIRECT_MAX: usize = 4;
/// Interval of looks at connections that have not reported anything.
const ROUND_OF_ALL_NS: u64 = 1_000_000;
/// While filling, a server may be silent for so long.
const SILENCE_NS_MAX: u64 = 15 * SECOND_NS;

pub(crate) struct Task {
    pub clock: Clock,
    pub window_ns: Range<u64>,
    /// Replies are waited for until then.
    pub deadline_ns: u64,
    pub claim: Claim,
    /// Takes the counts of each second, with its number.
    pub intervals: Sender<(u64, Interval)>,
    /// The server, if this thread is the one that reads its CPU time.
    pub server_pid: Option<u32>,
}

/// Results of a thread.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub recorder: Recorder,
    /// Time of the measured part in which there was something to do.
    pub busy_ns: u64,
    /// Time at which the last request had ended.
    pub ended_ns: u64,
    /// CPU time of this thread in the measured part.
    pub cpu_s: Option<f64>,
    /// CPU time of the server in the measured part.
    pub server_cpu_s: Option<f64>,
    pub lateness: Lateness,
    /// Connections that failed, and why the first one did.
    pub failed: usize,
    pub failure: Option<String>,
}

/// A thread's work.
pub(crate) struct Worker<C> {
    task: Task,
    connections: Connections<C>,
    feed: Feed,
    recorder: Recorder,
    waiter: Waiter,
    tick_ns: u64,
    round_of_all_ns: u64,
    /// Time at which something was received or sent last.
    worked_ns: u64,
    answered_ns: u64,
    busy_ns: u64,
    own_time: CpuTime,
    server_time: CpuTime,
    failed: usize,
    failure: Option<String>,
}

impl<C: Connection> Worker<C> {
    pub fn new(task: Task, connections: Vec<C>, feed: Feed, recorder: Recorder) -> io::Result<Self> {
        let waiter = Waiter::new(task.claim)?;
        for (token, connection) in connections.iter().enumerate() {
            connection.watch(&waiter.epoll, token as u64)?;
        }
        Ok(Self {
            own_time: CpuTime::new(task.window_ns.clone()),
            server_time: CpuTime::new(task.window_ns.clone()),
            task,
            connections: connections.into_iter().map(Some).collect(),
            feed,
            recorder,
            waiter,
            tick_ns: SECOND_NS,
            round_of_all_ns: 0,
            worked_ns: 0,
            answered_ns: 0,
            busy_ns: 0,
            failed: 0,
            failure: None,
        })
    }

    /// Works to the end of the run; returns its results and the connections.
    pub fn run(mut self) -> (Outcome, Connections<C>) {
        self.task.clock.wait_for_start();
        let mut before_ns = self.task.clock.now_ns();
        let mut worked = false;
        loop {
            let now_ns = self.task.clock.now_ns();
            if worked {
                self.worked_ns = now_ns;
                if self.task.window_ns.contains(&before_ns) {
                    self.busy_ns += now_ns - before_ns;
                }
            }
            before_ns = now_ns;
            self.tick(now_ns);
            self.own_time.look(now_ns, machine::thread_cpu_s);
            if let Some(pid) = self.task.server_pid {
                self.server_time.look(now_ns, || machine::cpu_s(pid).ok());
            }
            if self.is_over(now_ns) {
                return self.finish(now_ns);
            }
            worked = self.receive();
            worked |= self.send(now_ns);
            if now_ns >= self.round_of_all_ns {
                self.round_of_all_ns = now_ns + ROUND_OF_ALL_NS;
                self.look_after_all(now_ns);
            }
            if !worked {
                let wake_ns = self.wake_ns();
                let in_flight = self.in_flight();
                // Without descriptors nothing would end the sleep.
                let may_sleep = C::HAS_DESCRIPTORS || !in_flight;
                let wake_ns = if may_sleep { wake_ns } else { now_ns };
                self.waiter.idle(now_ns, self.worked_ns, wake_ns, in_flight);
            }
        }
    }

    /// Takes the replies that have come, and keeps the closed loop closed.
    fn receive(&mut self) -> bool {
        let mut any = false;
        if C::RESTLESS || self.connections.len() <= DIRECT_MAX {
            for turn in 0..self.connections.len() {
                any |= self.poll(turn);
            }
        } else {
            for event in 0..self.waiter.ready() {
                any |= self.poll(self.waiter.token(event));
            }
        }
        any
    }

    fn poll(&mut self, turn: usize) -> bool {
        let Some(connection) = &mut self.connections[turn] else {
            return false;
        };
        match connection.poll(self.task.clock, &mut self.recorder) {
            Ok(None) => false,
            Ok(Some(ended)) => {
                if ended > 0 {
                    self.answered_ns = self.task.clock.now_ns();
                    self.refill(turn);
                }
                true
            }
            Err(error) => {
                self.fail(turn, error);
                true
            }
        }
    }

    /// Sends the requests of a loop without schedule on a connection that has room.
    fn refill(&mut self, turn: usize) {
        let Some(connection) = &mut self.connections[turn] else {
            return;
        };
        let (clock, recorder) = (self.task.clock, &mut self.recorder);
        let any = match &mut self.feed {
            Feed::Closed(source) => source.fill_up(connection, clock, recorder),
            Feed::Fill(fill) => fill.fill_up(connection, turn, clock, recorder),
            Feed::Open(_) => false,
        };
        if any {
            self.flush(turn);
        }
    }

    /// Sends the requests of the open loop that are due.
    fn send(&mut self, now_ns: u64) -> bool {
        let Feed::Open(open) = &mut self.feed else {
            return false;
        };
        let any = open.hand_over(&mut self.connections, now_ns, &mut self.recorder);
        while let Feed::Open(open) = &mut self.feed
            && let Some(turn) = open.dirty.pop()
        {
            self.flush(turn);
        }
        any
    }

    /// Sends what a connection holds; the rest of it at [`Self::look_after_all`].
    fn flush(&mut self, turn: usize) {
        let Some(connection) = &mut self.connections[turn] else {
            return;
        };
        if let Err(error) = connection.flush() {
            self.fail(turn, error);
        }
    }

    /// Timeouts, and whatever the kernel did not take at once.
    fn look_after_all(&mut self, now_ns: u64) {
        for turn in 0..self.connections.len() {
            if let Some(connection) = &mut self.connections[turn] {
                connection.expire(now_ns, &mut self.recorder);
            }
            self.refill(turn);
            self.flush(turn);
        }
    }

    fn fail(&mut self, turn: usize, error: String) {
        if let Some(mut connection) = self.connections[turn].take() {
            connection.abandon(self.task.clock.now_ns(), &mut self.recorder);
            self.failed += 1;
            self.failure.get_or_insert(error);
        }
    }

    fn tick(&mut self, now_ns: u64) {
        while now_ns >= self.tick_ns {
            let second = self.tick_ns / SECOND_NS;
            self.tick_ns += SECOND_NS;
            // Nobody listens any more when the run has been given up.
            let interval = self.recorder.take_interval();
            let _ = self.task.intervals.send((second, interval));
        }
    }

    fn in_flight(&self) -> bool {
        let mut connections = self.connections.iter().flatten();
        connections.any(|connection| connection.in_flight() > 0)
    }

    fn is_over(&mut self, now_ns: u64) -> bool {
        let done = match &self.feed {
            Feed::Closed(source) => source.is_spent() || now_ns >= self.task.window_ns.end,
            Feed::Open(open) => open.is_done(now_ns),
            Feed::Fill(fill) => self.failed > 0 || fill.is_done(&self.recorder),
        };
        if let Feed::Fill(_) = self.feed
            && now_ns.saturating_sub(self.answered_ns) > SILENCE_NS_MAX
        {
            let silence_s = SILENCE_NS_MAX / SECOND_NS;
            self.fail(0, format!("no reply for {silence_s} s"));
            return true;
        }
        done && !self.in_flight() || now_ns >= self.task.deadline_ns || self.failed == self.connections.len()
    }

    /// Returns when there is something to do even if nothing arrives.
    fn wake_ns(&self) -> u64 {
        let due_ns = match &self.feed {
            Feed::Open(open) => open.next_due_ns(),
            _ => None,
        };
        due_ns.unwrap_or(u64::MAX).min(self.tick_ns)
    }

    fn finish(mut self, now_ns: u64) -> (Outcome, Connections<C>) {
        for connection in self.connections.iter_mut().flatten() {
            connection.abandon(now_ns, &mut self.recorder);
        }
        let mut lateness = Lateness::default();
        if let Feed::Open(open) = &mut self.feed {
            open.give_up(now_ns, &mut self.recorder);
            lateness = open.lateness;
        }
        if let (Feed::Closed(source), Some(pid)) = (&self.feed, self.task.server_pid)
            && source.is_spent()
        {
            self.server_time.end(|| machine::cpu_s(pid).ok());
        }
        self.own_time.end(machine::thread_cpu_s);
        self.recorder.finish();
        let outcome = Outcome {
            recorder: self.recorder,
            busy_ns: self.busy_ns,
            ended_ns: now_ns,
            cpu_s: self.own_time.used_s(),
            server_cpu_s: self.server_time.used_s(),
            lateness,
            failed: self.failed,
            failure: self.failure,
        };
        (outcome, self.connections)
    }
}
