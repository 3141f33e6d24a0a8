//! A thread with connections: sends what is due, stores what was missed, counts.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use super::connection::{Connection, SILENCE_MAX, silent};
use super::lane::{Lane, Slot};
use super::replies::Counts;
use super::step::Batch;
use super::tally::{Live, News, Tally};
use crate::run::clock::Clock;
use crate::run::machine::thread_cpu_s;

/// A server that is silent for so long when the replay is to end is given up.
const FAREWELL_MAX: Duration = Duration::from_secs(1);
/// The longest sleep: whether the replay is to end is looked at so often.
const SLEEP_MAX: Duration = Duration::from_millis(100);
/// The longest sleep without a step: the reader wakes nobody who waits for a server.
const SLEEP_HUNGRY_MAX: Duration = Duration::from_millis(1);

/// State that all workers of a replay share.
pub(super) struct Common {
    pub clock: Clock,
    /// True if requests have a time; else each is due as soon as it can be sent.
    pub is_timed: bool,
    /// Bytes at the start of keys that the trace does not count.
    pub prefix_bytes: u64,
    /// Set when the replay is to end.
    pub is_ending: AtomicBool,
    pub live: Live,
}

/// A thread's part of a replay.
pub(super) struct Worker<'a> {
    common: &'a Common,
    batches: Receiver<Batch>,
    lanes: Vec<Lane>,
    pipeline: usize,
    batch: Batch,
    /// The next step of the batch.
    next: usize,
    /// True if the next step was due, and had to wait for the server.
    was_held: bool,
    is_exhausted: bool,
    heard: Instant,
    counts: Counts,
}

impl<'a> Worker<'a> {
    pub fn new(
        common: &'a Common,
        batches: Receiver<Batch>,
        connections: Vec<Box<dyn Connection>>,
        pipeline: usize,
    ) -> Self {
        let lanes = connections.into_iter();
        Self {
            common,
            batches,
            lanes: lanes.map(|lane| Lane::new(lane, pipeline)).collect(),
            pipeline,
            batch: Batch::default(),
            next: 0,
            was_held: false,
            is_exhausted: false,
            heard: Instant::now(),
            counts: Counts {
                tally: Tally::default(),
                news: News::default(),
                prefix_bytes: common.prefix_bytes,
                is_timed: common.is_timed,
            },
        }
    }

    /// Replays until nothing is left; returns what was counted, and why it ended early.
    pub fn run(mut self) -> (Tally, Option<String>) {
        let failure = self.work().err();
        if failure.is_some() {
            self.common.is_ending.store(true, Ordering::Relaxed);
        }
        self.counts.news.publish(&self.common.live);
        let refusal = self.lanes.iter().find_map(|lane| lane.connection.refusal());
        self.counts.tally.refusal = refusal.map(str::to_owned);
        let resent = self.lanes.iter().map(|lane| lane.connection.resent());
        self.counts.tally.resent = resent.sum();
        // The thread has done nothing else.
        self.counts.tally.cpu_s.extend(thread_cpu_s());
        (self.counts.tally, failure)
    }

    fn work(&mut self) -> Result<(), String> {
        loop {
            let is_ending = self.common.is_ending.load(Ordering::Relaxed);
            let sleep = if is_ending { SLEEP_MAX } else { self.send_due() };
            for lane in &mut self.lanes {
                lane.flush()?;
            }
            let is_idle = self.lanes.iter().all(|lane| lane.is_idle());
            if is_idle && (is_ending || self.is_exhausted) {
                return Ok(());
            }
            self.counts.news.publish(&self.common.live);
            if is_idle && self.next == self.batch.steps.len() {
                self.fetch(SLEEP_MAX);
                self.heard = Instant::now();
            } else {
                self.wait(sleep)?;
                self.receive()?;
                let patience = if is_ending { FAREWELL_MAX } else { SILENCE_MAX };
                if is_idle {
                    self.heard = Instant::now();
                } else if self.heard.elapsed() > patience {
                    return Err(silent(patience));
                }
            }
        }
    }

    /// Sends what is due and what the connections take; returns until when nothing else is.
    fn send_due(&mut self) -> Duration {
        let now_ns = self.common.clock.now_ns();
        loop {
            let Some(step) = self.batch.steps.get(self.next).copied() else {
                if !self.fetch(Duration::ZERO) {
                    return SLEEP_HUNGRY_MAX;
                }
                continue;
            };
            if self.common.is_timed && step.due_ns > now_ns {
                return Duration::from_nanos(step.due_ns - now_ns).min(SLEEP_MAX);
            }
            let lane = (step.key_hash >> 32) as usize % self.lanes.len();
            let lane = &mut self.lanes[lane];
            if !lane.has_room(self.pipeline) {
                self.was_held = true;
                return SLEEP_MAX;
            }
            let due_ns = if self.common.is_timed { step.due_ns } else { now_ns };
            let slot = Slot::new(step, self.batch.key(&step), due_ns);
            if lane.has(step.key_hash) {
                lane.park(slot);
            } else {
                self.counts.sent(&slot, now_ns, self.was_held);
                lane.begin(slot);
            }
            self.was_held = false;
            self.next += 1;
        }
    }

    /// Takes the next batch; returns whether there was one.
    fn fetch(&mut self, patience: Duration) -> bool {
        let batch = match patience.is_zero() {
            true => self.batches.try_recv().map_err(|error| error == TryRecvError::Disconnected),
            false => {
                self.batches.recv_timeout(patience).map_err(|error| error == RecvTimeoutError::Disconnected)
            }
        };
        match batch {
            Ok(batch) => {
                self.batch = batch;
                self.next = 0;
                true
            }
            Err(is_exhausted) => {
                self.is_exhausted |= is_exhausted;
                false
            }
        }
    }

    /// Sleeps until something arrives, or room is made for what is to be sent, or for so long.
    fn wait(&mut self, sleep: Duration) -> Result<(), String> {
        let flags = |lane: &Lane| match lane.is_clogged {
            true => PollFlags::POLLIN | PollFlags::POLLOUT,
            false => PollFlags::POLLIN,
        };
        let watched = self.lanes.iter();
        let mut watched: Vec<PollFd<'_>> =
            watched.map(|lane| PollFd::new(lane.connection.as_fd(), flags(lane))).collect();
        let due = self.lanes.iter().filter_map(|lane| lane.connection.due_in());
        let sleep = due.fold(sleep, Duration::min);
        match ppoll(&mut watched, Some(TimeSpec::from_duration(sleep)), None) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(format!("cannot wait for the server: {error}")),
        }
        // Errors are seen by receiving.
        let ready: Vec<bool> = watched
            .iter()
            .map(|fd| fd.revents().is_some_and(|events| events.intersects(!PollFlags::POLLOUT)))
            .collect();
        for (lane, is_ready) in self.lanes.iter_mut().zip(ready) {
            lane.is_ready = is_ready || lane.connection.due_in() == Some(Duration::ZERO);
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<(), String> {
        let mut now_ns = None;
        for lane in &mut self.lanes {
            while lane.is_ready {
                lane.is_ready = lane.connection.receive()?;
                let clock = self.common.clock;
                let now_ns = *now_ns.get_or_insert_with(|| clock.now_ns());
                while let Some((token, reply)) = lane.connection.reply()? {
                    self.heard = Instant::now();
                    self.counts.settle(lane, token, reply, now_ns);
                }
            }
        }
        Ok(())
    }
}
