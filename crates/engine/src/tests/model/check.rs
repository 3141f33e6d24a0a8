//! Checks of replies.

use super::batch::{Action, OwnedRequest};
use super::{CAS_VALUES_MAX, Item, Key, Model, NUMBER_BYTES_MAX};
use crate::tests::support::Reply;
use crate::*;

impl Key {
    /// Compares a CAS value with earlier ones, and records it.
    pub(super) fn check_cas(&mut self, cas: u64) {
        assert_ne!(cas, 0);
        let Some(item) = &mut self.item else { return };
        if item.cas_is_known {
            assert_eq!(self.given.last(), Some(&cas), "the CAS value changed without a write");
            return;
        }
        assert!(!self.given.contains(&cas), "the CAS value {cas} of an earlier value");
        if self.given.len() == CAS_VALUES_MAX {
            self.given.remove(0);
        }
        self.given.push(cas);
        item.cas_is_known = true;
    }
}

/// Returns the new number for the one at the start of a value.
pub(super) fn changed_number(value: &[u8], up: bool, delta: u64) -> Option<u64> {
    if value.len() > NUMBER_BYTES_MAX {
        return None;
    }
    let word = value.split(|byte| *byte == b' ').next()?;
    let number: u64 = std::str::from_utf8(word).ok()?.parse().ok()?;
    Some(if up { number.wrapping_add(delta) } else { number.saturating_sub(delta) })
}

impl Model {
    /// Compares a reply with the model, and changes the model as the request asks.
    pub(super) fn check(&mut self, request: &OwnedRequest, reply: &Reply) {
        let key = request.key;
        let outcome = reply.outcome.unwrap();
        self.keys[key].learn(reply.entry);
        if self.is_refused(&request.action, outcome) {
            return;
        }
        match &request.action {
            Action::Get { cas } => self.check_get(key, reply, *cas),
            Action::GetEntry => self.check_get(key, reply, false),
            Action::GetAndTouch { expiry, cas } => {
                self.check_get(key, reply, *cas);
                self.set_expiry(key, *expiry);
            }
            Action::Store { condition, value, flags, expiry }
            | Action::StoreEntry { condition, value, flags, expiry } => {
                if self.check_store(key, *condition, value, outcome) {
                    self.keys[key].item = Some(Item {
                        value: value.clone(),
                        flags: *flags,
                        expiry: *expiry,
                        cas_is_known: false,
                        stale: false,
                        token_sent: false,
                    });
                }
            }
            Action::Concatenate { before, more } => {
                self.check_concatenate(key, *before, more, outcome);
            }
            Action::Arithmetic { up, delta } => self.check_arithmetic(key, *up, *delta, outcome),
            Action::Touch { expiry } => {
                self.check_found(key, outcome, &[Outcome::Touched], Outcome::NotFound);
                self.set_expiry(key, *expiry);
            }
            Action::Delete => {
                self.check_found(key, outcome, &[Outcome::Deleted], Outcome::NotFound);
                self.keys[key].item = None;
            }
            Action::MetaGet(get) => self.check_meta_get(key, get, reply),
            Action::MetaStore { store, value } => self.check_meta_store(key, store, value, reply),
            Action::MetaDelete(delete) => self.check_meta_delete(key, delete, outcome),
            Action::MetaArithmetic(by) => self.check_meta_arithmetic(key, by, reply),
        }
    }

    /// Returns whether a write was refused for lack of space, as only a store may, and only if it
    /// takes space.
    fn is_refused(&mut self, action: &Action, outcome: Outcome) -> bool {
        let refused = outcome == Outcome::OutOfMemory;
        let takes_space = !matches!(action, Action::Get { .. } | Action::GetEntry | Action::Delete);
        assert!(!refused || self.is_store && takes_space);
        self.tally.refused += u64::from(refused);
        refused
    }

    /// Compares "there was such an item" with the model, and updates the model. Returns whether
    /// there was.
    pub(super) fn check_found(
        &mut self,
        key: usize,
        outcome: Outcome,
        if_found: &[Outcome],
        if_missing: Outcome,
    ) -> bool {
        let found = outcome != if_missing;
        assert!(!found || if_found.contains(&outcome), "{outcome:?}");
        let now_s = self.workers.now_s;
        let known = &mut self.keys[key];
        if let Some(item) = &known.item
            && item.expiry.has_passed(now_s)
        {
            known.item = None;
        }
        if known.item.is_some() && !found {
            known.item = None;
            self.record_loss(key);
        } else if self.keys[key].item.is_none() && found {
            panic!("found what is not there: {}", self.name(key));
        }
        self.tally.hits += u64::from(found);
        found
    }

    fn name(&self, key: usize) -> String {
        self.keys[key].name.escape_ascii().to_string()
    }

    /// Handles an item that the engine lacks and the model has: some item must have been evicted
    /// since all keys were requested.
    fn record_loss(&mut self, key: usize) {
        assert!(!self.is_store, "a store lost {}", self.name(key));
        self.tally.lost += 1;
        self.lost_lately += 1;
        let stats = self.stats();
        let evicted = stats.evicted_log + stats.evicted_bucket - self.evicted_before;
        assert!(
            self.lost_lately <= evicted,
            "{} items lost since all were asked for, {evicted} evicted; the last is {}",
            self.lost_lately,
            self.name(key)
        );
    }

    fn set_expiry(&mut self, key: usize, expiry: Expiry) {
        if let Some(item) = &mut self.keys[key].item {
            item.expiry = expiry;
        }
    }

    fn check_get(&mut self, key: usize, reply: &Reply, cas: bool) {
        let outcome = reply.outcome.unwrap();
        self.check_found(key, outcome, &[Outcome::Hit], Outcome::NotFound);
        let known = &mut self.keys[key];
        if let Some(item) = &known.item {
            assert!(
                item.value == reply.value && item.flags == reply.flags,
                "{}: {} with flags {}, expected {} with {}",
                known.name.escape_ascii(),
                reply.value.escape_ascii(),
                reply.flags,
                item.value.escape_ascii(),
                item.flags
            );
            if cas {
                known.check_cas(reply.cas);
            }
        }
    }

    /// Returns whether the value was stored, as it should.
    fn check_store(&mut self, key: usize, condition: Condition, value: &[u8], outcome: Outcome) -> bool {
        let too_large = value.len() > self.value_bytes_max;
        assert_eq!(outcome == Outcome::TooLarge, too_large);
        if too_large {
            return false;
        }
        let stored = outcome == Outcome::Stored;
        match condition {
            Condition::Always => assert!(stored, "{outcome:?}"),
            Condition::Absent => {
                self.check_found(key, outcome, &[Outcome::NotStored], Outcome::Stored);
            }
            Condition::Present => {
                self.check_found(key, outcome, &[Outcome::Stored], Outcome::NotStored);
            }
            Condition::Unchanged(cas) => {
                let if_found = [Outcome::Stored, Outcome::Exists];
                self.check_found(key, outcome, &if_found, Outcome::NotFound);
                let known = &self.keys[key];
                if let Some(item) = &known.item {
                    let unchanged = item.cas_is_known && known.given.last() == Some(&cas);
                    assert_eq!(stored, unchanged, "stored, CAS value is the last");
                }
            }
        }
        stored
    }

    fn check_concatenate(&mut self, key: usize, before: bool, more: &[u8], outcome: Outcome) {
        let if_found = [Outcome::Stored, Outcome::TooLarge];
        self.check_found(key, outcome, &if_found, Outcome::NotStored);
        let max = self.value_bytes_max;
        let Some(item) = &mut self.keys[key].item else {
            return;
        };
        let too_large = item.value.len() + more.len() > max;
        assert_eq!(outcome == Outcome::TooLarge, too_large);
        if !too_large {
            let at = if before { 0 } else { item.value.len() };
            item.value.splice(at..at, more.iter().copied());
            item.cas_is_known = false;
            (item.stale, item.token_sent) = (false, false);
        }
    }

    fn check_arithmetic(&mut self, key: usize, up: bool, delta: u64, outcome: Outcome) {
        let expected = self.keys[key].item.as_ref().and_then(|item| changed_number(&item.value, up, delta));
        let if_found = [expected.map_or(Outcome::NotANumber, Outcome::Number)];
        self.check_found(key, outcome, &if_found, Outcome::NotFound);
        if let (Some(item), Some(number)) = (&mut self.keys[key].item, expected) {
            let width = item.value.len();
            item.value = format!("{number:<width$}").into_bytes();
            item.cas_is_known = false;
            if item.value.len() != width {
                (item.stale, item.token_sent) = (false, false);
            }
        }
    }
}
