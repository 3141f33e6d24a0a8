//! Work that is due because time has passed.

use micanite_fabric::Error;
use micanite_wire::native::{Header, HistoryWriter, Kind};

use super::session::{Sending, Session};
use super::state::State;
use super::{Broken, Context, MS, token};
use crate::driver::request;
use crate::fabric::batch::{OWN_TOKEN, Record};
use crate::fabric::keys::RECORDS_DUE;
use crate::fabric::transport::{Refused, Transport};
use crate::operation::{Completion, Operation, Outcome};

/// Time between two messages of history.
const HISTORY_NS: u64 = 100 * MS;
/// Age from which on the server's second is asked for, while entries are in use.
const SECOND_AGE_NS: u64 = 5_000 * MS;
/// Time between two looks at deadlines.
const EXPIRE_NS: u64 = 5 * MS;
/// Longest sleep while replies are outstanding.
const PENDING_NS: u64 = 10 * MS;

impl<T: Transport> Session<T> {
    /// Does what is due.
    #[inline]
    pub(super) fn on_time(
        &mut self,
        state: &mut State,
        context: &mut Context,
        sink: &mut impl FnMut(Completion<'_>),
    ) -> Result<(), Broken> {
        if self.reads.unposted != 0 {
            self.post_reads();
        }
        let now_ns = T::now_ns();
        if self.reads.are_useful() {
            self.give_up_reads(now_ns, state, context, sink);
        }
        if now_ns >= self.expire_at {
            self.expire_at = now_ns + EXPIRE_NS;
            self.expire(now_ns, state, context, sink);
            self.check_silence(now_ns)?;
            self.keep_alive(now_ns, state, context);
        }
        let records = state.history.records().len();
        if records >= RECORDS_DUE || records > 0 && now_ns.saturating_sub(self.history_at) >= HISTORY_NS {
            self.report(now_ns, state, context)?;
        }
        Ok(())
    }

    /// Ends requests whose deadline is over.
    fn expire(
        &mut self,
        now_ns: u64,
        state: &mut State,
        context: &mut Context,
        sink: &mut impl FnMut(Completion<'_>),
    ) {
        let was_sent = self.sending == Sending::Posted;
        if self.sending != Sending::Idle {
            for record in &mut self.sent.records {
                if !record.has_ended && now_ns >= record.deadline_at && record.token != OWN_TOKEN {
                    record.has_ended = true;
                    let outcome = (Outcome::TimedOut, was_sent || record.resent);
                    state.end_without_reply(record, outcome, context, sink);
                }
            }
        }
        if self.filling.records.first().is_some_and(|record| now_ns >= record.deadline_at) {
            self.filling.retain(|record| {
                let is_over = now_ns >= record.deadline_at && record.token != OWN_TOKEN;
                if is_over {
                    state.end_without_reply(record, (Outcome::TimedOut, false), context, sink);
                }
                !is_over
            });
        }
    }

    /// Returns an error if the server owes a reply for too long, or has taken this client for gone.
    fn check_silence(&self, now_ns: u64) -> Result<(), Broken> {
        let is_silent =
            self.sending == Sending::Posted && now_ns.saturating_sub(self.silent_since) > self.patience_ns;
        let frozen_ns = self.facts.hello.frozen_ns;
        let quiet_ns = now_ns.saturating_sub(self.last_sent_at);
        if is_silent || quiet_ns > frozen_ns - frozen_ns / 8 { Err(Broken) } else { Ok(()) }
    }

    /// Adds a no-op if the server has to hear of the client, or the client of the server's second.
    fn keep_alive(&mut self, now_ns: u64, state: &mut State, context: &Context) {
        let quiet_ns = now_ns.saturating_sub(self.last_sent_at);
        let age_ns = now_ns.saturating_sub(self.second_at);
        let is_due =
            quiet_ns > self.facts.hello.frozen_ns / 2 || age_ns > SECOND_AGE_NS && self.reads_entries(state);
        let is_idle = self.sending == Sending::Idle && self.filling.is_empty();
        if is_due && is_idle && state.waiting.is_empty() {
            let request = request(&Operation::noop(), 0, 0);
            let deadline_at = now_ns.saturating_add(context.options.deadline_ns);
            // There is room: the message is empty.
            let _ = self.filling.push(Record::new(OWN_TOKEN, &request, deadline_at), &request, 0);
        }
    }

    /// Sends the history of one-sided reads.
    fn report(&mut self, now_ns: u64, state: &mut State, context: &mut Context) -> Result<(), Broken> {
        let Some(mut buffer) = self.history.take() else {
            return Ok(());
        };
        let mut writer = HistoryWriter::new(&mut buffer);
        // All records fit: the table is bounded by the message.
        let _ = state.history.records().iter().try_for_each(|record| writer.push(record));
        let header = Header { kind: Kind::History, client: state.client, ..Header::REQUESTS };
        let bytes = writer.finish(&header);
        let tag = self.facts.hello.history_tag();
        match self.endpoint.send_tagged(buffer, bytes, tag, token::HISTORY) {
            Ok(()) => {
                context.counters.histories += 1;
                context.counters.history_records += state.history.records().len() as u64;
                state.history.clear();
                (self.history_at, self.last_sent_at) = (now_ns, now_ns);
                Ok(())
            }
            Err(Refused { buffer, error }) => {
                self.history = Some(buffer);
                if error == Error::Busy { Ok(()) } else { Err(Broken) }
            }
        }
    }

    /// Returns the time at which something is due.
    pub(super) fn due_at(&self, state: &State, now_ns: u64) -> u64 {
        let is_pending = self.sending != Sending::Idle
            || self.reads.are_useful()
            || !self.filling.is_empty()
            || !state.waiting.is_empty();
        if is_pending {
            return now_ns + PENDING_NS;
        }
        let alive_at = self.last_sent_at + self.facts.hello.frozen_ns / 2;
        let second_at = match self.reads_entries(state) {
            true => self.second_at + SECOND_AGE_NS,
            false => u64::MAX,
        };
        // While the last history is in transfer, its completion comes first.
        let history_at = match state.history.records().is_empty() || self.history.is_none() {
            true => u64::MAX,
            false => self.history_at + HISTORY_NS,
        };
        alive_at.min(second_at).max(self.expire_at).min(history_at)
    }
}
