//! The native protocol in a worker's loop: bursts of datagrams while they come, then the steps to sleep.

use std::io;

use micanite_net::{Idle, IdleRounds, Step, Streams};

use super::Worker;
use super::upkeep::begin_second;
use crate::limits::{DATAGRAMS_PER_POLL, ROUNDS_PER_POLL};
use crate::native::NativePort;
use crate::session::Context;
use crate::shared::clock::seconds;
use crate::telemetry::costs::RoundKind;
use crate::telemetry::latency::Transport;

/// A worker's port, and its steps to sleep.
#[derive(Debug)]
pub(super) struct NativeTurn {
    port: NativePort,
    idle: Idle,
}

impl NativeTurn {
    /// `alone`: no other worker shares the CPU, so that spinning costs no other worker time.
    pub fn new(port: NativePort, alone: bool) -> Self {
        let rounds = match alone {
            true => IdleRounds::default(),
            false => IdleRounds { spin: 0, r#yield: 0 },
        };
        Self { port, idle: Idle::new(rounds) }
    }
}

impl<P: Streams> Worker<P> {
    /// Takes some rounds. Returns whether the worker must not sleep.
    #[inline]
    pub(super) fn serve_native(&mut self) -> io::Result<bool> {
        let Some(turn) = &mut self.native else {
            return Ok(false);
        };
        self.server.shared.watch.set_serving(self.number, -1);
        let mut datagrams = 0;
        let moved_before_bytes = self.engine.moved_total_bytes();
        for _ in 0..ROUNDS_PER_POLL {
            let (now_ms, shared) = (self.clock.now_ms(), &self.server.shared);
            let counters = &shared.counters[self.number];
            let latency = &shared.latency[self.number];
            let began = latency.begin(Transport::Native, now_ms, counters);
            begin_second(&mut self.engine, &self.server, now_ms);
            let timed = shared.costs.begin(self.number, RoundKind::Native, || now_ms);
            let mut context = Context::new(&mut self.engine, &self.server, seconds(now_ms));
            let count = turn.port.round(&mut context, now_ms)?;
            shared.costs.end(self.number, RoundKind::Native, timed);
            if self.is_one_of_several {
                // Rounds without requests to the engine must not keep other workers waiting.
                self.engine.serve();
            }
            if count > 0 {
                latency.record(Transport::Native, began, counters);
                turn.idle.busy();
                datagrams += count;
                // A round takes a turn of the engine for each of its sockets and rings.
                let moved_bytes = self.engine.moved_total_bytes() - moved_before_bytes;
                let allowed_bytes = self.engine.cache().turn_moved_bytes() as u64;
                if datagrams >= DATAGRAMS_PER_POLL || moved_bytes >= allowed_bytes {
                    break;
                }
                continue;
            }
            match turn.idle.step() {
                Step::Spin => std::hint::spin_loop(),
                Step::Yield => std::thread::yield_now(),
                // Nothing would wake the worker.
                Step::Block if turn.port.has_to_be_polled() => std::thread::yield_now(),
                Step::Block => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Notes that datagrams have come.
    pub(super) fn native_is_busy(&mut self) {
        if let Some(turn) = &mut self.native {
            turn.idle.busy();
        }
    }

    /// Announces that other workers have to wake this one. Returns whether it may sleep.
    pub(super) fn fall_asleep(&mut self) -> bool {
        let mut may_sleep = self.engine.fall_asleep();
        if let (Some(turn), Some(native)) = (&mut self.native, &self.server.shared.native) {
            native.fall_asleep(self.number);
            if turn.port.has_forwarded() {
                turn.idle.busy();
                may_sleep = false;
            }
        }
        may_sleep
    }

    /// Announces that the worker is awake.
    pub(super) fn wake_up(&mut self) {
        self.engine.wake_up();
        if let (Some(turn), Some(native)) = (&mut self.native, &self.server.shared.native) {
            native.wake_up(self.number);
            if turn.port.has_forwarded() {
                turn.idle.busy();
            }
        }
    }
}

#[cfg(test)]
#[path = "native_tests.rs"]
mod tests;
