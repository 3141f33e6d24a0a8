//! Waiting without being late.
//!
//! A measurement of latencies must not add to them: waking from sleep takes tens of microseconds. A
//! thread therefore spins while replies are expected soon, and it sleeps only
//! - when nothing is in flight, until shortly before the next request is due, or
//! - when replies have been missing for so long that a late look at them changes little.

use std::io;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollTimeout};

/// Replies are spun for this long.
const SPIN_NS: u64 = 2_000_000;
/// A thread that is not pinned lets others onto its CPU when a reply takes longer than this.
const PATIENCE_NS: u64 = 50_000;
/// A thread gets up this long before a request is due.
const EARLY_NS: u64 = 300_000;
/// The longest sleep: other duties come at least so often.
const SLEEP_MS_MAX: u64 = 10;
const EVENTS_MAX: usize = 256;

/// Claim of a thread to a CPU while it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The thread is pinned to a CPU that no other thread of the run has.
    Own,
    /// CPUs outnumber threads.
    Free,
    /// Threads share CPUs.
    Shared,
}

/// The descriptors that a thread watches, and its way to wait.
pub(crate) struct Waiter {
    pub epoll: Epoll,
    events: Box<[EpollEvent]>,
    /// Claim of this thread to its CPU.
    claim: Claim,
}

impl Waiter {
    pub fn new(claim: Claim) -> io::Result<Self> {
        Ok(Self {
            epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?,
            events: vec![EpollEvent::empty(); EVENTS_MAX].into(),
            claim,
        })
    }

    /// Returns how many descriptors have something; their tokens are [`Self::token`].
    pub fn ready(&mut self) -> usize {
        self.wait(EpollTimeout::ZERO)
    }

    /// The token of event `index` of the last call of [`Self::ready`].
    pub fn token(&self, index: usize) -> usize {
        self.events[index].data() as usize
    }

    /// Lets time pass. Work was found last at `worked_ns`; `wake_ns` is when there is something to
    /// do.
    pub fn idle(&mut self, now_ns: u64, worked_ns: u64, wake_ns: u64, in_flight: bool) {
        let may_sleep = !in_flight || now_ns.saturating_sub(worked_ns) > SPIN_NS;
        let sleep_ms = wake_ns.saturating_sub(EARLY_NS).saturating_sub(now_ns) / 1_000_000;
        if may_sleep && sleep_ms > 0 {
            let sleep_ms = sleep_ms.min(SLEEP_MS_MAX) as u8;
            self.wait(EpollTimeout::from(sleep_ms));
        } else if self.keeps_cpu(now_ns.saturating_sub(worked_ns), in_flight) {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }

    fn keeps_cpu(&self, waited_ns: u64, in_flight: bool) -> bool {
        match self.claim {
            Claim::Own => true,
            // The server could be waiting for just this CPU.
            Claim::Free => !in_flight || waited_ns < PATIENCE_NS,
            Claim::Shared => false,
        }
    }

    fn wait(&mut self, timeout: EpollTimeout) -> usize {
        // A signal may end it; nothing else can go wrong with a descriptor of our own.
        self.epoll.wait(&mut self.events, timeout).unwrap_or_default()
    }
}
