//! The thread that has an endpoint.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use micanite_fabric::{Completions, Endpoint, Error, Operation, Unposted};
use micanite_memory::shorten_slices;
use micanite_net::{Idle, IdleRounds, Step};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signal::SigSet;
use nix::sys::time::TimeSpec;
use rtrb::{Consumer, Producer};

use super::super::client::{Buffers, LIST_BYTES};
use super::super::token::is_of_lists;
use super::link::Common;
use super::messages::{Action, Command, Event, Lot, Lots, Post};
use crate::limits::{
    FABRIC_ACTIVE_MS, FABRIC_BUSY_MS, FABRIC_HELLO_BYTES, FABRIC_NAP_MS, FABRIC_NAP_MS_MAX, FABRIC_NAP_NS,
    WAIT_MS_MAX,
};

/// Commands between two polls.
const COMMANDS_PER_POLL: usize = 64;

/// An endpoint, and what is waiting for it.
pub(super) struct EndpointThread {
    endpoint: Endpoint,
    commands: Consumer<Command>,
    events: Producer<Event>,
    common: Arc<Common>,
    /// Receives of clients that could not be started yet. Sends wait until there are none: a client sends its
    /// next request as soon as it has the reply.
    receives: VecDeque<Post>,
    /// Other transfers that could not be started yet.
    others: VecDeque<Post>,
    idle: Idle,
    /// Time of the last message.
    active: Instant,
    /// The worker was not woken for the last events.
    is_unsaid: bool,
}

impl EndpointThread {
    /// `spins`: there are CPUs enough for a thread that looks at full speed for a moment.
    pub(super) fn new(
        endpoint: Endpoint,
        commands: Consumer<Command>,
        events: Producer<Event>,
        common: Arc<Common>,
        spins: bool,
    ) -> Self {
        let rounds = match spins {
            true => IdleRounds::default(),
            false => IdleRounds { spin: 0, r#yield: 0 },
        };
        Self {
            endpoint,
            commands,
            events,
            common,
            receives: VecDeque::new(),
            others: VecDeque::new(),
            idle: Idle::new(rounds),
            active: Instant::now(),
            is_unsaid: false,
        }
    }

    /// Serves until the worker ends it, and closes the endpoint.
    pub(super) fn run(mut self) {
        // Signals are for the main thread, which starts to take them later. It cannot fail for a set of
        // signals.
        let _ = SigSet::all().thread_block();
        // A worker waits for it. A kernel may refuse it.
        shorten_slices();
        while !self.is_ending() {
            let is_more = self.take_commands();
            self.start_waiting();
            let messages = self.poll();
            if std::mem::take(&mut self.is_unsaid) {
                self.common.worker.ring();
            }
            if messages > 0 {
                self.idle.busy();
                self.active = Instant::now();
                continue;
            }
            match self.idle.step() {
                _ if is_more => {}
                Step::Spin => std::hint::spin_loop(),
                Step::Yield => std::thread::yield_now(),
                Step::Block => self.rest(),
            }
        }
        // One that was given up stays open: the provider may use what it has closed meanwhile
        // (docs/fabric.md).
        let Self { endpoint, common, .. } = self;
        common.calls.within(|| drop(endpoint));
    }

    /// Returns whether no call of the provider is to begin any more.
    fn is_ending(&self) -> bool {
        self.common.is_ending.load(Ordering::Relaxed)
    }

    fn tell(&mut self, event: Event) {
        self.is_unsaid = true;
        // There is room for an event of each buffer.
        let told = self.events.push(event);
        debug_assert!(told.is_ok());
    }

    /// Takes finished transfers. Returns their number, without those of lists: a thread that looked out for
    /// more of them would use its CPU for reads that need none of it.
    fn poll(&mut self) -> usize {
        let mut completions = Completions::new();
        if self.common.calls.within(|| self.endpoint.poll(&mut completions)).is_err() {
            self.common.polls_failed.fetch_add(1, Ordering::Relaxed);
        }
        let mut messages = 0;
        for completion in completions {
            messages += usize::from(!is_of_lists(completion.token));
            let ip = match (completion.operation, completion.peer) {
                (Operation::Receive, Some(peer)) => self.endpoint.ip_of(peer),
                _ => None,
            };
            self.tell(Event::Ended(completion, ip));
        }
        messages
    }

    /// Carries out some commands. Returns whether there were any.
    fn take_commands(&mut self) -> bool {
        let mut is_any = false;
        for _ in 0..COMMANDS_PER_POLL {
            // It may have been given up within the last call.
            if self.is_ending() {
                break;
            }
            let Ok(command) = self.commands.pop() else {
                break;
            };
            is_any = true;
            let calls = &self.common.calls;
            match command {
                Command::Start(post) => self.take_post(post),
                Command::Cancel(token) => {
                    self.fail_waiting(token, &Error::Cancelled);
                    self.common.calls.within(|| self.endpoint.cancel(token));
                }
                Command::GiveUp(token) => {
                    self.fail_waiting(token, &Error::PeerGone);
                    for _ in 0..self.endpoint.give_up(token) {
                        self.tell(Event::GivenUp(token));
                    }
                }
                Command::Forget(peer) => self.endpoint.forget(peer),
                Command::Register(lot) => {
                    let registered = calls.within(|| self.register(lot));
                    self.tell(Event::Registered(lot, registered));
                }
                Command::Free(buffer) => calls.within(|| drop(buffer)),
            }
        }
        is_any
    }

    fn register(&self, lot: Lot) -> Result<Lots, Error> {
        let buffer = |bytes| self.endpoint.buffer(bytes);
        Ok(match lot {
            Lot::Hello => Lots::Hello(buffer(FABRIC_HELLO_BYTES)?),
            Lot::Client { message_bytes } => Lots::Client(Buffers {
                request: buffer(message_bytes)?,
                reply: buffer(message_bytes)?,
                push: buffer(LIST_BYTES)?,
                history: buffer(LIST_BYTES)?,
            }),
        })
    }

    /// Starts a transfer, at once or later.
    fn take_post(&mut self, post: Post) {
        let is_next = self.receives.is_empty() || matches!(post.action, Action::Receive);
        let Some(post) = (if is_next { self.start(post) } else { Some(post) }) else {
            return;
        };
        match post.action {
            Action::ReceiveTagged { .. } => self.receives.push_back(post),
            _ => self.others.push_back(post),
        }
    }

    /// Tries again to start what could not be started.
    fn start_waiting(&mut self) {
        while let Some(post) = self.receives.pop_front() {
            if let Some(post) = self.start(post) {
                return self.receives.push_front(post);
            }
        }
        for _ in 0..self.others.len() {
            if let Some(post) = self.others.pop_front().and_then(|post| self.start(post)) {
                self.others.push_back(post);
            }
        }
    }

    /// Starts a transfer. Returns it if it has to be tried again.
    fn start(&mut self, post: Post) -> Option<Post> {
        let Post { action, buffer, token } = post;
        let endpoint = &mut self.endpoint;
        let started = self.common.calls.within(|| match action {
            Action::Receive => endpoint.receive(buffer, token),
            Action::ReceiveTagged { tag } => endpoint.receive_tagged(buffer, tag, token),
            Action::Send { peer, bytes } => endpoint.send(peer, buffer, bytes, token),
            Action::SendTagged { peer, bytes, tag } => endpoint.send_tagged(peer, buffer, bytes, tag, token),
        });
        let Err(Unposted { buffer, error }) = started else {
            return None;
        };
        let post = Post { action, buffer, token };
        if matches!(error, Error::Busy | Error::Full) || matches!(action, Action::Receive) {
            return Some(post);
        }
        self.tell(Event::Ended(post.failed(error), None));
        None
    }

    /// Ends transfers of a token that were not started.
    fn fail_waiting(&mut self, token: u64, error: &Error) {
        let mut ended: Vec<VecDeque<Post>> = Vec::new();
        for waiting in [&mut self.receives, &mut self.others] {
            let (these, others) = std::mem::take(waiting).into_iter().partition(|post| post.token == token);
            ended.push(these);
            *waiting = others;
        }
        for post in ended.into_iter().flatten() {
            self.tell(Event::Ended(post.failed(error.clone()), None));
        }
    }

    /// Sleeps until the provider or the worker has something to do. Naps if the provider wakes nobody.
    fn rest(&mut self) {
        let may_sleep = self.receives.is_empty()
            && self.others.is_empty()
            && self.endpoint.descriptor().is_some()
            && self.common.calls.within(|| self.endpoint.may_sleep());
        let has_clients = self.common.has_clients.load(Ordering::Relaxed);
        let most = match self.active.elapsed().as_millis() as u64 {
            _ if may_sleep => Duration::from_millis(WAIT_MS_MAX.into()),
            ..FABRIC_BUSY_MS => return std::thread::yield_now(),
            ..FABRIC_ACTIVE_MS if has_clients => Duration::from_nanos(FABRIC_NAP_NS),
            _ if has_clients => Duration::from_millis(FABRIC_NAP_MS.into()),
            _ => Duration::from_millis(FABRIC_NAP_MS_MAX.into()),
        };
        let bell = &self.common.thread;
        bell.fall_asleep();
        if self.commands.is_empty() && !self.is_ending() {
            let descriptor = self.endpoint.descriptor().filter(|_| may_sleep);
            if sleep(bell.as_fd(), descriptor, most) {
                bell.clear();
            }
        }
        bell.wake_up();
    }
}

/// Sleeps until a descriptor is readable. Returns whether the first one is.
fn sleep(bell: BorrowedFd<'_>, descriptor: Option<BorrowedFd<'_>>, most: Duration) -> bool {
    let first = PollFd::new(bell, PollFlags::POLLIN);
    let second = PollFd::new(descriptor.unwrap_or(bell), PollFlags::POLLIN);
    let mut both = [first, second];
    let count = 1 + usize::from(descriptor.is_some());
    // It fails if a signal comes, which ends the sleep as well.
    let woken = ppoll(&mut both[..count], Some(TimeSpec::from_duration(most)), None);
    woken.is_ok_and(|count| count > 0) && both[0].any() == Some(true)
}
