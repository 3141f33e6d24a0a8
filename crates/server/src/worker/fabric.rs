//! The fabric in a worker's loop: rounds while something happens, then sleep. The endpoint's thread wakes the
//! worker.

use std::io;
use std::time::Instant;

use micanite_control::cores;
use micanite_net::{Idle, IdleRounds, Step, Streams};

use super::upkeep::begin_second;
use super::{FABRIC, Worker};
use crate::limits::{
    DATAGRAMS_PER_POLL, FABRIC_COPY_BACK_TIMEOUT, FABRIC_STANDS_MS, MAINTAIN_INTERVAL_MS, ROUNDS_PER_POLL,
    WAIT_MS_MAX,
};
use crate::native::fabric::FabricPort;
use crate::session::Context;
use crate::shared::clock::seconds;
use crate::telemetry::latency::Transport;
use crate::telemetry::log::error;

/// A worker's port, and its steps to sleep.
#[derive(Debug)]
pub(super) struct FabricTurn {
    port: FabricPort,
    idle: Idle,
}

/// Returns whether there are CPUs enough for workers and the threads of their endpoints to look at full speed
/// for a moment.
pub fn spins(workers: usize) -> bool {
    2 * workers <= cores::allowed().len()
}

impl FabricTurn {
    /// Returns how long the worker may sleep.
    fn rest_ms(&mut self) -> u16 {
        match self.port.falls_asleep() {
            false => 0,
            // Pushes and silent clients are looked after in between.
            true if self.port.has_clients() => MAINTAIN_INTERVAL_MS as u16,
            true => WAIT_MS_MAX,
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
        self.streams.watch(port.descriptor(), FABRIC)?;
        let rounds = match spins(self.server.settings.threads) {
            true => IdleRounds::default(),
            false => IdleRounds { spin: 0, r#yield: 0 },
        };
        self.fabric = Some(FabricTurn { port, idle: Idle::new(rounds) });
        Ok(self)
    }

    /// Takes some rounds. Returns for how many milliseconds the worker may sleep.
    #[inline]
    pub(super) fn serve_fabric(&mut self) -> u16 {
        match self.fabric {
            Some(_) => self.take_messages(),
            None => WAIT_MS_MAX,
        }
    }

    fn take_messages(&mut self) -> u16 {
        let Some(turn) = &mut self.fabric else {
            return WAIT_MS_MAX;
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
                Step::Block => return turn.rest_ms(),
            }
        }
        0
    }

    /// Does the regular work of the port. Gives its endpoint up if a call of the provider stands: the worker
    /// goes on with everything else.
    pub(super) fn maintain_fabric(&mut self, now_ms: u64) {
        let (Some(turn), Some(shared)) = (&mut self.fabric, &self.server.shared.fabric) else {
            return;
        };
        turn.port.maintain(shared, now_ms);
        if turn.port.stands(now_ms)
            && let Some(turn) = self.fabric.take()
        {
            let clients = turn.port.abandon(shared);
            error!(
                worker = self.number,
                clients,
                "the fabric's provider has not returned from a call for {} s: this worker's endpoint is \
                 given up, with its clients; `micanite ctl restart` opens it again",
                FABRIC_STANDS_MS / 1000
            );
        }
    }

    /// Notes that the endpoint's thread has woken this worker.
    pub(super) fn fabric_has_woken(&self) {
        if let Some(turn) = &self.fabric {
            turn.port.clear();
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
}
