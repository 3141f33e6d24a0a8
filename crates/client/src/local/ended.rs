//! Operations that have ended and are not delivered.

use std::collections::VecDeque;
use std::ops::Range;

use super::stream::empty;
use crate::operation::{Completion, Opcode, Outcome};

/// An operation that has ended.
#[derive(Debug)]
struct Ended {
    token: u64,
    opcode: Opcode,
    outcome: Outcome,
    is_local: bool,
    flags: u32,
    cas: Option<u64>,
    number: u64,
    /// Place of the value among all values.
    value: Range<usize>,
}

/// Operations in the order of their ends.
#[derive(Debug, Default)]
pub(crate) struct EndedList {
    list: VecDeque<Ended>,
    values: Vec<u8>,
}

impl EndedList {
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the memory of the values.
    #[cfg(test)]
    pub(super) fn kept_bytes(&self) -> usize {
        self.values.capacity()
    }

    /// Keeps a completion.
    pub fn keep(&mut self, of: &Completion<'_>) {
        let start = self.values.len();
        self.values.extend_from_slice(of.value);
        self.list.push_back(Ended {
            token: of.token,
            opcode: of.opcode,
            outcome: of.outcome,
            is_local: of.one_sided,
            flags: of.flags,
            cas: of.cas,
            number: of.number,
            value: start..self.values.len(),
        });
    }

    /// Drops all of them but those with some tokens.
    pub fn retain(&mut self, is_kept: impl Fn(u64) -> bool) {
        self.list.retain(|ended| is_kept(ended.token));
    }

    /// Passes all of them on. Returns their number. If the sink panics, the others wait for the next time.
    pub fn deliver(&mut self, mut sink: impl FnMut(Completion<'_>)) -> usize {
        let mut count = 0;
        while let Some(ended) = self.list.pop_front() {
            count += 1;
            let base = Completion::without_reply(ended.token, ended.opcode, ended.outcome);
            let (flags, cas, number) = (ended.flags, ended.cas, ended.number);
            let value = &self.values[ended.value];
            sink(Completion { flags, cas, number, value, one_sided: ended.is_local, ..base });
        }
        empty(&mut self.values);
        count
    }
}
