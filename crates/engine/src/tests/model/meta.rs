//! Meta operations: the requests, and the replies that they must get.

use super::check::changed_number;
use super::{Action, Item, Model};
use crate::tests::support::Reply;
use crate::*;

/// Least CAS value that clients choose.
const CHOSEN: u64 = 1 << 60;

impl Model {
    /// Draws a CAS value that no item has, or none.
    fn chosen(&mut self, drawn: usize) -> u64 {
        self.stamp += 1;
        if drawn.is_multiple_of(4) { CHOSEN + self.stamp } else { 0 }
    }

    /// Draws a CAS value to compare, which may be the item's.
    fn compared(&self, key: usize, drawn: usize) -> Option<u64> {
        let last = self.keys[key].given.last().copied().unwrap_or(u64::MAX);
        drawn.is_multiple_of(3).then_some(last)
    }

    pub(super) fn meta_get(&mut self, extra: usize, expiry: Expiry) -> Action {
        let now_s = self.workers.now_s;
        Action::MetaGet(MetaGet {
            value: true,
            cas: extra % 4 == 1,
            access: (extra / 4).is_multiple_of(16),
            uncounted: (extra / 64).is_multiple_of(4),
            touch: (extra / 256).is_multiple_of(8).then_some(expiry),
            touch_first: extra.is_multiple_of(2),
            vivify: (extra / 2048).is_multiple_of(4).then_some(expiry),
            recache: (extra / 8192).is_multiple_of(2).then_some(Expiry(now_s + 10)),
            unless_cas: None,
            new_cas: self.chosen(extra / 4096),
            leaves_token: false,
        })
    }

    pub(super) fn meta_store(&mut self, key: usize, (size, extra): (usize, usize), expiry: Expiry) -> Action {
        let modes = [
            StoreMode::Set,
            StoreMode::Add,
            StoreMode::Replace,
            StoreMode::Append,
            StoreMode::Prepend,
            StoreMode::AppendOrSet,
            StoreMode::PrependOrSet,
            StoreMode::Set,
        ];
        let bytes = size % (self.value_bytes_max + 2);
        let store = MetaStore {
            flags: [0, extra as u32][extra / 512 % 2],
            expiry,
            mode: modes[extra % 8],
            cas: (extra / 8).is_multiple_of(2),
            stale: (extra / 16).is_multiple_of(4),
            compare: self.compared(key, extra / 64),
            new_cas: self.chosen(extra / 32),
            ..MetaStore::default()
        };
        let value = self.value(bytes, (extra / 1024).is_multiple_of(8));
        Action::MetaStore { store, value }
    }

    pub(super) fn meta_delete(&mut self, key: usize, extra: usize, expiry: Expiry) -> Action {
        Action::MetaDelete(MetaDelete {
            compare: self.compared(key, extra),
            new_cas: self.chosen(extra / 4),
            invalidate: (extra / 16).is_multiple_of(2),
            empty: (extra / 32).is_multiple_of(4).then_some(extra as u32),
            expiry: (extra / 128).is_multiple_of(2).then_some(expiry),
        })
    }

    pub(super) fn meta_arithmetic(
        &mut self,
        key: usize,
        (size, extra): (usize, usize),
        expiry: Expiry,
    ) -> Action {
        Action::MetaArithmetic(MetaArithmetic {
            delta: size as u64 % 200,
            decrement: extra.is_multiple_of(2),
            cas: (extra / 2).is_multiple_of(2),
            compare: self.compared(key, extra / 8).unwrap_or(0),
            new_cas: self.chosen(extra / 16),
            vivify: (extra / 64).is_multiple_of(2).then_some(expiry),
            initial: extra as u64,
            touch: (extra / 128).is_multiple_of(4).then_some(expiry),
        })
    }

    pub(super) fn check_meta_get(&mut self, key: usize, get: &MetaGet, reply: &Reply) {
        let outcome = reply.outcome.unwrap();
        let missing = match get.vivify {
            Some(_) => Outcome::Stored,
            None => Outcome::NotFound,
        };
        let found = self.check_found(key, outcome, &[Outcome::Hit], missing);
        if let (false, Some(expiry)) = (found, get.vivify) {
            assert!(reply.item.won && reply.item.created);
            self.put(key, &[], (0, expiry), (get.cas.then_some(reply.item.cas), get.new_cas));
            self.item(key).token_sent = true;
        }
        let Some(item) = self.keys[key].item.as_mut().filter(|_| found) else {
            return;
        };
        assert!(item.value == reply.value && item.flags == reply.flags);
        let said = reply.item;
        assert_eq!((said.stale, said.token_sent), (item.stale, item.token_sent));
        assert_eq!(said.expiry_before, item.expiry);
        let expiry = match get.touch {
            Some(touch) if get.touch_first => touch,
            _ => item.expiry,
        };
        let near = get.recache.is_some_and(|at| expiry != Expiry::NEVER && expiry < at);
        assert_eq!(said.won, !item.token_sent && (item.stale || near));
        item.token_sent |= said.won;
        item.expiry = get.touch.unwrap_or(item.expiry);
        if get.cas {
            self.keys[key].check_cas(said.cas);
        }
    }

    /// Returns the model's item of a key that has one.
    fn item(&mut self, key: usize) -> &mut Item {
        self.keys[key].item.as_mut().unwrap()
    }

    /// Puts a new item into the model, whose CAS value a client may know or have chosen.
    fn put(
        &mut self,
        key: usize,
        value: &[u8],
        (flags, expiry): (u32, Expiry),
        (returned, chosen): (Option<u64>, u64),
    ) {
        self.keys[key].item = Some(Item {
            value: value.to_vec(),
            flags,
            expiry,
            cas_is_known: false,
            stale: false,
            token_sent: false,
        });
        self.check_new_cas(key, returned, chosen);
    }

    fn check_new_cas(&mut self, key: usize, returned: Option<u64>, chosen: u64) {
        self.item(key).cas_is_known = false;
        if chosen != 0 {
            assert!(returned.is_none_or(|returned| returned == chosen));
            self.keys[key].check_cas(chosen);
        } else if let Some(returned) = returned {
            self.keys[key].check_cas(returned);
        }
    }

    /// Returns whether a CAS value is that of the item, as far as the model knows.
    fn is_last(&self, key: usize, cas: u64) -> bool {
        let known = &self.keys[key];
        let item_is_known = known.item.as_ref().is_some_and(|item| item.cas_is_known);
        item_is_known && known.given.last() == Some(&cas)
    }

    pub(super) fn check_meta_store(
        &mut self,
        key: usize,
        store: &MetaStore<'_>,
        value: &[u8],
        reply: &Reply,
    ) {
        use StoreMode::*;
        let outcome = reply.outcome.unwrap();
        if value.len() > self.value_bytes_max {
            return assert_eq!(outcome, Outcome::TooLarge);
        }
        let missing = match (store.mode, store.compare) {
            (Set | Replace, Some(_)) => Outcome::NotFound,
            (Replace | Append | Prepend, _) => Outcome::NotStored,
            _ => Outcome::Stored,
        };
        let returned = store.cas.then_some(reply.item.cas);
        // A store without a condition does not tell whether there was an item.
        let was_there = match (store.mode, missing) {
            (Set | AppendOrSet | PrependOrSet, Outcome::Stored) => {
                let now_s = self.workers.now_s;
                let known = &mut self.keys[key];
                known.item.take_if(|item| item.expiry.has_passed(now_s));
                outcome == Outcome::Exists || !reply.item.created && known.item.is_some()
            }
            _ => {
                let all = [Outcome::Stored, Outcome::Exists, Outcome::TooLarge, Outcome::NotStored];
                let if_found = all.map(|one| if one == missing { Outcome::Hit } else { one });
                self.check_found(key, outcome, &if_found, missing)
            }
        };
        if outcome != Outcome::Stored {
            return;
        }
        let last = store.compare.is_none_or(|cas| self.is_last(key, cas));
        let joined = match store.mode {
            Append | AppendOrSet if was_there => Some(self.item(key).value.len()),
            Prepend | PrependOrSet if was_there => Some(0),
            _ => None,
        };
        match joined {
            Some(at) => {
                assert!(last, "joined although another CAS value was asked for");
                let item = self.item(key);
                item.value.splice(at..at, value.iter().copied());
                (item.stale, item.token_sent) = (false, false);
                self.check_new_cas(key, returned, store.new_cas);
            }
            None => {
                let stale = was_there && !last;
                assert!(!stale || store.stale, "stored although the CAS value is another one");
                let newer = self.keys[key].item.as_ref().filter(|_| stale);
                let kept = newer.map(|item| (item.expiry, item.token_sent));
                let expiry = kept.map_or(store.expiry, |(expiry, _)| expiry);
                self.put(key, value, (store.flags, expiry), (returned, store.new_cas));
                let item = self.item(key);
                (item.stale, item.token_sent) = (stale, kept.is_some_and(|(_, sent)| sent));
            }
        }
        assert_eq!(reply.item.value_bytes, self.item(key).value.len());
    }

    pub(super) fn check_meta_delete(&mut self, key: usize, delete: &MetaDelete, outcome: Outcome) {
        let if_found = [Outcome::Deleted, Outcome::Exists];
        if !self.check_found(key, outcome, &if_found, Outcome::NotFound) {
            return;
        }
        let last = delete.compare.is_none_or(|cas| self.is_last(key, cas));
        assert_eq!(outcome == Outcome::Deleted, last);
        if outcome == Outcome::Exists {
            return;
        }
        if !delete.invalidate && delete.empty.is_none() {
            self.keys[key].item = None;
            return;
        }
        let item = self.item(key);
        item.expiry = delete.expiry.unwrap_or(item.expiry);
        if let Some(flags) = delete.empty {
            item.value.clear();
            item.flags = flags;
            item.expiry = delete.expiry.unwrap_or(Expiry::NEVER);
            item.stale = false;
        }
        item.stale |= delete.invalidate;
        item.token_sent = false;
        if delete.invalidate || delete.new_cas != 0 {
            self.check_new_cas(key, None, delete.new_cas);
        }
    }

    pub(super) fn check_meta_arithmetic(&mut self, key: usize, by: &MetaArithmetic, reply: &Reply) {
        let outcome = reply.outcome.unwrap();
        let returned = by.cas.then_some(reply.item.cas);
        let begun = outcome == Outcome::Number(by.initial) && reply.item.created;
        let missing = if begun { outcome } else { Outcome::NotFound };
        let known = self.keys[key].item.as_ref();
        let empty = known.is_some_and(|item| item.value.is_empty());
        let changed = known.and_then(|item| changed_number(&item.value, !by.decrement, by.delta));
        let other = by.compare != 0 && !self.is_last(key, by.compare);
        let expected = match changed {
            _ if !empty && other => Outcome::Exists,
            Some(number) => Outcome::Number(number),
            None => Outcome::NotANumber,
        };
        // A value that is too long is not a number.
        let if_found = match expected {
            _ if begun => [Outcome::Hit; 2],
            Outcome::Exists => [expected; 2],
            _ => [expected, Outcome::NotANumber],
        };
        let found = self.check_found(key, outcome, &if_found, missing);
        if begun {
            let expiry = by.vivify.unwrap();
            let value = by.initial.to_string().into_bytes();
            self.put(key, &value, (0, expiry), (returned, by.new_cas));
        } else if let (true, Outcome::Number(number)) = (found, outcome) {
            let item = self.item(key);
            let width = item.value.len();
            item.value = format!("{number:<width$}").into_bytes();
            item.expiry = by.touch.unwrap_or(item.expiry);
            if item.value.len() != width {
                (item.stale, item.token_sent) = (false, false);
            }
            self.check_new_cas(key, returned, by.new_cas);
        }
    }
}
