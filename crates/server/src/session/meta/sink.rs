//! Replies to the meta commands of a batch.

use micanite_engine::{Operation, Outcome};
use micanite_wire::memcache::text::meta::MetaLine;
use micanite_wire::memcache::text::meta::reply::{self, MetaItem, Reply};
use micanite_wire::memcache::text::reply as classic;

use super::super::sink::{Sink, write};
use super::META_REPLY_BYTES_MAX;

impl<'i> Sink<'_, 'i, '_> {
    /// Room for the value of an item that was described.
    #[inline]
    pub(in super::super) fn reserve_meta(&mut self, index: usize, value_bytes: usize) -> Option<&mut [u8]> {
        let reply_bytes = META_REPLY_BYTES_MAX + value_bytes + 2;
        if !self.has_room(index, reply_bytes) {
            return None;
        }
        let (reply, item) = (self.meta_reply(index), self.meta_item());
        self.output.push_with(|out| reply.got(out, true, &item));
        Some(self.output.give(value_bytes))
    }

    /// Answers a request that has ended; the value of a hit stands in the output already.
    #[inline]
    pub(in super::super) fn finish_meta(&mut self, index: usize, outcome: Outcome) {
        match self.requests[index].operation {
            Operation::MetaGet(get) => self.finish_get(index, outcome, get.value),
            Operation::MetaArithmetic(_) => self.finish_number(index, outcome),
            Operation::Store { value, .. } => {
                self.item.value_bytes = value.len();
                self.finish_store(index, outcome, value.len());
            }
            Operation::MetaStore(store) => self.finish_store(index, outcome, store.value.len()),
            _ => self.finish_delete(index, outcome),
        }
    }

    #[inline]
    fn finish_get(&mut self, index: usize, outcome: Outcome, value: bool) {
        let (reply, item) = (self.meta_reply(index), self.meta_item());
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
                if !self.pending[index].noreply {
                    self.output.push_with(|out| reply.other(out, reply::MISS));
                }
            }
            other => write(self.output, other),
        }
    }

    fn finish_number(&mut self, index: usize, outcome: Outcome) {
        let (reply, item) = (self.meta_reply(index), self.meta_item());
        match outcome {
            Outcome::Number(number) => {
                if self.pending[index].noreply {
                    return;
                }
                let mut digits = [0; classic::NUMBER_BYTES_MAX];
                let line_bytes = classic::number(&mut digits, number);
                let value = reply.words.into_iter().any(|(flag, _)| flag == b'v');
                let shown = value.then_some(line_bytes - 2);
                self.output.push_with(|out| reply.counted(out, shown, &item));
                if value {
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
    fn finish_store(&mut self, index: usize, outcome: Outcome, value_bytes: usize) {
        let reply = self.meta_reply(index);
        // What has not been stored has no CAS value.
        let (code, cas, value_bytes) = match outcome {
            Outcome::Stored if self.pending[index].noreply => return,
            Outcome::Stored => (reply::DONE, self.item.cas, self.item.value_bytes),
            Outcome::NotStored => (reply::NOT_STORED, 0, value_bytes),
            Outcome::Exists => (reply::EXISTS, 0, value_bytes),
            Outcome::NotFound => (reply::NOT_FOUND, 0, value_bytes),
            other => return write(self.output, other),
        };
        self.output.push_with(|out| reply.stored(out, code, cas, value_bytes));
    }

    fn finish_delete(&mut self, index: usize, outcome: Outcome) {
        let reply = self.meta_reply(index);
        match outcome {
            Outcome::Deleted => {
                if !self.pending[index].noreply {
                    self.push_code(&reply, reply::DONE);
                }
            }
            Outcome::NotFound => self.push_code(&reply, reply::NOT_FOUND),
            Outcome::Exists => self.push_code(&reply, reply::EXISTS),
            other => write(self.output, other),
        }
    }

    fn push_code(&mut self, reply: &Reply<'_>, code: &[u8]) {
        self.output.push_with(|out| reply.other(out, code));
    }

    /// What the reply to a request is made of.
    #[inline]
    fn meta_reply(&self, index: usize) -> Reply<'i> {
        let text = &self.around.input[self.pending[index].at..];
        let line_bytes = text.iter().position(|byte| *byte == b'\n');
        Reply {
            words: MetaLine::flags_of(&text[..line_bytes.unwrap_or(text.len())]),
            key: self.requests[index].key,
            base64: self.around.base64,
            now_s: self.around.now_s,
        }
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
            // Nobody knows: it counts from now on.
            access_age_s: match item.access_s {
                0 => 0,
                access_s => self.around.now_s.saturating_sub(access_s),
            },
            fetched: item.fetched,
            stale: item.stale,
            won: item.won,
            token_sent: item.token_sent,
        }
    }
}
