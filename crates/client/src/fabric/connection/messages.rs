//! Requests and replies. One message of requests is outstanding; further requests fill the next one.

use micanite_chunks::Entry;
use micanite_fabric::Error;
use micanite_wire::native::{Header, Kind, Replies, Reply, Status};

use super::session::{Sending, Session};
use super::state::{State, end};
use super::{Broken, Context, MS, token};
use crate::driver::SubmitError;
use crate::fabric::batch::{OWN_TOKEN, Record, Waiting};
use crate::fabric::transport::{Refused, Transport};
use crate::operation::{Completion, Opcode, Operation, Outcome};

/// Wait before a request is sent again that the server had no time for.
const SLOW_DOWN_NS: u64 = MS / 2;

impl<T: Transport> Session<T> {
    /// Adds a request to the next message.
    pub(super) fn submit_request(
        &mut self,
        state: &mut State,
        context: &mut Context,
        operation: &Operation<'_>,
        (hash, token): (u64, u64),
    ) -> Result<(), SubmitError> {
        let deadline_at = T::now_ns().saturating_add(context.options.deadline_ns);
        let sizes = (hash, self.facts.message_bytes);
        let wants_entry = self.facts.area.is_some() && !operation.wants_cas;
        let (record, request) = state.begin_request(operation, sizes, (token, deadline_at), wants_entry)?;
        let value_bytes = state.value_bytes as usize;
        if self.filling.push(record, &request, value_bytes).is_err() {
            state.cancel_request(&record);
            return Err(SubmitError::Full);
        }
        if record.opcode.writes() {
            // The item will have another chunk.
            state.entries.forget(hash);
        }
        Ok(())
    }

    /// Sends a message if the last one was answered: requests that have waited, or else the next ones.
    #[inline]
    pub(super) fn leave(&mut self, state: &mut State, context: &mut Context) -> Result<(), Broken> {
        if self.sending == Sending::Idle
            && !(self.filling.is_empty() && state.waiting.is_empty())
            && self.sent.buffer.is_some()
            && !self.to_receive.iter().any(|(_, token)| *token == token::REPLIES)
        {
            self.compose(state);
        }
        if self.sending == Sending::Unposted { self.post_requests(state, context) } else { Ok(()) }
    }

    fn compose(&mut self, state: &mut State) {
        self.sent.clear();
        if !state.waiting.is_empty() {
            self.take_waiting(state);
        }
        if self.sent.is_empty() {
            if self.filling.is_empty() {
                return;
            }
            std::mem::swap(&mut self.filling, &mut self.sent);
        }
        state.sequence = state.sequence.wrapping_add(1);
        self.echo = state.random.next();
        self.sending = Sending::Unposted;
    }

    /// Fills the message with waiting requests that are due. All of them were sent before, or none was. Those
    /// that were go first, even if they are not due yet: a server that has forgotten the client takes ids
    /// above the first one that is not marked resent for new.
    fn take_waiting(&mut self, state: &mut State) {
        let now_ns = T::now_ns();
        let value_bytes = state.value_bytes as usize;
        // Those that are never due have no bytes, and only wait for their end.
        let takes_resent =
            state.waiting.iter().any(|waiting| waiting.record.resent && waiting.due_at != u64::MAX);
        let mut number = 0;
        while let Some(waiting) = state.waiting.get(number) {
            if waiting.due_at > now_ns || waiting.record.resent != takes_resent {
                number += 1;
                continue;
            }
            if self.sent.push_waiting(waiting, value_bytes).is_err() {
                break;
            }
            state.waiting.remove(number);
        }
    }

    fn post_requests(&mut self, state: &State, context: &mut Context) -> Result<(), Broken> {
        let hello = &self.facts.hello;
        let first = self.sent.records.first().map_or(0, |record| record.hash);
        let partition = micanite_wire::hash::KeyHash(first).partition(u32::from(hello.partition_bits));
        let header = Header {
            partition: partition as u16,
            sequence: state.sequence,
            client: state.client,
            echo: self.echo,
            ..Header::REQUESTS
        };
        let bytes = self.sent.finish(&header);
        let Some(buffer) = self.sent.buffer.take() else {
            return Err(Broken);
        };
        let now_ns = T::now_ns();
        match self.endpoint.send_tagged(buffer, bytes, hello.session, token::REQUESTS) {
            Ok(()) => {
                self.sending = Sending::Posted;
                (self.sent_at, self.last_sent_at) = (now_ns, now_ns);
                self.silent_since = now_ns;
                self.patience_ns = context.patience_ns(bytes + self.sent.reply_bytes());
                context.counters.messages += 1;
                context.counters.requests += self.sent.records.len() as u64;
                let resent = self.sent.records.iter().filter(|record| record.resent).count();
                context.counters.resent += resent as u64;
                Ok(())
            }
            Err(Refused { buffer, error }) => {
                self.sent.buffer = Some(buffer);
                if error == Error::Busy { Ok(()) } else { Err(Broken) }
            }
        }
    }

    /// Ends the requests of the message, once its reply is here, and the buffer of the requests is back.
    pub(super) fn answer(
        &mut self,
        state: &mut State,
        context: &mut Context,
        sink: &mut impl FnMut(Completion<'_>),
    ) -> Result<(), Broken> {
        if self.sending != Sending::Posted || self.sent.buffer.is_none() {
            return Ok(());
        }
        let Some((buffer, bytes)) = self.reply.take() else {
            return Ok(());
        };
        let answered = self.end_answered(&buffer[..bytes], state, context, sink);
        self.to_receive.push((buffer, token::REPLIES));
        match answered {
            Ok(()) => {
                self.sent.clear();
                self.sending = Sending::Idle;
            }
            Err(Broken) => context.counters.bogus += 1,
        }
        answered
    }

    fn end_answered(
        &mut self,
        message: &[u8],
        state: &mut State,
        context: &mut Context,
        sink: &mut impl FnMut(Completion<'_>),
    ) -> Result<(), Broken> {
        let header = Header::read(message).map_err(|_| Broken)?;
        let is_ours = header.kind == Kind::Replies
            && (header.sequence, header.client, header.echo) == (state.sequence, state.client, self.echo);
        if !is_ours {
            return Err(Broken);
        }
        if header.status != Status::Ok {
            return self.end_refused(&header, state, context, sink);
        }
        if usize::from(header.count) != self.sent.records.len() {
            return Err(Broken);
        }
        if header.cookie != 0 {
            (self.second, self.second_at) = (header.cookie, self.sent_at);
        }
        let mut replies = Replies::with_entries(message, header.count).map_err(|_| Broken)?;
        let (mut values, mut values_bytes) = (0_u32, 0_usize);
        for number in 0..self.sent.records.len() {
            let record = self.sent.records[number];
            let reply = replies.next().and_then(Result::ok).ok_or(Broken)?;
            if reply.opcode != record.opcode || reply.hash_low != record.hash as u32 {
                return Err(Broken);
            }
            // Neither is it sent again if a later reply is malformed, nor if its sink panics.
            self.sent.records[number].has_ended = true;
            match Outcome::of(reply.status, reply.limit_bytes) {
                None => self.retry((number, record), reply.status, state, context),
                Some(outcome) => {
                    if record.opcode.answers_value() {
                        values += 1;
                        values_bytes += reply.value.len();
                    }
                    self.end_record(&record, outcome, &reply, (state, context), sink);
                }
            }
        }
        if values > 0 {
            state.learn_value_bytes(values_bytes as f32 / values as f32);
        }
        Ok(())
    }

    /// Ends a request by its reply.
    fn end_record(
        &self,
        record: &Record,
        outcome: Outcome,
        reply: &Reply<'_>,
        (state, context): (&mut State, &mut Context),
        sink: &mut impl FnMut(Completion<'_>),
    ) {
        if let (Some(entry), Some(area)) = (reply.entry, &self.facts.area) {
            let entry = Entry { offset: entry.offset, bytes: entry.bytes, version: entry.version };
            match state.learn(record.hash, entry, area) {
                true => context.counters.entries_replied += 1,
                false => context.counters.entries_bogus += 1,
            }
        }
        if record.has_ended {
            return;
        }
        state.end_request(record, false);
        if record.opcode == Opcode::Get {
            context.counters.gets_two_sided += 1;
            state.writes.settle(record.hash);
        }
        let completion = Completion {
            token: record.token,
            opcode: record.opcode,
            outcome,
            resent: record.resent,
            one_sided: false,
            flags: reply.flags,
            cas: reply.cas,
            number: reply.number,
            value: reply.value,
        };
        end(completion, context, sink);
    }

    /// Ends or repeats all requests of a message that was refused as a whole.
    fn end_refused(
        &mut self,
        header: &Header,
        state: &mut State,
        context: &mut Context,
        sink: &mut impl FnMut(Completion<'_>),
    ) -> Result<(), Broken> {
        for number in 0..self.sent.records.len() {
            let record = self.sent.records[number];
            self.sent.records[number].has_ended = true;
            match Outcome::of(header.status, 0) {
                None => self.retry((number, record), header.status, state, context),
                Some(_) if record.has_ended => {}
                Some(outcome) => state.end_without_reply(&record, (outcome, false), context, sink),
            }
        }
        Ok(())
    }

    /// Keeps a request for a later message: it was not executed, or is just being executed.
    fn retry(
        &self,
        (number, record): (usize, Record),
        status: Status,
        state: &mut State,
        context: &mut Context,
    ) {
        let wait_ns = match status {
            Status::NoRoom => {
                context.counters.no_room += 1;
                state.value_bytes = state.value_bytes * 1.25 + 8.0;
                0
            }
            _ => {
                context.counters.slow_downs += 1;
                state.random.jittered(SLOW_DOWN_NS)
            }
        };
        if let (false, Some(bytes)) = (record.has_ended, self.sent.request(number)) {
            state.waiting.push_back(Waiting::new(record, bytes, T::now_ns() + wait_ns));
        }
    }

    /// Keeps all requests that were not answered, those that were sent in front of all others. Those whose
    /// bytes a transfer has not given back have no time left, and end with the next look at deadlines.
    pub(super) fn keep_requests(&mut self, state: &mut State) {
        let now_ns = T::now_ns();
        let was_sent = self.sending == Sending::Posted;
        let is_pending = self.sending != Sending::Idle;
        let mut resent = 0;
        for number in 0..self.sent.records.len() {
            let mut record = self.sent.records[number];
            if !is_pending || record.has_ended || record.token == OWN_TOKEN {
                continue;
            }
            record.resent |= was_sent;
            match self.sent.request(number) {
                Some(bytes) if record.resent => {
                    state.waiting.insert(resent, Waiting::new(record, bytes, now_ns));
                    resent += 1;
                }
                Some(bytes) => state.waiting.push_back(Waiting::new(record, bytes, now_ns)),
                None => {
                    (record.resent, record.deadline_at) = (true, 0);
                    state.expire_soon();
                    state.waiting.push_back(Waiting::new(record, &[], u64::MAX));
                }
            }
        }
        for number in 0..self.filling.records.len() {
            let record = self.filling.records[number];
            if let (true, Some(bytes)) = (record.token != OWN_TOKEN, self.filling.request(number)) {
                state.waiting.push_back(Waiting::new(record, bytes, now_ns));
            }
        }
    }
}
