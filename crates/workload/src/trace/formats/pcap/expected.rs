//! Requests that a server has not answered yet.

use std::collections::VecDeque;

use super::queue::Queue;
use crate::trace::Outcome;

/// The commands whose answer is one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Store,
    Delete,
    Touch,
    Arithmetic,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meta {
    Get,
    Store,
    Delete,
    Arithmetic,
    Debug,
    Noop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Values, then `END`; `is_open` if more keys of the same command follow.
    Values {
        is_open: bool,
    },
    Line(Change),
    /// One line that says nothing of an item.
    OtherLine,
    /// Lines up to `END`.
    Statistics,
    /// One line or value, or nothing; what it repeats of the request, as hashes.
    Meta {
        verb: Meta,
        opaque: Option<u64>,
        key: Option<u64>,
        is_quiet: bool,
    },
    /// A message of the binary protocol, or nothing.
    Binary {
        opcode: u8,
        opaque: [u8; 4],
        is_quiet: bool,
        reads: bool,
    },
}

impl Answer {
    /// Returns how a request ended that was answered by nothing; none if it has to be answered.
    fn silent_outcome(self) -> Option<Outcome> {
        match self {
            Self::Meta { verb, is_quiet: true, .. } => Some(match verb {
                Meta::Get => Outcome::Miss,
                Meta::Store => Outcome::Hit,
                _ => Outcome::Unknown,
            }),
            Self::Binary { is_quiet: true, reads, .. } => {
                Some(if reads { Outcome::Miss } else { Outcome::Hit })
            }
            _ => None,
        }
    }
}

/// A command that is to be answered: its requests are numbered from `first`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    pub first: u64,
    pub requests: u32,
    pub answer: Answer,
}

impl Expected {
    fn settle(&self, queue: &mut Queue, outcome: Outcome) {
        for number in self.first..self.first + u64::from(self.requests) {
            queue.settle(number, outcome, None);
        }
    }
}

/// All that is expected of a conversation, in order.
#[derive(Default)]
pub(super) struct Expectations {
    expected: VecDeque<Expected>,
    /// True if the next answer may be another one's: some were lost.
    is_adrift: bool,
}

impl Expectations {
    pub fn push(&mut self, expected: Expected) {
        // More keys of a command that was too long to be looked at in one piece.
        if let Some(last) = self.expected.back_mut()
            && last.answer == (Answer::Values { is_open: true })
            && matches!(expected.answer, Answer::Values { .. })
        {
            last.requests += expected.requests;
            last.answer = expected.answer;
            return;
        }
        self.expected.push_back(expected);
    }

    pub fn is_adrift(&self) -> bool {
        self.is_adrift
    }

    /// Answers were lost, or are not what they should be.
    pub fn get_adrift(&mut self) {
        self.is_adrift = true;
    }

    /// The next answer is that of the next command.
    pub fn restart(&mut self, queue: &mut Queue) {
        for expected in self.expected.drain(..) {
            expected.settle(queue, Outcome::Unknown);
        }
        self.expected.shrink_to(0);
        self.is_adrift = false;
    }

    pub fn held_bytes(&self) -> usize {
        self.expected.capacity() * size_of::<Expected>()
    }

    /// The first command that must be answered, or has to be if this is an answer.
    pub fn head(&mut self, queue: &mut Queue) -> Option<Expected> {
        while let Some(first) = self.expected.front() {
            let Some(outcome) = first.answer.silent_outcome() else {
                return Some(*first);
            };
            first.settle(queue, outcome);
            self.expected.pop_front();
        }
        None
    }

    /// The first command is answered.
    pub fn answered(&mut self, queue: &mut Queue, outcome: Outcome) {
        if let Some(first) = self.expected.pop_front() {
            first.settle(queue, outcome);
        }
    }

    /// The first command that this is an answer of is answered; those before it that may be silent
    /// were, and whether there are others is told by `may_overtake`.
    pub fn answer(
        &mut self,
        queue: &mut Queue,
        may_overtake: bool,
        is_it: impl Fn(&Expected, &Queue) -> bool,
        outcome: Outcome,
        value_bytes: Option<u32>,
    ) -> bool {
        let mut found = None;
        for (place, one) in self.expected.iter().enumerate() {
            if is_it(one, queue) {
                found = Some(place);
                break;
            }
            if !may_overtake && one.answer.silent_outcome().is_none() {
                break;
            }
        }
        let Some(place) = found else {
            return false;
        };
        for before in self.expected.drain(..place) {
            let outcome = before.answer.silent_outcome();
            before.settle(queue, outcome.unwrap_or_default());
        }
        if let Some(one) = self.expected.pop_front()
            && one.requests > 0
        {
            queue.settle(one.first, outcome, value_bytes);
        }
        self.is_adrift = false;
        true
    }

    /// A value was found; whether somebody has asked for it.
    pub fn value(&mut self, queue: &mut Queue, key: &[u8], value_bytes: u32) -> bool {
        if !self.is_adrift
            && let Some(head) = self.head(queue)
            && queue.get(head.first).is_none()
            && head.requests > 0
        {
            // The first requests have left the queue after a long wait. The value counts as theirs.
            return true;
        }
        let has_it = |expected: &Expected| {
            let numbers = expected.first..expected.first + u64::from(expected.requests);
            matches!(expected.answer, Answer::Values { .. }).then_some(())?;
            numbers.clone().find(|number| queue.get(*number).is_some_and(|request| request.key() == key))
        };
        let found = if self.is_adrift {
            let mut all = self.expected.iter().enumerate();
            all.find_map(|(place, expected)| Some((place, has_it(expected)?)))
        } else {
            self.expected.front().and_then(|first| Some((0, has_it(first)?)))
        };
        let Some((place, number)) = found else {
            return false;
        };
        for before in self.expected.drain(..place) {
            before.settle(queue, Outcome::Unknown);
        }
        self.is_adrift = false;
        if let Some(first) = self.expected.front_mut() {
            for missed in first.first..number {
                queue.settle(missed, Outcome::Miss, None);
            }
            queue.settle(number, Outcome::Hit, Some(value_bytes));
            first.requests -= (number + 1 - first.first) as u32;
            first.first = number + 1;
        }
        true
    }
}
