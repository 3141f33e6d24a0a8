//! A worker: one thread, its connections, and its share of the cache, run to completion.
//!
//! ```text
//!  wait (epoll or io_uring) -> read the clock -> turns for those that the last round had none for
//!               -> a turn for each connection with an event
//!               -> turns for those that had more to do, and for those whose buffer came back
//!               -> new connections -> housekeeping, every 10 ms
//! ```

mod idle;
mod login;
mod native;
mod post;
mod present;
mod queues;
mod rounds;
mod slots;
mod tls;
mod udp;

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use micanite_control::cores;
use micanite_control::log;
use micanite_net::{Interest, Streams};
use nix::time::{ClockId, clock_gettime};

use crate::connection::{Buffers, Connection, Next, Turn};
use crate::limits::{LINGER_ROUNDS, MAINTAIN_INTERVAL_MS, POSTS_PER_ROUND, WAIT_MS_MAX};
use crate::native::NativePort;
use crate::session::{Context, Session};
use crate::shared::clock::{Clock, seconds};
use crate::shared::{Ending, Server};
use crate::telemetry::latency::{Began, Transport};
use crate::telemetry::stats::{ConnectionState, Counters};
use crate::udp::UdpPort;
use native::NativeTurn;
pub use post::{Incoming, Post};
use present::Arrival;
use queues::{Kind, Queues};
use slots::{Slot, Slots, Token};

/// What the bytes of a connection go through.
type Bytes<P> = micanite_net::Transport<<P as Streams>::Stream>;

/// The waker's token; no connection has it.
const WAKER: u64 = u64::MAX;
/// The token of the native sockets.
const NATIVE: u64 = u64::MAX - 1;
/// The token of memcached's UDP sockets.
const UDP: u64 = u64::MAX - 2;

/// See the module.
#[derive(Debug)]
pub struct Worker<P: Streams> {
    number: usize,
    server: Arc<Server>,
    engine: micanite_engine::Worker,
    clock: Clock,
    /// The worker's waker tells of them, and of the end.
    posts: Receiver<Post>,
    /// There may be more posts than were taken.
    has_posts: bool,
    streams: P,
    slots: Slots<Bytes<P>>,
    /// Connections whose turn comes without an event.
    queues: Queues,
    buffers: Buffers,
    maintained_ms: u64,
    /// The place from which connections are looked at next, for idle ones.
    idle_place: usize,
    /// When the worker stopped waiting, if the round is timed.
    round_began: Option<Began>,
    /// Rounds until this worker may sleep: whoever has asked it for something soon asks again.
    lingering: u32,
    /// Bytes that the engine had moved when the round began.
    moved_before_bytes: u64,
    /// The last round was spent before some queued connections had their turn: they come first in this one.
    is_behind: bool,
    /// When late handshakes were looked for.
    handshakes_checked_ms: u64,
    /// When late logins were looked for.
    logins_checked_ms: u64,
    /// Whether there are other workers.
    has_colleagues: bool,
    /// The native protocol, if it is spoken.
    native: Option<NativeTurn>,
    /// memcached's protocols over UDP, if they are spoken.
    udp: Option<UdpPort>,
}

impl<P: Streams> Worker<P> {
    /// Bytes that a worker keeps for each connection beside its blocks.
    pub const PLACE_BYTES: usize =
        Slots::<Bytes<P>>::PLACE_BYTES + Queues::PLACE_BYTES + 3 * size_of::<u32>();

    /// The worker of a number, for at most so many connections.
    ///
    /// # Errors
    /// What the kernel says.
    ///
    /// # Panics
    /// When there is a worker of this number already.
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
            has_colleagues: server.settings.threads > 1,
            native: native.map(|port| NativeTurn::new(port, alone)),
            udp: None,
            server,
        })
    }

    /// Serves until the server ends.
    ///
    /// # Errors
    /// Waiting fails: nothing can be served any more.
    pub fn run(mut self) -> io::Result<()> {
        let result = self.serve();
        if result.is_err() {
            self.server.end(Ending::AtOnce);
        }
        self.server.worker_is_done();
        self.attend();
        result
    }

    /// Executes what other workers ask of this one, as the owner of partitions, until they have
    /// nothing to ask any more; datagrams as well, for clients are told nothing of an end.
    fn attend(&mut self) {
        while self.server.are_working() {
            let more = self.serve_native().unwrap_or(false);
            if self.wait(more).is_err() {
                self.engine.serve();
                std::thread::yield_now();
            }
            self.server.shared.wakers[self.number].take();
        }
    }

    /// Waits for events; other workers know that they have to wake this one meanwhile.
    #[inline]
    fn wait(&mut self, busy: bool) -> io::Result<usize> {
        if self.has_colleagues && (busy || self.lingering > 0) {
            // Connections that ask the engine for nothing must not keep them waiting.
            self.engine.serve();
        }
        if busy || !self.has_colleagues {
            return self.streams.wait(if busy { 0 } else { self.wait_ms_max() });
        }
        if self.lingering > 0 {
            self.lingering -= 1;
            return self.streams.wait(0);
        }
        let asleep = self.fall_asleep();
        let count = self.streams.wait(if asleep { self.wait_ms_max() } else { 0 });
        self.wake_up();
        count
    }

    /// The owner of a partition comes by for what a program in the kernel has noted.
    fn wait_ms_max(&self) -> u16 {
        match &self.server.kernel_get {
            Some(state) if state.is_busy() => MAINTAIN_INTERVAL_MS as u16,
            _ => WAIT_MS_MAX,
        }
    }

    fn serve(&mut self) -> io::Result<()> {
        loop {
            let now_ms = self.round()?;
            match self.server.shared.ending() {
                Ending::Not => {}
                Ending::Gracefully if !self.close_idle(now_ms) => {}
                Ending::Gracefully | Ending::AtOnce => return Ok(()),
            }
        }
    }

    /// Serves whatever has something to do, but nobody for long. Returns the time.
    fn round(&mut self) -> io::Result<u64> {
        let more = self.serve_native()?;
        let queued = self.has_queued();
        let busy = self.serve_udp()? || queued || self.has_posts || more;
        let count = self.wait(busy)?;
        let now_ms = self.clock.now_ms();
        let latency = &self.server.shared.latency[self.number];
        self.round_began = latency.begin(Transport::Stream, now_ms, self.counters());
        let begun = self.begin_round(now_ms);
        for number in 0..count {
            let event = self.streams.event(number);
            if event.token == NATIVE {
                self.native_is_busy();
            } else if event.token == UDP {
                self.udp_is_busy();
            } else if event.token == WAKER {
                self.server.shared.wakers[self.number].take();
                self.has_posts = true;
                self.lingering = LINGER_ROUNDS;
            } else {
                self.on_event(Token::from_u64(event.token), event.broken, now_ms);
            }
        }
        self.go_on(begun, now_ms);
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
        let state = present::state(interest, &slot.connection);
        let is_new_state = state != slot.state;
        slot.state = state;
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

    /// Takes some of what was posted; the rest waits for the next round.
    fn take_posts(&mut self, now_ms: u64) {
        self.has_posts = true;
        for _ in 0..POSTS_PER_ROUND {
            let Ok(post) = self.posts.try_recv() else {
                self.has_posts = false;
                return;
            };
            match post {
                Post::Connection(incoming) => self.welcome(incoming, now_ms),
                Post::Invalidate { name, answer } => {
                    let result = self.engine.invalidate_namespace(&name, seconds(now_ms));
                    // Whoever has asked may have lost patience.
                    let _ = answer.send(result);
                }
            }
        }
    }

    /// Takes a new connection in. Its first request is often there already, or it has left again.
    fn welcome(&mut self, incoming: Incoming, now_ms: u64) {
        let interest = Interest::Read;
        self.counters().connections_opened.add(1);
        let session = match &self.server.auth {
            None => Session::default(),
            Some(_) => Session::guarded(incoming.stream.peer_ip()),
        };
        let arrival = Arrival::of(&incoming.stream);
        let stream = self.streams.adopt(incoming.stream);
        let Ok(stream) = stream.and_then(|stream| tls::transport(stream, incoming.tls)) else {
            self.counters().connections_closed.add(1);
            return;
        };
        let token = self.slots.insert(Slot {
            connection: Connection::with(stream, session),
            interest,
            state: ConnectionState::Read,
            queued: false,
            mean_turn_bytes: 0,
            readable: false,
            wait_bytes: 0,
            opened_ms: now_ms,
        });
        self.note_arrival(token, &arrival, now_ms);
        if self.server.verbosity() > 0 {
            log!("worker {}: connection {token} opened", self.number);
        }
        let Some(slot) = self.slots.get_mut(token) else {
            return;
        };
        let stream = slot.connection.stream().inner();
        match self.streams.add(stream, token.to_u64(), interest) {
            Ok(()) => self.turn_or_queue(token, true, now_ms),
            Err(_) => self.close(token),
        }
    }

    #[cold]
    fn close(&mut self, token: Token) {
        if let Some(slot) = self.slots.remove(token) {
            if slot.interest == Interest::Nothing {
                self.queues.remove_waiting(token);
                self.reserve_for_waiting();
            }
            tls::count_failure(slot.connection.stream(), self.counters());
            self.note_departure(token, "normal");
            slot.connection.release(&mut self.buffers);
            self.counters().connections_closed.add(1);
            if self.server.verbosity() > 0 {
                log!("worker {}: connection {token} closed", self.number);
            }
        }
    }

    fn maintain(&mut self, now_ms: u64) {
        let began = Instant::now();
        let since_ms = now_ms - self.maintained_ms;
        self.maintained_ms = now_ms;
        self.engine.maintain(seconds(now_ms));
        self.close_stalled(now_ms);
        self.close_late_handshakes(now_ms);
        self.close_late_logins(now_ms);
        self.close_idle_for_long(now_ms, since_ms);
        self.serve_watchers(now_ms);
        self.counters().housekeeping_ns.add(began.elapsed().as_nanos() as u64);
        self.counters().maintained_ms.set(now_ms);
        self.server.shared.hot[self.number].calm(seconds(now_ms));
        let spent_ns = cpu_time_ns();
        self.counters().cpu_ns.add(spent_ns - self.counters().cpu_ns.get());
    }

    fn counters(&self) -> &Counters {
        &self.server.shared.counters[self.number]
    }

    fn close_stalled(&mut self, now_ms: u64) {
        if self.queues.count(Kind::Waiting) > 0 {
            self.close_where(
                // Who is queued waits for the server.
                |slot| !slot.queued && slot.connection.has_stalled(now_ms),
                |worker| {
                    worker.counters().value_buffer_stalls.add(1);
                },
            );
        }
    }

    /// Closes what has nothing half done; returns whether nothing is left.
    fn close_idle(&mut self, now_ms: u64) -> bool {
        self.take_posts(now_ms);
        // Who is queued has something to say.
        self.close_where(|slot| !slot.queued && slot.connection.is_idle(), |_| {});
        self.slots.is_empty() && !self.has_posts
    }

    fn close_where(&mut self, condition: impl Fn(&Slot<Bytes<P>>) -> bool, closed: impl Fn(&Self)) {
        let mut from = 0;
        while let Some((token, slot, next)) = self.slots.next_from(from) {
            from = next;
            if condition(slot) {
                self.close(token);
                closed(self);
            }
        }
    }
}

#[cfg(test)]
mod fairness_tests;
#[cfg(test)]
mod rounds_tests;

/// CPU time of this thread.
fn cpu_time_ns() -> u64 {
    // It cannot fail for the own thread.
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}
