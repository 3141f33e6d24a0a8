//! Connections by the client library.

mod fabric;
mod local;

use std::collections::VecDeque;
use std::io;

use micanite_client::{Completion, Opcode, Operation, Outcome, SubmitError};
use micanite_workload::KEY_BYTES_MAX;
use nix::sys::epoll::Epoll;

use crate::run::clock::Clock;
use crate::run::recorder::{Kind, Recorder};
use crate::target::in_flight::Pending;
use crate::target::reply::Checks;
use crate::target::slots::Window;
use crate::target::{Connection, Stamp};
pub(crate) use fabric::open_fabric;
pub(crate) use local::open_local;

/// The clock is read again after so many completions.
const COMPLETIONS_PER_LOOK: u32 = 32;

/// A request and the outcomes of its operations.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    pending: Pending,
    /// Version of the value that is written.
    version: u32,
    /// Operations that ended without a reply.
    lost: u32,
}

/// A client of the client library: over datagrams, or over a fabric.
pub(crate) trait ClientLink {
    /// True if descriptors tell when replies have come; otherwise they are polled for.
    const HAS_DESCRIPTORS: bool;
    /// Reason why an item is too long.
    const TOO_LONG: &'static str;

    /// Returns the time for the other calls.
    fn now_ns(&self) -> u64;

    /// Keeps what is submitted until [`Self::flush`].
    fn cork(&mut self);

    fn flush(&mut self);

    /// Accepts an operation.
    ///
    /// # Errors
    /// It was not accepted; there will be no completion.
    fn submit(&mut self, now_ns: u64, operation: &Operation<'_>, token: u64) -> Result<(), SubmitError>;

    /// Sends what may leave, and takes what has come; returns how much.
    ///
    /// # Errors
    /// When the client is of no use any more.
    fn poll(&mut self, now_ns: u64, sink: impl FnMut(Completion<'_>)) -> io::Result<usize>;

    /// Adds to the recorder what has been counted since the last call, at this time of the run.
    fn pass_counters_on(&mut self, now_ns: u64, recorder: &mut Recorder);

    /// Adds its descriptors to `epoll`.
    ///
    /// # Errors
    /// When the kernel refuses one.
    fn watch(&self, epoll: &Epoll, token: u64) -> io::Result<()>;
}

/// A connection by the client library. The operations of a request are told apart by their tokens: slot and
/// place in it.
pub(crate) struct ClientConnection<L> {
    link: L,
    slots: Slots,
    checks: Checks,
    /// True if the operations of a request are sent together.
    together: bool,
    /// Offset from the run's clock to the link's.
    ahead_ns: Option<u64>,
    /// Tokens of operations that the link did not take, and why.
    not_taken: Vec<(u64, SubmitError)>,
    /// Tokens of operations that the link had no room for, in their order.
    waiting: VecDeque<u64>,
    value: Vec<u8>,
}

/// The requests in flight. A token is the place of an operation's item in the window.
struct Slots(Window<Slot>);

impl Slots {
    fn take(&mut self, kind: Kind, items: &[u64], version: u32, stamp: Stamp) -> u64 {
        let number = self.0.take(items);
        *self.0.slot(number).0 = Slot { pending: Pending::new(kind, items, stamp), version, lost: 0 };
        self.0.place(number) as u64
    }

    /// Kind, item and version of an operation.
    fn operation(&mut self, token: u64) -> (Kind, u64, u32) {
        let place = token as usize;
        let number = self.0.at(place);
        let first = self.0.place(number);
        let (slot, items) = self.0.slot(number);
        (slot.pending.answer.kind, items[place - first], slot.version)
    }

    /// Takes an operation's outcome; returns whether its request has ended.
    #[inline]
    fn settle(
        &mut self,
        token: u64,
        now_ns: u64,
        recorder: &mut Recorder,
        outcome: impl FnOnce(u64, &mut Slot, &mut Recorder),
    ) -> bool {
        let place = token as usize;
        let number = self.0.at(place);
        let first = self.0.place(number);
        let (slot, items) = self.0.slot(number);
        let item = items[place - first];
        outcome(item, slot, recorder);
        recorder.held_updates.read_ended(&[item]);
        slot.pending.settled += 1;
        let pending = &slot.pending;
        if pending.settled < pending.answer.operations {
            return false;
        }
        if slot.lost == 0 {
            recorder.note_answer(&[item], &pending.answer);
            recorder.answered(pending.scheduled_ns, now_ns, &pending.answer);
        } else {
            recorder.lost(pending.answer.kind, pending.scheduled_ns, now_ns);
        }
        self.0.release(number);
        true
    }
}

impl<L: ClientLink> ClientConnection<L> {
    /// Takes an open link over.
    pub fn new(link: L, checks: Checks, (pipeline, multiget): (usize, usize)) -> Self {
        Self {
            link,
            slots: Slots(Window::new(pipeline, multiget)),
            checks,
            together: multiget > 1,
            ahead_ns: None,
            not_taken: Vec::new(),
            waiting: VecDeque::new(),
            value: Vec::new(),
        }
    }

    /// The link's time at a time of the run.
    #[inline]
    fn link_ns(&mut self, now_ns: u64) -> u64 {
        let link = &self.link;
        let ahead_ns = *self.ahead_ns.get_or_insert_with(|| link.now_ns().saturating_sub(now_ns));
        now_ns + ahead_ns
    }

    /// Submits an operation; what does not fit waits behind others.
    #[inline]
    fn submit(&mut self, now_ns: u64, token: u64) {
        if !self.waiting.is_empty() {
            return self.waiting.push_back(token);
        }
        match self.try_submit(now_ns, token) {
            Ok(()) => {}
            Err(SubmitError::Full) => self.waiting.push_back(token),
            Err(error) => self.not_taken.push((token, error)),
        }
    }

    #[inline]
    fn try_submit(&mut self, now_ns: u64, token: u64) -> Result<(), SubmitError> {
        let (kind, item, version) = self.slots.operation(token);
        let mut key = [0; KEY_BYTES_MAX];
        let key = self.checks.items.write_key(item, &mut key);
        match kind {
            Kind::Read => self.link.submit(now_ns, &Operation::get(key), token),
            Kind::Delete => self.link.submit(now_ns, &Operation::delete(key), token),
            Kind::Write => {
                self.value.clear();
                self.checks.items.values(item).push(item, version, &mut self.value);
                let operation = Operation::set(key, &self.value).with_expiry(self.checks.expiry_s);
                self.link.submit(now_ns, &operation, token)
            }
        }
    }

    /// Submits what waited for room, in its order.
    fn submit_waiting(&mut self, now_ns: u64) {
        while let Some(token) = self.waiting.pop_front() {
            match self.try_submit(now_ns, token) {
                Ok(()) => {}
                Err(SubmitError::Full) => return self.waiting.push_front(token),
                Err(error) => self.not_taken.push((token, error)),
            }
        }
    }

    /// Ends the operations that were not taken.
    fn end_not_taken(&mut self, now_ns: u64, recorder: &mut Recorder) -> usize {
        let mut ended = 0;
        while let Some((token, error)) = self.not_taken.pop() {
            let not_taken = |item, slot: &mut Slot, recorder: &mut Recorder| match error {
                SubmitError::TooLong => {
                    slot.pending.answer.refused = true;
                    recorder.note_refusal(L::TOO_LONG.as_bytes());
                }
                SubmitError::Full
                | SubmitError::ServerDown { .. }
                | SubmitError::BadKey
                | SubmitError::ExpiryTooFar => lose(item, slot, recorder),
            };
            ended += usize::from(self.slots.settle(token, now_ns, recorder, not_taken));
        }
        ended
    }
}

/// An operation has ended without a reply.
fn lose(item: u64, slot: &mut Slot, recorder: &mut Recorder) {
    slot.lost += 1;
    if let (Some(items), false) = (&mut recorder.resend, slot.pending.answer.kind == Kind::Read) {
        items.push(item);
    }
}

#[inline]
fn end(checks: &Checks, completion: &Completion<'_>, item: u64, slot: &mut Slot, recorder: &mut Recorder) {
    let answer = &mut slot.pending.answer;
    match completion.outcome {
        Outcome::Ok if completion.opcode == Opcode::Get => {
            answer.one_sided += u32::from(completion.one_sided);
            if checks.items.values(item).verify(item, completion.value) {
                answer.hits += 1;
            } else {
                answer.wrong_values += 1;
            }
        }
        Outcome::Ok | Outcome::NotFound => {}
        Outcome::TimedOut | Outcome::ServerDown | Outcome::Unknown => lose(item, slot, recorder),
        refusal => {
            answer.refused = true;
            recorder.note_refusal(format!("{refusal:?}").as_bytes());
        }
    }
}

impl<L: ClientLink> Connection for ClientConnection<L> {
    const RESTLESS: bool = true;
    const HAS_DESCRIPTORS: bool = L::HAS_DESCRIPTORS;

    #[inline]
    fn room(&self) -> usize {
        if self.waiting.is_empty() { self.slots.0.room() } else { 0 }
    }

    #[inline]
    fn in_flight(&self) -> usize {
        self.slots.0.in_flight()
    }

    #[inline]
    fn read(&mut self, items: &[u64], stamp: Stamp) {
        let token = self.slots.take(Kind::Read, items, 0, stamp);
        let now_ns = self.link_ns(stamp.now_ns);
        if self.together {
            self.link.cork();
        }
        for token in token..token + items.len() as u64 {
            self.submit(now_ns, token);
        }
    }

    #[inline]
    fn write(&mut self, item: u64, version: u32, stamp: Stamp) {
        let token = self.slots.take(Kind::Write, &[item], version, stamp);
        let now_ns = self.link_ns(stamp.now_ns);
        self.submit(now_ns, token);
    }

    #[inline]
    fn delete(&mut self, item: u64, stamp: Stamp) {
        let token = self.slots.take(Kind::Delete, &[item], 0, stamp);
        let now_ns = self.link_ns(stamp.now_ns);
        self.submit(now_ns, token);
    }

    /// The next poll sends.
    fn flush(&mut self) -> Result<(), String> {
        if self.together {
            self.link.flush();
        }
        Ok(())
    }

    fn poll(&mut self, clock: Clock, recorder: &mut Recorder) -> Result<Option<usize>, String> {
        let now_ns = clock.now_ns();
        let link_ns = self.link_ns(now_ns);
        self.submit_waiting(link_ns);
        let mut ended = self.end_not_taken(now_ns, recorder);
        let (slots, checks) = (&mut self.slots, &self.checks);
        let (mut seen_ns, mut looks) = (now_ns, 0);
        let polled = self.link.poll(link_ns, |completion| {
            if looks % COMPLETIONS_PER_LOOK == 0 {
                seen_ns = clock.now_ns();
            }
            looks += 1;
            let outcome = |item, slot: &mut Slot, recorder: &mut Recorder| {
                end(checks, &completion, item, slot, recorder);
            };
            ended += usize::from(slots.settle(completion.token, seen_ns, recorder, outcome));
        });
        let received = polled.map_err(|error| error.to_string())?;
        Ok((received > 0 || ended > 0).then_some(ended))
    }

    /// The link itself gives up what has no reply; here its counters are passed on.
    fn expire(&mut self, now_ns: u64, recorder: &mut Recorder) -> usize {
        self.link.pass_counters_on(now_ns, recorder);
        0
    }

    fn abandon(&mut self, now_ns: u64, recorder: &mut Recorder) {
        // Another part of the run has another clock.
        self.ahead_ns = None;
        self.link.pass_counters_on(now_ns, recorder);
        for number in 0..self.slots.0.len() {
            if !self.slots.0.is_taken(number) {
                continue;
            }
            let (slot, items) = self.slots.0.slot(number);
            recorder.held_updates.read_ended(&items[..slot.pending.answer.operations as usize]);
            recorder.lost(slot.pending.answer.kind, slot.pending.scheduled_ns, now_ns);
            self.slots.0.release(number);
        }
    }

    fn watch(&self, epoll: &Epoll, token: u64) -> io::Result<()> {
        self.link.watch(epoll, token)
    }
}
