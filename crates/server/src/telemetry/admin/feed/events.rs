//! Recent events, a bounded number. What happens again within a minute counts into the event that is there. A
//! new event takes the place of the oldest of the most frequent kind, so that clients cannot push others out.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::limits::{CONSOLE_EVENT_BYTES_MAX, CONSOLE_EVENTS_MAX};

/// An event of the same kind within this time is the same event.
const TOGETHER_S: u32 = 60;

/// Kinds of events; refusals are those that clients can provoke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
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

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
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
    /// Goes on after events that the previous program kept; the oldest go if there are too many.
    pub fn go_on(last: u64, events: Vec<Event>) -> Self {
        let surplus = events.len().saturating_sub(CONSOLE_EVENTS_MAX);
        let kept = events.into_iter().skip(surplus).map(|event| {
            let text = shortened(&event.text, CONSOLE_EVENT_BYTES_MAX);
            Event { text, ..event }
        });
        Self { events: kept.collect(), last }
    }

    /// Returns the number of the last change.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Returns all events, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Event> {
        self.events.iter()
    }

    /// Adds what happened once.
    pub fn add(&mut self, kind: Kind, now_s: u32, text: impl Into<String>) {
        self.push(kind, now_s, shortened(&text.into(), CONSOLE_EVENT_BYTES_MAX), 1);
    }

    /// Adds an action of a user and its outcome, which a long action does not push out.
    pub fn add_outcome(&mut self, now_s: u32, what: &str, outcome: &str) {
        let outcome = shortened(outcome, CONSOLE_EVENT_BYTES_MAX / 2);
        let what = shortened(what, CONSOLE_EVENT_BYTES_MAX - outcome.len() - 2);
        self.push(Kind::Control, now_s, format!("{what}: {outcome}"), 1);
    }

    /// Adds a refusal that happened `count` times; the same within [`TOGETHER_S`] is one event. The detail,
    /// such as an address, is that of the last time.
    pub fn add_refusals(&mut self, now_s: u32, what: &str, detail: &str, count: u64) {
        let kind = Kind::Refusal;
        let is_same = |event: &&mut Event| {
            let is_recent = now_s < event.first_s.saturating_add(TOGETHER_S);
            event.kind == kind && event.text.starts_with(what) && is_recent
        };
        let text = shortened(&format!("{what}{detail}"), CONSOLE_EVENT_BYTES_MAX);
        let Some(event) = self.events.iter_mut().rev().find(is_same) else {
            return self.push(kind, now_s, text, count);
        };
        self.last += 1;
        (event.number, event.last_s, event.text) = (self.last, now_s, text);
        event.count += count;
    }

    fn push(&mut self, kind: Kind, now_s: u32, text: String, count: u64) {
        self.last += 1;
        if self.events.len() == CONSOLE_EVENTS_MAX {
            self.make_room();
        }
        let (id, number, first_s, last_s) = (self.last, self.last, now_s, now_s);
        self.events.push_back(Event { id, number, kind, first_s, last_s, text, count });
    }

    /// Removes the oldest event of the kind that has the most.
    fn make_room(&mut self) {
        let count = |kind: Kind| self.events.iter().filter(|event| event.kind == kind).count();
        let most = self.events.iter().map(|event| event.kind).max_by_key(|kind| count(*kind));
        if let Some(oldest) = self.events.iter().position(|event| Some(event.kind) == most) {
            self.events.remove(oldest);
        }
    }

    /// Returns the events that have changed after this number, in the order of their changes.
    pub fn since(&self, number: u64) -> Vec<&Event> {
        let mut changed: Vec<_> = self.events.iter().filter(|event| event.number > number).collect();
        changed.sort_by_key(|event| event.number);
        changed
    }
}

/// Returns a text of at most so many bytes, without control characters.
fn shortened(text: &str, bytes_max: usize) -> String {
    let mut text = text.replace(char::is_control, "?");
    if text.len() > bytes_max {
        let end = (0..=bytes_max - 3).rev().find(|at| text.is_char_boundary(*at));
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
            events.add_refusals(100 + second, "connections refused", "", 2);
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
    fn refusals_with_many_addresses_are_one_event() {
        let mut events = Events::default();
        for number in 0..200 {
            events.add_refusals(100, "login refused", &format!(", last from 10.0.0.{number}"), 1);
            events.add_refusals(100, "values refused", "", 1);
        }
        let found: Vec<_> = events.since(0).iter().map(|it| (it.text.as_str(), it.count)).collect();
        assert_eq!(found, [("login refused, last from 10.0.0.199", 200), ("values refused", 200)]);
    }

    #[test]
    fn refusals_do_not_push_other_events_out() {
        let mut events = Events::default();
        events.add(Kind::Start, 0, "started");
        for minute in 0..3 * CONSOLE_EVENTS_MAX as u32 {
            events.add_refusals(minute * TOGETHER_S, "login refused", "", 1);
            events.add(Kind::Control, minute * TOGETHER_S, "mode");
        }
        let count = |kind| events.since(0).iter().filter(|event| event.kind == kind).count();
        assert_eq!(count(Kind::Start), 1);
        assert_eq!(count(Kind::Refusal) + count(Kind::Control), CONSOLE_EVENTS_MAX - 1);
        assert!(count(Kind::Control) >= CONSOLE_EVENTS_MAX / 2 - 1);
    }

    #[test]
    fn a_long_action_keeps_its_outcome() {
        let mut events = Events::default();
        let what = format!("ada: flush {}", "ä".repeat(300));
        events.add_outcome(5, &what, "no namespace\nof this name");
        events.add_outcome(5, "ada: mode crew", &"é".repeat(300));
        let texts: Vec<_> = events.since(0).iter().map(|event| event.text.clone()).collect();
        assert!(texts[0].starts_with("ada: flush ä") && texts[0].ends_with("…: no namespace?of this name"));
        assert!(texts[1].starts_with("ada: mode crew: é") && texts[1].ends_with('…'));
        assert!(texts.iter().all(|text| text.len() <= CONSOLE_EVENT_BYTES_MAX));
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
