//! One-sided reads: the record of the key's partition and the chunk, and for long values the header again.

use micanite_chunks::layout::{HEADER_BYTES, RECORD_BYTES};
use micanite_chunks::reader::{Accepted, Read, Refusal, Wanted, accept};
use micanite_fabric::Error;
use micanite_wire::hash::KeyHash;
use micanite_wire::native::{Opcode, Request};

use super::session::Session;
use super::state::{State, end};
use super::{Broken, Context, token};
use crate::driver::{SubmitError, request};
use crate::fabric::batch::{OWN_TOKEN, Record};
use crate::fabric::options::Reads;
use crate::fabric::reads::{Bits, Slot, Step};
use crate::fabric::transport::{Refused, Transport};
use crate::operation::{Completion, Operation, Outcome};

const S: u64 = 1_000_000_000;
/// Age of the server's second from which on a message has to bring another.
const SECOND_AGE_NS_MAX: u64 = 10 * S;

/// Returns the server's second at its latest, at a time when its last known one is `age_ns` old, counted from
/// when the request for it was sent. The clocks differ by less than a hundredth.
#[inline]
fn second_max(second: u64, age_ns: u64) -> u64 {
    second + 1 + age_ns.saturating_add(age_ns / 100) / S
}

impl<T: Transport> Session<T> {
    /// Starts a one-sided read of a key; returns false if the get has to ask by a message.
    #[inline]
    pub(super) fn submit_read(
        &mut self,
        state: &mut State,
        context: &mut Context,
        (key, hash): (&[u8], u64),
        token: u64,
    ) -> Result<bool, SubmitError> {
        if self.facts.area.is_none() || state.writes.may_be_open(hash) {
            return Ok(false);
        }
        let Some(entry) = state.entries.get(hash) else {
            return Ok(false);
        };
        let now_ns = T::now_ns();
        if now_ns.saturating_sub(self.second_at) > SECOND_AGE_NS_MAX
            || entry.bytes as usize > self.read_bytes_max
        {
            return Ok(false);
        }
        let Some(number) = self.reads.take(key) else {
            return if self.reads.are_useful() { Err(SubmitError::Full) } else { Ok(false) };
        };
        let slot = self.reads.slot(number);
        (slot.token, slot.hash, slot.entry) = (token, hash, entry);
        slot.deadline_at = now_ns.saturating_add(context.options.deadline_ns);
        slot.step = Step::Unposted;
        self.post_chunk(number);
        Ok(true)
    }

    /// Posts the read of record and chunk, or leaves it to a later poll.
    #[inline]
    fn post_chunk(&mut self, number: usize) {
        let slot = self.reads.slot(number);
        let Some(area) = &self.facts.area else {
            return;
        };
        let Some([record, chunk]) = area.geometry.ranges(KeyHash(slot.hash), slot.entry) else {
            // Impossible: entries are checked before they are kept.
            self.is_broken = true;
            return;
        };
        let buffer = match slot.chunk.take() {
            Some(buffer) => buffer,
            None => match self.endpoint.buffer(RECORD_BYTES + self.read_bytes_max) {
                Ok(buffer) => buffer,
                Err(_) => {
                    self.is_broken = true;
                    return;
                }
            },
        };
        let ranges = [(record.start as u64, record.len()), (chunk.start as u64, chunk.len())];
        slot.posted_at = T::now_ns();
        let posted = self.endpoint.read_ranges(&area.remote, ranges, buffer, token::CHUNK | number as u64);
        self.note_posted(number, posted, (Step::Chunk, Step::Unposted));
    }

    /// Posts the second read of a header.
    fn post_header(&mut self, number: usize) {
        let slot = self.reads.slot(number);
        let Some(area) = &self.facts.area else {
            return;
        };
        let buffer = match slot.header.take() {
            Some(buffer) => buffer,
            None => match self.endpoint.buffer(HEADER_BYTES) {
                Ok(buffer) => buffer,
                Err(_) => {
                    self.is_broken = true;
                    return;
                }
            },
        };
        let range = (slot.entry.offset, HEADER_BYTES);
        let posted = self.endpoint.read(&area.remote, range, buffer, token::HEADER | number as u64);
        self.note_posted(number, posted, (Step::Header, Step::UnpostedHeader));
    }

    #[inline]
    fn note_posted(
        &mut self,
        number: usize,
        posted: Result<(), Refused<T::Buffer>>,
        (step, again): (Step, Step),
    ) {
        let slot = self.reads.slot(number);
        match posted {
            Ok(()) => {
                slot.step = step;
                self.reads.unposted &= !(1 << number);
            }
            Err(Refused { buffer, error }) => {
                let place = if again == Step::Unposted { &mut slot.chunk } else { &mut slot.header };
                *place = Some(buffer);
                slot.step = again;
                self.reads.unposted |= 1 << number;
                self.is_broken |= error != Error::Busy;
            }
        }
    }

    /// Posts the reads that found the endpoint busy.
    pub(super) fn post_reads(&mut self) {
        for number in Bits(self.reads.unposted) {
            match self.reads.slot(number).step {
                Step::UnpostedHeader => self.post_header(number),
                _ => self.post_chunk(number),
            }
        }
    }

    /// Takes what a read of record and chunk brought.
    #[inline]
    pub(super) fn take_chunk(
        &mut self,
        number: usize,
        buffer: T::Buffer,
        result: Result<usize, Error>,
        (state, context): (&mut State, &mut Context),
        sink: &mut impl FnMut(Completion<'_>),
    ) -> Result<(), Broken> {
        // The clock of a caller may be older: it may have been stopped since.
        let now_ns = T::now_ns();
        let slot = self.reads.slot(number);
        slot.chunk = Some(buffer);
        if slot.is_given_up {
            self.reads.release(number);
            return if matches!(result, Ok(_) | Err(Error::Busy)) { Ok(()) } else { Err(Broken) };
        }
        match result {
            Ok(_) => {}
            // Only one of the two ranges was read.
            Err(Error::Busy) => {
                slot.step = Step::Unposted;
                self.reads.unposted |= 1 << number;
                return Ok(());
            }
            Err(_) => return self.fail_read(number, state),
        }
        slot.lasted_ns = now_ns.saturating_sub(slot.posted_at);
        self.judge(number, now_ns, false, (state, context), sink);
        Ok(())
    }

    /// Takes a second header.
    pub(super) fn take_header(
        &mut self,
        number: usize,
        buffer: T::Buffer,
        result: Result<usize, Error>,
        (state, context): (&mut State, &mut Context),
        sink: &mut impl FnMut(Completion<'_>),
    ) -> Result<(), Broken> {
        let now_ns = T::now_ns();
        let slot = self.reads.slot(number);
        slot.header = Some(buffer);
        if slot.is_given_up {
            self.reads.release(number);
            return result.map(drop).map_err(Broken::from);
        }
        if result.is_err() {
            return self.fail_read(number, state);
        }
        context.counters.second_headers += 1;
        self.judge(number, now_ns, true, (state, context), sink);
        Ok(())
    }

    /// Notes a read that failed. When the session ends, its get asks by a message.
    fn fail_read(&mut self, number: usize, state: &mut State) -> Result<(), Broken> {
        let slot = self.reads.slot(number);
        slot.step = Step::Unposted;
        state.entries.forget_version(slot.hash, slot.entry.version);
        Err(Broken)
    }

    /// Accepts or refuses what was read.
    #[inline]
    fn judge(
        &mut self,
        number: usize,
        now_ns: u64,
        has_second: bool,
        (state, context): (&mut State, &mut Context),
        sink: &mut impl FnMut(Completion<'_>),
    ) {
        let second_max = second_max(self.second, now_ns.saturating_sub(self.second_at));
        let hello = &self.facts.hello;
        let slot = self.reads.slot(number);
        let Some(bytes) = slot.chunk.as_deref() else {
            return;
        };
        // A sink that panics gets no second completion when the read is given up.
        let token = std::mem::replace(&mut slot.token, OWN_TOKEN);
        let (record, chunk) = bytes.split_at(RECORD_BYTES);
        let read = Read {
            record,
            chunk: &chunk[..slot.entry.bytes as usize],
            second_header: slot.header.as_deref().filter(|_| has_second),
            lasted_ns: slot.lasted_ns,
        };
        let wanted = Wanted {
            entry: slot.entry,
            key: slot.key(),
            hash: KeyHash(slot.hash),
            incarnation: hello.incarnation,
            second_max,
            lease_ns: hello.lease_ns,
        };
        let refusal = match accept(&wanted, &read) {
            Ok(Accepted { value, flags, .. }) => {
                if context.options.history && !state.history.note(slot.hash) {
                    context.counters.history_dropped += 1;
                }
                context.counters.gets_one_sided += 1;
                end(Completion { flags, value, one_sided: true, ..got(token) }, context, sink);
                self.reads.release(number);
                return;
            }
            Err(refusal) => refusal,
        };
        self.reads.slot(number).token = token;
        match refusal {
            Refusal::SecondHeader if !has_second => self.post_header(number),
            refusal => self.refuse(number, refusal, state, context),
        }
    }

    /// Reads once more, if that may help, or asks by a message.
    fn refuse(&mut self, number: usize, refusal: Refusal, state: &mut State, context: &mut Context) {
        context.counters.count_refusal(refusal);
        let slot = self.reads.slot(number);
        if refusal.may_retry() && !slot.is_retry {
            context.counters.retries += 1;
            slot.is_retry = true;
            slot.step = Step::Unposted;
            self.post_chunk(number);
            return;
        }
        self.ask(number, state);
        self.reads.release(number);
    }

    /// Turns the get of a read into a request.
    fn ask(&mut self, number: usize, state: &mut State) {
        let slot = self.reads.slot(number);
        state.entries.forget_version(slot.hash, slot.entry.version);
        let (record, request) = message_of(slot);
        let value_bytes = state.value_bytes as usize;
        if self.filling.push(record, &request, value_bytes).is_err() {
            state.wait(record, &request, 0);
        }
    }

    /// Gives up reads that take longer than a lease, or, of long values, as long as a silent server's
    /// replies; and those whose deadline is over.
    pub(super) fn give_up_reads(
        &mut self,
        now_ns: u64,
        state: &mut State,
        context: &mut Context,
        sink: &mut impl FnMut(Completion<'_>),
    ) {
        let lease_ns = self.facts.hello.lease_ns;
        for number in self.reads.awaited() {
            let slot = self.reads.slot(number);
            let limit_ns = match slot.entry.needs_second_header() {
                true => lease_ns.max(context.options.silent_ns),
                false => lease_ns,
            };
            let is_over = now_ns >= slot.deadline_at;
            if !is_over && now_ns.saturating_sub(slot.posted_at) <= limit_ns {
                continue;
            }
            context.counters.reads_given_up += 1;
            let is_under_way = matches!(slot.step, Step::Chunk | Step::Header);
            let token = slot.token;
            if !is_over {
                self.ask(number, state);
            }
            match is_under_way {
                true => self.reads.give_up(number),
                false => self.reads.release(number),
            }
            if is_over {
                context.counters.timed_out += 1;
                end(Completion::without_reply(token, Opcode::Get, Outcome::TimedOut), context, sink);
            }
        }
    }

    /// Keeps the gets of unfinished reads as requests for the next session.
    pub(super) fn keep_reads(&mut self, state: &mut State, context: &Context) {
        debug_assert!(context.options.reads != Reads::TwoSided || self.reads.awaited().next().is_none());
        for number in self.reads.awaited() {
            let slot = self.reads.slot(number);
            let (record, request) = message_of(slot);
            state.wait(record, &request, 0);
        }
    }

    /// Returns whether entries of this session are read, so that the server's second has to be known.
    pub(super) fn reads_entries(&self, state: &State) -> bool {
        self.facts.area.is_some() && state.entries.len() > 0
    }
}

/// Returns the request that asks for the item of a read, and its entry.
fn message_of<B>(slot: &Slot<B>) -> (Record, Request<'_>) {
    let mut request = request(&Operation::get(slot.key()), slot.hash, 0);
    request.wants_entry = true;
    (Record::new(slot.token, &request, slot.deadline_at), request)
}

/// Returns the completion of a get that has found its item.
#[inline]
fn got(token: u64) -> Completion<'static> {
    Completion::without_reply(token, Opcode::Get, Outcome::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that the bound is above the server's second at any moment of the known one's second, with a
    /// clock that is a hundredth faster.
    #[test]
    fn the_second_is_an_upper_bound() {
        for age_ns in [0, 1, S / 2, S - 1, S, 3 * S / 2, 10 * S] {
            for began_ns in [0, 1, S / 2, S - 1] {
                let server_ns = 7 * S + began_ns + age_ns * 101 / 100;
                assert!(second_max(7, age_ns) >= server_ns / S);
            }
        }
        assert_eq!((second_max(7, 0), second_max(7, S)), (8, 9));
    }
}
