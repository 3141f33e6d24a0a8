//! Replies to meta commands.

use micanite_engine::{Operation, Outcome};
use micanite_wire::memcache::text::meta::reply::{self, MetaItem, Reply};
use micanite_wire::memcache::text::meta::{Fields, MetaFlags};
use micanite_wire::memcache::text::reply as classic;

use super::super::Text;
use super::super::reply::write;
use super::META_REPLY_BYTES_MAX;
use crate::session::batch::Sink;

/// Form of the reply to a meta command.
#[derive(Clone, Copy, Debug)]
pub(in crate::session) struct MetaForm<'i> {
    fields: Fields<'i>,
    quiet: bool,
    value: bool,
    base64: bool,
}

impl<'i> MetaForm<'i> {
    #[inline]
    pub fn of(flags: &MetaFlags<'i>) -> Self {
        Self { fields: flags.fields, quiet: flags.quiet, value: flags.value, base64: flags.base64 }
    }
}

impl<'i> Sink<'_, 'i, '_, Text<'i>> {
    /// Writes the line before the value of an item that was described. Returns false if the reply has no
    /// room.
    #[inline(never)]
    pub(in crate::session) fn begin_meta_value(
        &mut self,
        index: usize,
        number: usize,
        value_bytes: usize,
    ) -> bool {
        if !self.has_room(index, META_REPLY_BYTES_MAX + value_bytes + 2) {
            return false;
        }
        let form = &self.codec.meta_forms[number];
        let (reply, item) = (self.meta_reply(index, form), self.meta_item());
        self.output.push_with(|out| reply.got(out, true, &item));
        true
    }

    /// Writes the reply to a request. The value of a hit is already in the output.
    #[inline(never)]
    pub(in crate::session) fn finish_meta(&mut self, index: usize, number: usize, outcome: Outcome) {
        let form = &self.codec.meta_forms[number];
        match self.requests[index].operation {
            Operation::MetaGet(get) => self.finish_get(index, form, outcome, get.value),
            Operation::MetaArithmetic(_) => self.finish_number(index, form, outcome),
            Operation::Store { value, .. } => {
                self.item.value_bytes = value.len();
                self.finish_store(index, form, outcome, value.len());
            }
            Operation::MetaStore(store) => self.finish_store(index, form, outcome, store.value.len()),
            _ => self.finish_delete(index, form, outcome),
        }
    }

    #[inline]
    fn finish_get(&mut self, index: usize, form: &MetaForm<'i>, outcome: Outcome, value: bool) {
        let (reply, item) = (self.meta_reply(index, form), self.meta_item());
        match outcome {
            Outcome::Hit if value && !self.item.unchanged => self.output.push(b"\r\n"),
            Outcome::Hit => self.output.push_with(|out| reply.got(out, false, &item)),
            Outcome::Stored => {
                let value = value && !self.item.unchanged;
                self.output.push_with(|out| reply.got(out, value, &item));
                if value {
                    self.output.push(b"\r\n");
                }
            }
            Outcome::NotFound => {
                if !form.quiet {
                    self.push_code(&reply, reply::MISS);
                }
            }
            other => write(self.output, other),
        }
    }

    fn finish_number(&mut self, index: usize, form: &MetaForm<'i>, outcome: Outcome) {
        let (reply, item) = (self.meta_reply(index, form), self.meta_item());
        match outcome {
            Outcome::Number(number) => {
                if form.quiet {
                    return;
                }
                let mut digits = [0; classic::NUMBER_BYTES_MAX];
                let line_bytes = classic::number(&mut digits, number);
                let value_bytes = form.value.then_some(line_bytes - 2);
                self.output.push_with(|out| reply.counted(out, value_bytes, &item));
                if form.value {
                    self.output.push(&digits[..line_bytes]);
                }
            }
            Outcome::NotFound => self.push_code(&reply, reply::NOT_FOUND),
            Outcome::Exists => self.push_code(&reply, reply::EXISTS),
            Outcome::OutOfMemory => self.output.push(reply::OUT_OF_MEMORY),
            other => write(self.output, other),
        }
    }

    #[inline]
    fn finish_store(&mut self, index: usize, form: &MetaForm<'i>, outcome: Outcome, value_bytes: usize) {
        // A value that was not stored has no CAS value.
        let (code, cas, value_bytes) = match outcome {
            Outcome::Stored if form.quiet => return,
            Outcome::Stored => (reply::DONE, self.item.cas, self.item.value_bytes),
            Outcome::NotStored => (reply::NOT_STORED, 0, value_bytes),
            Outcome::Exists => (reply::EXISTS, 0, value_bytes),
            Outcome::NotFound => (reply::NOT_FOUND, 0, value_bytes),
            other => return write(self.output, other),
        };
        let reply = self.meta_reply(index, form);
        self.output.push_with(|out| reply.stored(out, code, cas, value_bytes));
    }

    fn finish_delete(&mut self, index: usize, form: &MetaForm<'i>, outcome: Outcome) {
        let code = match outcome {
            Outcome::Deleted if form.quiet => return,
            Outcome::Deleted => reply::DONE,
            Outcome::NotFound => reply::NOT_FOUND,
            Outcome::Exists => reply::EXISTS,
            other => return write(self.output, other),
        };
        let reply = self.meta_reply(index, form);
        self.push_code(&reply, code);
    }

    fn push_code(&mut self, reply: &Reply<'_>, code: &[u8]) {
        self.output.push_with(|out| reply.other(out, code));
    }

    #[inline]
    fn meta_reply<'r>(&self, index: usize, form: &'r MetaForm<'i>) -> Reply<'r> {
        let key = self.requests[index].key;
        Reply { fields: &form.fields, key, base64: form.base64, now_s: self.now_s }
    }

    #[inline]
    fn meta_item(&self) -> MetaItem {
        let item = &self.item;
        MetaItem {
            flags: item.flags,
            value_bytes: item.value_bytes,
            cas: item.cas,
            expiry_before_s: item.expiry_before.0,
            created: item.created,
            // An unknown access counts from now on.
            access_age_s: match item.access_s {
                0 => 0,
                access_s => self.now_s.saturating_sub(access_s),
            },
            fetched: item.fetched,
            stale: item.stale,
            won: item.won,
            token_sent: item.token_sent,
        }
    }
}
