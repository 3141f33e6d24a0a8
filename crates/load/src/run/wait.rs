//! Waiting without being late.
//!
//! A measurement of latencies must not add to them: waking from sleep takes tens of microseconds. A
//! thread therefore spins while replies are expected soon, and it sleeps only
//! - when nothing is in flight, until shortly before the next request is due, or
//! - when replies have been missing for so long that a late look at them changes little.
//!
//! It learns from its sleeps how much earlier it has to get up.

use std::io;
use std::ops::RangeInclusive;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollTimeout};
use nix::sys::prctl::set_timerslack;
use nix::sys::time::TimeSpec;

use crate::run::clock::nanoseconds;

/// Replies are spun for this long.
const SPIN_NS: u64 = 2_000_000;
/// A thread that is not pinned lets others onto its CPU when a reply takes longer than this.
const PATIENCE_NS: u64 = 50_000;
/// A thread gets up this long before a request is due.
const EARLY_NS: RangeInclusive<u64> = 30_000..=300_000;
/// A shorter sleep is not worth its system call.
const SLEEP_NS_MIN: u64 = 20_000;
/// The longest sleep: other duties come at least so often.
const SLEEP_NS_MAX: u64 = 10_000_000;
/// Timers of a thread may end this late, for the kernel to join them; it is 50 us otherwise.
const TIMER_SLACK_NS: u64 = 1;
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
    early: Early,
}

/// Time by which a thread gets up before it has something to do.
#[derive(Clone, Copy, Debug)]
struct Early {
    ns: u64,
}

impl Early {
    const fn new() -> Self {
        Self { ns: *EARLY_NS.end() }
    }

    /// Returns how long to sleep; nothing if that is not worth it.
    fn sleep_ns(self, now_ns: u64, wake_ns: u64) -> Option<u64> {
        let sleep_ns = wake_ns.saturating_sub(self.ns).saturating_sub(now_ns);
        (sleep_ns >= SLEEP_NS_MIN).then_some(sleep_ns.min(SLEEP_NS_MAX))
    }

    /// Learns that a sleep took so much longer than it should: twice that is early enough, and the earlier
    /// ones are forgotten slowly.
    fn learn(&mut self, overslept_ns: u64) {
        let forgotten_ns = self.ns - self.ns / 32;
        let ns = forgotten_ns.max(overslept_ns.saturating_mul(2));
        self.ns = ns.clamp(*EARLY_NS.start(), *EARLY_NS.end());
    }
}

impl Waiter {
    /// Waits for the calling thread.
    pub fn new(claim: Claim) -> io::Result<Self> {
        // Where it is refused, the thread learns to get up earlier.
        let _ = set_timerslack(TIMER_SLACK_NS);
        Ok(Self {
            epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?,
            events: vec![EpollEvent::empty(); EVENTS_MAX].into(),
            claim,
            early: Early::new(),
        })
    }

    /// Returns how many descriptors have something; their tokens are [`Self::token`].
    pub fn ready(&mut self) -> usize {
        // A signal may end it; nothing else can go wrong with a descriptor of our own.
        self.epoll.wait(&mut self.events, EpollTimeout::ZERO).unwrap_or_default()
    }

    /// The token of event `index` of the last call of [`Self::ready`].
    pub fn token(&self, index: usize) -> usize {
        self.events[index].data() as usize
    }

    /// Lets time pass. Work was found last at `worked_ns`; `wake_ns` is when there is something to
    /// do.
    pub fn idle(&mut self, now_ns: u64, worked_ns: u64, wake_ns: u64, in_flight: bool) {
        let may_sleep = !in_flight || now_ns.saturating_sub(worked_ns) > SPIN_NS;
        let sleep_ns = if may_sleep { self.early.sleep_ns(now_ns, wake_ns) } else { None };
        if let Some(sleep_ns) = sleep_ns {
            self.sleep(sleep_ns);
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

    /// Sleeps for so long, or until a descriptor has something. epoll itself counts milliseconds.
    fn sleep(&mut self, sleep_ns: u64) {
        let began = Instant::now();
        let timeout = TimeSpec::from_duration(Duration::from_nanos(sleep_ns));
        let mut watched = [PollFd::new(self.epoll.0.as_fd(), PollFlags::POLLIN)];
        if ppoll(&mut watched, Some(timeout), None) == Ok(0) {
            self.early.learn(nanoseconds(began.elapsed()).saturating_sub(sleep_ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The longest sleep leaves enough time before a request is due, and short ones are left out.
    #[test]
    fn a_sleep_ends_before_a_request_is_due() {
        let early = Early::new();
        assert_eq!(early.sleep_ns(0, 1_000_000), Some(700_000));
        assert_eq!(early.sleep_ns(500_000, 1_000_000), Some(200_000));
        assert_eq!(early.sleep_ns(690_000, 1_000_000), None);
        assert_eq!(early.sleep_ns(2_000_000, 1_000_000), None);
        assert_eq!(early.sleep_ns(0, u64::MAX), Some(SLEEP_NS_MAX));
    }

    /// Punctual sleeps make the time before a request short, and a long one makes it long again.
    #[test]
    fn the_time_before_a_request_follows_the_sleeps() {
        let mut early = Early::new();
        (0..100).for_each(|_| early.learn(20_000));
        assert_eq!(early.ns, 40_000);
        (0..100).for_each(|_| early.learn(0));
        assert_eq!(early.ns, *EARLY_NS.start());
        early.learn(100_000);
        assert_eq!(early.ns, 200_000);
        early.learn(u64::MAX);
        assert_eq!(early.ns, *EARLY_NS.end());
    }

    /// A thread that sleeps gets up when a descriptor has something.
    #[test]
    fn a_descriptor_ends_a_sleep() {
        let mut waiter = Waiter::new(Claim::Free).unwrap();
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        waiter.epoll.add(&ours, EpollEvent::new(nix::sys::epoll::EpollFlags::EPOLLIN, 7)).unwrap();
        assert_eq!(waiter.ready(), 0);
        std::io::Write::write_all(&mut &theirs, b"x").unwrap();
        let early = waiter.early.ns;
        waiter.idle(0, 0, u64::MAX, false);
        assert_eq!((waiter.ready(), waiter.token(0), waiter.early.ns), (1, 7, early));
    }
}
