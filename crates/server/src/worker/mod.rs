//! A worker: one thread, its connections, and its share of the cache, run to completion.
//!
//! ```text
//!  wait (epoll or io_uring) -> read the clock -> turns that the last round had no time for
//!               -> a turn for each connection with an event
//!               -> turns for connections with more to do, and for those whose value buffer is free now
//!               -> new connections -> upkeep, every 10 ms
//! ```

mod fabric;
mod native;
mod post;
mod queues;
mod rounds;
mod slots;
mod status;
mod tls;
mod udp;
mod upkeep;

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use micanite_control::cores;
use micanite_net::{Interest, Streams};

use crate::connection::{Buffers, Next, Turn};
use crate::limits::{LINGER_ROUNDS, MAINTAIN_INTERVAL_MS, WAIT_MS_MAX};
use crate::native::NativePort;
use crate::session::Context;
use crate::shared::clock::{Clock, seconds};
use crate::shared::{Ending, Server};
use crate::telemetry::costs::RoundKind;
use crate::telemetry::latency::{Began, Transport};
use crate::telemetry::stats::ConnectionState;
use crate::telemetry::table::Counters;
use crate::udp::UdpPort;
use fabric::FabricTurn;
pub use fabric::spins;
use native::NativeTurn;
pub use post::{Incoming, Post};
use queues::{Kind, Queues};
use slots::{Slots, Token};
use upkeep::begin_second;

/// The transport of a connection.
type Bytes<P> = micanite_net::Transport<<P as Streams>::Stream>;

/// Token of the waker. No connection has it.
const WAKER: u64 = u64::MAX;
/// Token of the native sockets.
const NATIVE: u64 = u64::MAX - 1;
/// Token of memcached's UDP sockets.
const UDP: u64 = u64::MAX - 2;
/// Token of what wakes this worker for its fabric.
const FABRIC: u64 = u64::MAX - 3;

/// A worker.
#[derive(Debug)]
pub struct Worker<P: Streams> {
    number: usize,
    server: Arc<Server>,
    engine: micanite_engine::Worker,
    clock: Clock,
    /// The worker's waker announces posts, and the end.
    posts: Receiver<Post>,
    /// There may be posts that were not taken.
    has_posts: bool,
    streams: P,
    slots: Slots<Bytes<P>>,
    /// Connections whose turn comes without an event.
    queues: Queues,
    buffers: Buffers,
    maintained_ms: u64,
    /// Place of the connection that the search for idle ones visits next.
    idle_place: usize,
    /// Begin of the round, if it is timed.
    round_began: Option<Began>,
    /// Rounds until this worker may sleep: after a request of another worker, more follow soon.
    lingering: u32,
    /// Bytes that the engine had moved before the round.
    moved_before_bytes: u64,
    /// The last round was spent before all queued connections had their turn. They come first in this one.
    is_behind: bool,
    /// Time of the last search for late handshakes.
    handshakes_checked_ms: u64,
    /// Time of the last search for late logins.
    logins_checked_ms: u64,
    /// Connections that wait for their peers to end, too.
    half_closed: usize,
    /// Time of the last search for those that have waited for long.
    half_closed_checked_ms: u64,
    /// There are other workers.
    is_one_of_several: bool,
    /// The port of the native protocol, if there is one.
    native: Option<NativeTurn>,
    /// The port of memcached's UDP frames, if there is one.
    udp: Option<UdpPort>,
    /// The port of clients over libfabric, if there is one.
    fabric: Option<FabricTurn>,
}

impl<P: Streams> Worker<P> {
    /// Bytes that a worker keeps for each connection, besides its blocks.
    pub const PLACE_BYTES: usize =
        Slots::<Bytes<P>>::PLACE_BYTES + Queues::PLACE_BYTES + 3 * size_of::<u32>();

    /// Makes the worker of a number, for at most `connections_max` connections.
    ///
    /// # Errors
    /// Returns errors of the kernel.
    ///
    /// # Panics
    /// Panics if there is already a worker of this number.
    pub fn new(
        (number, server): (usize, Arc<Server>),
        clock: Clock,
        posts: Receiver<Post>,
        connections_max: usize,
        native: Option<NativePort>,
        mut streams: P,
    ) -> io::Result<Self> {
        streams.watch(server.shared.wakers[number].as_fd(), WAKER)?;
        for descriptor in native.iter().flat_map(NativePort::descriptors) {
            streams.watch(descriptor, NATIVE)?;
        }
        let engine = server.shared.cache.worker(number);
        let alone = server.settings.threads <= cores::allowed().len();
        Ok(Self {
            number,
            engine: engine.expect("each worker is made once"),
            clock,
            posts,
            has_posts: false,
            streams,
            slots: Slots::new(connections_max),
            queues: Queues::new(connections_max),
            buffers: Buffers::new(connections_max, server.settings.value_buffer_bytes),
            maintained_ms: 0,
            idle_place: 0,
            round_began: None,
            lingering: 0,
            moved_before_bytes: 0,
            is_behind: false,
            handshakes_checked_ms: 0,
            logins_checked_ms: 0,
            half_closed: 0,
            half_closed_checked_ms: 0,
            is_one_of_several: server.settings.threads > 1,
            native: native.map(|port| NativeTurn::new(port, alone)),
            udp: None,
            fabric: None,
            server,
        })
    }

    /// Serves until the server ends.
    ///
    /// # Errors
    /// Returns an error if waiting fails: nothing can be served any more.
    pub fn run(mut self) -> io::Result<()> {
        let result = self.serve();
        if result.is_err() {
            self.server.end(Ending::AtOnce);
        }
        self.server.worker_is_done();
        self.attend();
        result
    }

    /// Executes requests that other workers delegate to this one, as the owner of partitions, until they
    /// have ended. Serves datagrams and the fabric as well, because their clients do not learn of the end.
    fn attend(&mut self) {
        let mut end = None;
        loop {
            let copies = self.copies_back(&mut end);
            if !copies && !self.server.are_working() {
                return;
            }
            let more = self.serve_native().unwrap_or(false);
            let rest_ms = self.serve_fabric();
            if self.wait(more || copies, rest_ms).is_err() {
                self.engine.serve();
                std::thread::yield_now();
            }
            self.fabric_has_woken();
            self.server.shared.wakers[self.number].take();
        }
    }

    /// Waits for events, as long as the fabric allows. Other workers know meanwhile that they have to wake
    /// this one.
    #[inline]
    fn wait(&mut self, busy: bool, rest_ms: u16) -> io::Result<usize> {
        let busy = busy || rest_ms == 0;
        if self.is_one_of_several && (busy || self.lingering > 0) {
            // Turns without requests to the engine must not keep other workers waiting.
            self.engine.serve();
        }
        if busy {
            return self.streams.wait(0);
        }
        if !self.is_one_of_several {
            return self.streams.wait(rest_ms.min(self.wait_ms_max()));
        }
        if self.lingering > 0 {
            self.lingering -= 1;
            return self.streams.wait(0);
        }
        let wait_ms = match self.fall_asleep() {
            true => rest_ms.min(self.wait_ms_max()),
            false => 0,
        };
        let count = self.streams.wait(wait_ms);
        self.wake_up();
        count
    }

    /// Returns the longest wait. While the program in the kernel answers GETs, or others on this host read,
    /// the owner of a partition regularly collects their notes. A new limit of the memory is for upkeep, and
    /// at an end connections may stall.
    fn wait_ms_max(&self) -> u16 {
        let shared = &self.server.shared;
        match &self.server.kernel_get {
            _ if shared.cache.is_following_limit() || shared.ending() != Ending::Not => {
                MAINTAIN_INTERVAL_MS as u16
            }
            Some(state) if state.is_busy() => MAINTAIN_INTERVAL_MS as u16,
            _ => match &self.server.shared.local {
                Some(local) if local.is_busy() => MAINTAIN_INTERVAL_MS as u16,
                _ => WAIT_MS_MAX,
            },
        }
    }

    fn serve(&mut self) -> io::Result<()> {
        loop {
            let now_ms = self.round()?;
            match self.server.shared.ending() {
                Ending::Not => {}
                Ending::Gracefully if !self.close_for_end(now_ms) => {}
                Ending::Gracefully | Ending::AtOnce => return Ok(()),
            }
        }
    }

    /// Gives a turn to every connection with something to do. Returns the time.
    fn round(&mut self) -> io::Result<u64> {
        let more = self.serve_native()?;
        let costs = &self.server.shared.costs;
        let timed = costs.begin(self.number, RoundKind::Other, || self.clock.now_ms());
        let queued = self.has_queued();
        let rest_ms = self.serve_fabric();
        let busy = self.serve_udp()? || queued || self.has_posts || more;
        let count = self.wait(busy, rest_ms)?;
        let now_ms = self.clock.now_ms();
        begin_second(&mut self.engine, &self.server, now_ms);
        let latency = &self.server.shared.latency[self.number];
        self.round_began = latency.begin(Transport::Stream, now_ms, self.counters());
        let begun = self.begin_round(now_ms);
        for number in 0..count {
            let event = self.streams.event(number);
            if event.token == NATIVE {
                self.native_is_busy();
            } else if event.token == UDP {
                self.udp_is_busy();
            } else if event.token == FABRIC {
                // The next round looks.
                self.fabric_has_woken();
            } else if event.token == WAKER {
                self.server.shared.wakers[self.number].take();
                self.has_posts = true;
                self.lingering = LINGER_ROUNDS;
            } else {
                self.on_event(Token::from_u64(event.token), event.broken, now_ms);
            }
        }
        self.go_on(begun, now_ms);
        self.server.shared.costs.end(self.number, RoundKind::Other, timed);
        if self.has_posts {
            self.take_posts(now_ms);
        }
        if now_ms.saturating_sub(self.maintained_ms) >= MAINTAIN_INTERVAL_MS {
            self.maintain(now_ms);
        }
        Ok(now_ms)
    }

    #[inline]
    fn turn(&mut self, token: Token, readable: bool, now_ms: u64) {
        self.note_turn(token, now_ms);
        let Some(slot) = self.slots.get_mut(token) else {
            return;
        };
        let shaking = slot.is_shaking();
        let shared = &self.server.shared;
        let counters = &shared.counters[self.number];
        let mut context = Context::new(&mut self.engine, &self.server, seconds(now_ms));
        let turn =
            Turn::new(&mut self.buffers, &mut context, now_ms, shared.turn_requests_max, readable || shaking);
        let next = slot.connection.turn(turn);
        slot.note_turn(self.engine.moved_bytes());
        shared.latency[self.number].record(Transport::Stream, self.round_began, counters);
        if shaking {
            tls::count_session(slot.connection.stream(), counters);
        }
        let interest = match next {
            Next::Read => Interest::Read,
            Next::Write => Interest::Write,
            Next::Again => {
                self.queues.push(token, slot);
                Interest::Read
            }
            Next::Wait { bytes } => {
                counters.value_buffer_waits.add(1);
                slot.wait_bytes = bytes;
                self.queues.push_waiting(token);
                if self.queues.count(Kind::Waiting) == 1 {
                    self.buffers.values.reserve(bytes);
                }
                Interest::Nothing
            }
            Next::Close => return self.close(token),
        };
        let state = status::state(interest, &slot.connection);
        let is_new_state = state != slot.state;
        slot.state = state;
        self.half_closed += usize::from(is_new_state && state == ConnectionState::Closing);
        if interest != slot.interest {
            slot.interest = interest;
            let stream = slot.connection.stream().inner();
            let changed = self.streams.change(stream, token.to_u64(), interest);
            if changed.is_err() {
                return self.close(token);
            }
        }
        if is_new_state {
            self.note_state(token, state);
        }
    }

    #[cold]
    fn close(&mut self, token: Token) {
        if let Some(slot) = self.slots.remove(token) {
            if slot.interest == Interest::Nothing {
                self.queues.remove_waiting(token);
                self.reserve_for_waiting();
            }
            self.half_closed -= usize::from(slot.state == ConnectionState::Closing);
            tls::count_failure(&slot.connection, self.counters());
            if let Some(peer) = self.note_departure(token, "normal") {
                tls::log_failure(&slot.connection, token, peer);
            }
            slot.connection.release(&mut self.buffers);
            self.counters().connections_closed.add(1);
        }
    }

    fn counters(&self) -> &Counters {
        &self.server.shared.counters[self.number]
    }
}

#[cfg(test)]
mod fairness_tests;
#[cfg(test)]
mod rounds_tests;
