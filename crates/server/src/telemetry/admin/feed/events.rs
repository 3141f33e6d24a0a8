//! Recent events, a bounded number. What happens again within a minute counts into the event that is there,
//! so that clients cannot push others out.

use std::collections::VecDeque;

use crate::limits::{CONSOLE_EVENT_BYTES_MAX, CONSOLE_EVENTS_MAX};

/// An event of the same kind within this time is the same event.
const TOGETHER_S: u32 = 60;

/// Kinds of events; refusals are those that clients can provoke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Start,
    End,
    Routes,
    Secrets,
    Refusal,
    Control,
    Login,
}

impl Kind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::End => "end",
            Self::Routes => "routes",
            Self::Secrets => "secrets",
            Self::Refusal => "refusal",
            Self::Control => "control",
            Self::Login => "login",
        }
    }
}

#[derive(Debug)]
pub(super) struct Event {
    /// Identity; it stays when the event is counted further.
    pub id: u64,
    /// Number of the last change.
    pub number: u64,
    pub kind: Kind,
    pub first_s: u32,
    pub last_s: u32,
    pub text: String,
    /// How often it happened, for a refusal.
    pub count: u64,
}

/// Events, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Events {
    events: VecDeque<Event>,
    last: u64,
}

impl Events {
    /// Adds what happened once.
    pub fn add(&mut self, kind: Kind, now_s: u32, text: impl Into<String>) {
        self.count(kind, now_s, text, 1, 0);
    }

    /// Adds what happened `count` times; the same within [`TOGETHER_S`] is one event.
    pub fn add_many(&mut self, kind: Kind, now_s: u32, text: &str, count: u64) {
        self.count(kind, now_s, text, count, TOGETHER_S);
    }

    fn count(&mut self, kind: Kind, now_s: u32, text: impl Into<String>, count: u64, together_s: u32) {
        self.last += 1;
        let number = self.last;
        let text = cut(text.into().replace(char::is_control, "?"));
        let is_same = |event: &&mut Event| {
            event.kind == kind && event.text == text && now_s < event.first_s.saturating_add(together_s)
        };
        if let Some(event) = self.events.iter_mut().rev().find(is_same) {
            (event.number, event.last_s) = (number, now_s);
            event.count += count;
            return;
        }
        if self.events.len() == CONSOLE_EVENTS_MAX {
            self.events.pop_front();
        }
        let (first_s, last_s) = (now_s, now_s);
        self.events.push_back(Event { id: number, number, kind, first_s, last_s, text, count });
    }

    /// Returns the events that have changed after this number, in the order of their changes.
    pub fn since(&self, number: u64) -> Vec<&Event> {
        let mut changed: Vec<_> = self.events.iter().filter(|event| event.number > number).collect();
        changed.sort_by_key(|event| event.number);
        changed
    }
}

fn cut(mut text: String) -> String {
    if text.len() > CONSOLE_EVENT_BYTES_MAX {
        let end = (0..=CONSOLE_EVENT_BYTES_MAX - 3).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or(0));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_within_a_minute_are_one_event() {
        let mut events = Events::default();
        events.add(Kind::Start, 100, "started");
        for second in 0..200 {
            events.add_many(Kind::Refusal, 100 + second, "connections refused", 2);
        }
        let found: Vec<_> = events.since(0).iter().map(|it| (it.id, it.kind, it.count)).collect();
        let refusal = Kind::Refusal;
        let expected = [
            (1, Kind::Start, 1),
            (2, refusal, 120),
            (62, refusal, 120),
            (122, refusal, 120),
            (182, refusal, 40),
        ];
        assert_eq!(found, expected);
        assert_eq!(events.since(200).iter().map(|it| (it.id, it.last_s)).collect::<Vec<_>>(), [(182, 299)]);
    }

    #[test]
    fn the_list_and_its_texts_are_bounded() {
        let mut events = Events::default();
        for number in 0..3 * CONSOLE_EVENTS_MAX {
            events.add(Kind::Control, 5, format!("{number} {}", "ä".repeat(500)));
        }
        let all = events.since(0);
        assert_eq!(all.len(), CONSOLE_EVENTS_MAX);
        assert!(all.iter().all(|event| event.text.len() <= CONSOLE_EVENT_BYTES_MAX));
    }
}
