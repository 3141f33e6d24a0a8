//! The fabric in a worker's loop: rounds while messages come, then short naps, or sleep where the provider
//! wakes the worker.

use std::io;
use std::time::{Duration, Instant};

use micanite_control::cores;
use micanite_net::{Idle, IdleRounds, Step, Streams};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use super::upkeep::begin_second;
use super::{FABRIC, NAP, Worker};
use crate::limits::{
    DATAGRAMS_PER_POLL, FABRIC_ACTIVE_MS, FABRIC_BUSY_MS, FABRIC_COPY_BACK_TIMEOUT, FABRIC_NAP_MS,
    FABRIC_NAP_MS_MAX, FABRIC_NAP_NS, MAINTAIN_INTERVAL_MS, ROUNDS_PER_POLL, WAIT_MS_MAX,
};
use crate::native::fabric::FabricPort;
use crate::session::Context;
use crate::shared::clock::seconds;
use crate::telemetry::latency::Transport;

/// A worker's port, and its steps to sleep.
#[derive(Debug)]
pub(super) struct FabricTurn {
    port: FabricPort,
    idle: Idle,
    /// Ends naps that are shorter than the steps of a wait for events.
    timer: TimerFd,
    /// Time of the last message.
    active_ms: u64,
}

/// How long a worker may sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// Not at all.
    None,
    /// For a part of a millisecond.
    Nap,
    /// For so many milliseconds.
    Milliseconds(u16),
}

impl FabricTurn {
    fn rest(&mut self, now_ms: u64) -> Rest {
        let quiet_ms = now_ms.saturating_sub(self.active_ms);
        let has_clients = self.port.has_clients();
        let waits = self.port.has_unfinished() || self.port.has_requests();
        if self.port.descriptor().is_some() && !waits && self.port.may_sleep() {
            // Pushes and silent clients are looked after in between.
            return Rest::Milliseconds(if has_clients { MAINTAIN_INTERVAL_MS as u16 } else { WAIT_MS_MAX });
        }
        match quiet_ms {
            _ if self.port.has_requests() => Rest::None,
            ..FABRIC_BUSY_MS => {
                std::thread::yield_now();
                Rest::None
            }
            ..FABRIC_ACTIVE_MS if has_clients => Rest::Nap,
            _ if has_clients => Rest::Milliseconds(FABRIC_NAP_MS),
            _ => Rest::Milliseconds(FABRIC_NAP_MS_MAX),
        }
    }
}

impl<P: Streams> Worker<P> {
    /// Adds a port.
    ///
    /// # Errors
    /// Returns errors of the kernel.
    pub fn with_fabric(mut self, port: Option<FabricPort>) -> io::Result<Self> {
        let Some(port) = port else {
            return Ok(self);
        };
        if let Some(descriptor) = port.descriptor() {
            self.streams.watch(descriptor, FABRIC)?;
        }
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        self.streams.watch(std::os::fd::AsFd::as_fd(&timer), NAP)?;
        let rounds = match self.server.settings.threads <= cores::allowed().len() {
            true => IdleRounds::default(),
            false => IdleRounds { spin: 0, r#yield: 0 },
        };
        self.fabric = Some(FabricTurn { port, idle: Idle::new(rounds), timer, active_ms: 0 });
        Ok(self)
    }

    /// Takes some rounds. Returns how long the worker may sleep.
    #[inline]
    pub(super) fn serve_fabric(&mut self) -> Rest {
        match self.fabric {
            Some(_) => self.take_messages(),
            None => Rest::Milliseconds(WAIT_MS_MAX),
        }
    }

    fn take_messages(&mut self) -> Rest {
        let Some(turn) = &mut self.fabric else {
            return Rest::Milliseconds(WAIT_MS_MAX);
        };
        self.server.shared.watch.set_serving(self.number, -1);
        let executed = || {
            let fabric = self.server.shared.fabric.as_ref();
            fabric.map_or(0, |shared| shared.native.counters[self.number].requests.get())
        };
        let (executed_before, moved_before_bytes) = (executed(), self.engine.moved_total_bytes());
        for _ in 0..ROUNDS_PER_POLL {
            let (now_ms, shared) = (self.clock.now_ms(), &self.server.shared);
            let counters = &shared.counters[self.number];
            let latency = &shared.latency[self.number];
            let began = latency.begin(Transport::Fabric, now_ms, counters);
            begin_second(&mut self.engine, &self.server, now_ms);
            let mut context = Context::new(&mut self.engine, &self.server, seconds(now_ms));
            let count = turn.port.round(&mut context, self.clock);
            if self.is_one_of_several {
                // Rounds without requests to the engine must not keep other workers waiting.
                self.engine.serve();
            }
            if count > 0 {
                latency.record(Transport::Fabric, began, counters);
                turn.idle.busy();
                turn.active_ms = now_ms;
                let moved_bytes = self.engine.moved_total_bytes() - moved_before_bytes;
                let is_over = executed() - executed_before >= DATAGRAMS_PER_POLL as u64;
                if is_over || moved_bytes >= self.engine.cache().turn_moved_bytes() as u64 {
                    break;
                }
                continue;
            }
            match turn.idle.step() {
                Step::Spin => std::hint::spin_loop(),
                Step::Yield => std::thread::yield_now(),
                Step::Block => return turn.rest(now_ms),
            }
        }
        Rest::None
    }

    /// Does the regular work of the port.
    pub(super) fn maintain_fabric(&mut self, now_ms: u64) {
        if let (Some(turn), Some(shared)) = (&mut self.fabric, &self.server.shared.fabric) {
            turn.port.maintain(shared, now_ms);
        }
    }

    /// Lets the upkeep copy back what clients have left in the cache area only. Returns whether more is left,
    /// here or at another worker. `end` is the time after which this one gives up.
    pub(super) fn copies_back(&mut self, end: &mut Option<Instant>) -> bool {
        if !self.server.lacks_values() {
            return false;
        }
        let is_first = end.is_none();
        let end = *end.get_or_insert_with(|| Instant::now() + FABRIC_COPY_BACK_TIMEOUT);
        if Instant::now() > end {
            return false;
        }
        let now_ms = self.clock.now_ms();
        self.engine.maintain(seconds(now_ms));
        if is_first {
            self.server.worker_has_settled();
        }
        true
    }

    /// Sets the timer that ends a nap. Returns the longest wait for events.
    pub(super) fn begin_nap(&mut self, rest: Rest, most_ms: u16) -> u16 {
        match (rest, &self.fabric) {
            (Rest::None, _) => 0,
            (Rest::Milliseconds(at_most_ms), _) => at_most_ms.min(most_ms),
            (Rest::Nap, None) => most_ms,
            (Rest::Nap, Some(turn)) => {
                let nap = Expiration::OneShot(TimeSpec::from_duration(Duration::from_nanos(FABRIC_NAP_NS)));
                match turn.timer.set(nap, TimerSetTimeFlags::empty()) {
                    Ok(()) => most_ms,
                    Err(_) => FABRIC_NAP_MS,
                }
            }
        }
    }

    /// Notes that a nap has ended.
    pub(super) fn end_nap(&mut self) {
        if let Some(turn) = &self.fabric {
            // Nothing is left to be read if the timer was set again.
            let _ = turn.timer.unset();
        }
    }
}
