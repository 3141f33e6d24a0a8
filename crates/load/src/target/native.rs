//! Micanite's native protocol, by the client library.

use std::io;
use std::time::Duration;

use micanite_client::{
    Batch, Completion, Link, Opcode, Operation, Options, Outcome, PortCounters, SubmitError, UdpOptions,
};
use micanite_workload::KEY_BYTES_MAX;
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};

use super::in_flight::Pending;
use super::link::{introduce, open_link};
use super::reply::Checks;
use super::slots::Window;
use super::{Connection, Stamp};
use crate::address::Endpoint;
use crate::plan::Plan;
use crate::run::clock::{Clock, nanoseconds};
use crate::run::recorder::{Kind, Recorder};

/// The clock is read again after so many completions.
const COMPLETIONS_PER_LOOK: u32 = 32;

/// Opens a client of all targets of a plan.
///
/// # Errors
/// When there is no socket or no queue to be had.
pub(crate) fn open_native(
    plan: &Plan,
    endpoints: &[Endpoint],
    pipeline: usize,
    timeout: Duration,
) -> Result<Link, String> {
    let operations = pipeline * plan.multiget;
    let options = Options {
        deadline_ns: nanoseconds(timeout),
        // A datagram each, and those that are kept for what has to be sent again.
        datagrams: operations + operations / 8 + 64,
        batch: batch(plan),
        // A server that does not reply for a while is not given up: its requests are lost one by
        // one.
        dead_after_deadlines: u32::MAX,
        ..Options::default()
    };
    let udp = UdpOptions { gro: plan.offload, gso: plan.offload, ..UdpOptions::default() };
    open_link(&plan.targets, endpoints, options, &udp, plan.port.as_ref())
}

/// Waits for the directories of all servers of a plan.
///
/// # Errors
/// When a server does not reply; what to do then.
pub(crate) fn introduce_native(plan: &Plan, links: &mut [Link]) -> Result<(), String> {
    introduce(&plan.targets, links, |server, version| {
        let target = &plan.targets[server];
        let how_to_start = target.how_to_start();
        match (version, &plan.port) {
            (Some(version), _) => {
                format!("{target}: it speaks version {version} of the native protocol")
            }
            (None, None) => format!("{target}: nobody listens there; {how_to_start}"),
            (None, Some(port)) => {
                let port = port.name();
                format!("{target}: nobody replies there by way of {port}; {how_to_start}")
            }
        }
    })
}

fn batch(plan: &Plan) -> Batch {
    match plan {
        _ if plan.adaptive_batch => Batch::Adaptive,
        _ if plan.multiget > 1 && plan.batch == 1 => Batch::Full,
        _ => Batch::Fixed(plan.batch as u16),
    }
}

/// A request and the outcomes of its operations.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    pending: Pending,
    /// Operations that ended without a reply.
    lost: u32,
}

/// A native client. The operations of a request are told apart by their tokens: slot and place in
/// it.
pub(crate) struct NativeConnection {
    link: Link,
    slots: Slots,
    checks: Checks,
    /// True if the operations of a request are sent together.
    together: bool,
    /// Offset from the run's clock to the link's.
    ahead_ns: Option<u64>,
    /// Tokens of operations that the link did not take, and why.
    not_taken: Vec<(u64, SubmitError)>,
    /// Counters of the link that have been passed on.
    late: u64,
    resent: u64,
    port: PortCounters,
    value: Vec<u8>,
}

/// The requests in flight. A token is the place of an operation's item in the window.
struct Slots(Window<Slot>);

impl Slots {
    fn take(&mut self, kind: Kind, items: &[u64], stamp: Stamp) -> u64 {
        let number = self.0.take(items);
        *self.0.slot(number).0 = Slot { pending: Pending::new(kind, items, stamp), lost: 0 };
        self.0.place(number) as u64
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

impl NativeConnection {
    /// Takes an open link over.
    pub fn new(mut link: Link, checks: Checks, (pipeline, multiget): (usize, usize)) -> Self {
        let port = link.port_counters().unwrap_or_default();
        Self {
            link,
            slots: Slots(Window::new(pipeline, multiget)),
            value: Vec::new(),
            checks,
            together: multiget > 1,
            ahead_ns: None,
            not_taken: Vec::new(),
            late: 0,
            resent: 0,
            port,
        }
    }

    /// The link's time at a time of the run.
    #[inline]
    fn link_ns(&mut self, now_ns: u64) -> u64 {
        let link = &self.link;
        let ahead_ns = *self.ahead_ns.get_or_insert_with(|| link.now_ns().saturating_sub(now_ns));
        now_ns + ahead_ns
    }

    fn pass_counters_on(&mut self, recorder: &mut Recorder) {
        let counters = self.link.counters();
        recorder.counts.late += counters.late - self.late;
        recorder.counts.resent += counters.resent - self.resent;
        (self.late, self.resent) = (counters.late, counters.resent);
        if let Some(counters) = self.link.port_counters() {
            recorder.counts.port += counters - self.port;
            self.port = counters;
        }
    }

    /// Ends the operations that were not taken.
    fn end_not_taken(&mut self, now_ns: u64, recorder: &mut Recorder) -> usize {
        let mut ended = 0;
        while let Some((token, error)) = self.not_taken.pop() {
            let not_taken = |item, slot: &mut Slot, recorder: &mut Recorder| match error {
                SubmitError::TooLong => {
                    slot.pending.answer.refused = true;
                    recorder.note_refusal(b"the server wants shorter datagrams than these items need");
                }
                SubmitError::Full | SubmitError::ServerDown { .. } | SubmitError::BadKey => {
                    lose(item, slot, recorder);
                }
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

impl Connection for NativeConnection {
    const RESTLESS: bool = true;

    #[inline]
    fn room(&self) -> usize {
        self.slots.0.room()
    }

    #[inline]
    fn in_flight(&self) -> usize {
        self.slots.0.in_flight()
    }

    #[inline]
    fn read(&mut self, items: &[u64], stamp: Stamp) {
        let token = self.slots.take(Kind::Read, items, stamp);
        let now_ns = self.link_ns(stamp.now_ns);
        if self.together {
            self.link.cork();
        }
        let mut key = [0; KEY_BYTES_MAX];
        for (item, token) in items.iter().zip(token..) {
            let key = self.checks.items.write_key(*item, &mut key);
            if let Err(error) = self.link.submit(now_ns, &Operation::get(key), token) {
                self.not_taken.push((token, error));
            }
        }
    }

    #[inline]
    fn write(&mut self, item: u64, version: u32, stamp: Stamp) {
        let token = self.slots.take(Kind::Write, &[item], stamp);
        let now_ns = self.link_ns(stamp.now_ns);
        let mut key = [0; KEY_BYTES_MAX];
        let key = self.checks.items.write_key(item, &mut key);
        self.value.clear();
        let values = self.checks.items.values(item);
        values.push(item, version, &mut self.value);
        let operation = Operation::set(key, &self.value).with_expiry(self.checks.expiry_s);
        if let Err(error) = self.link.submit(now_ns, &operation, token) {
            self.not_taken.push((token, error));
        }
    }

    #[inline]
    fn delete(&mut self, item: u64, stamp: Stamp) {
        let token = self.slots.take(Kind::Delete, &[item], stamp);
        let now_ns = self.link_ns(stamp.now_ns);
        let mut key = [0; KEY_BYTES_MAX];
        let key = self.checks.items.write_key(item, &mut key);
        if let Err(error) = self.link.submit(now_ns, &Operation::delete(key), token) {
            self.not_taken.push((token, error));
        }
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
    fn expire(&mut self, _now_ns: u64, recorder: &mut Recorder) -> usize {
        self.pass_counters_on(recorder);
        0
    }

    fn abandon(&mut self, now_ns: u64, recorder: &mut Recorder) {
        self.pass_counters_on(recorder);
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
        for descriptor in self.link.descriptors() {
            epoll.add(descriptor, EpollEvent::new(EpollFlags::EPOLLIN, token))?;
        }
        Ok(())
    }
}
