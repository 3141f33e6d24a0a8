//! A step from a word: every word has a meaning, so that any bytes are a run.

use super::{Action, Model};
use crate::limits::NAMESPACES_MAX;
use crate::*;

/// Namespaces of the keys.
pub(super) const NAMESPACES: [&str; 3] = ["a", "b", "c"];
/// Namespaces without keys, which only fill the table of invalid ones. With these and the others
/// there may be one too many.
const EMPTY_NAMESPACES: usize = NAMESPACES_MAX;

/// Parts of a word.
#[derive(Clone, Copy)]
struct Word(u64);

impl Word {
    /// Returns the kind of step.
    fn kind(self) -> u8 {
        self.0 as u8
    }

    fn key(self) -> usize {
        usize::from((self.0 >> 8) as u16)
    }

    fn size(self) -> usize {
        usize::from((self.0 >> 24) as u16)
    }

    /// Draws an expiry: most items do not expire, some have expired when they are stored.
    fn expiry(self, now_s: u32) -> Expiry {
        match (self.0 >> 40) as u8 {
            0..200 => Expiry::NEVER,
            200..204 => Expiry::PAST,
            drawn => Expiry(now_s + 1 + u32::from(drawn) % 20),
        }
    }

    fn extra(self) -> usize {
        usize::from((self.0 >> 48) as u16)
    }
}

impl Model {
    /// Does the step of a word.
    pub fn step(&mut self, word: u64) {
        let word = Word(word);
        match word.kind() {
            0..222 => self.ask_for(word),
            kind => {
                self.execute();
                match kind {
                    222..228 => self.pass_time(word.extra() as u32 % 3),
                    228..234 => self.workers.swap(),
                    234..240 => self.workers.change_route(word.extra()),
                    240..248 => self.batch_requests = 1 + word.extra() % 32,
                    248..252 => {
                        self.workers.maintain();
                        self.note_accesses(word.extra());
                    }
                    252..255 => self.workers.room_values = word.extra() % 4,
                    255 => self.step_seldom(word),
                    _ => unreachable!("requests are above"),
                }
            }
        }
    }

    fn ask_for(&mut self, word: Word) {
        let key = word.key() % self.keys.len();
        let expiry = word.expiry(self.workers.now_s);
        let extra = word.extra();
        let action = match word.kind() {
            0..20 => self.meta_get(extra, expiry),
            20..80 if self.has_area && extra % 4 == 1 => Action::GetEntry,
            20..80 => Action::Get { cas: extra.is_multiple_of(4) },
            80..88 => Action::GetAndTouch { expiry, cas: extra.is_multiple_of(2) },
            88..104 => self.meta_store(key, (word.size(), extra), expiry),
            104..168 => {
                let max = match extra / 16 % 4 {
                    0 => self.value_bytes_max.min(20),
                    _ => self.value_bytes_max,
                };
                let condition = match extra % 16 {
                    0..10 => Condition::Always,
                    10..12 => Condition::Absent,
                    12..14 => Condition::Present,
                    _ => Condition::Unchanged(self.keys[key].given.last().copied().unwrap_or(u64::MAX)),
                };
                let value = self.value(word.size() % (max + 2), (extra / 64).is_multiple_of(8));
                let flags = [0, extra as u32][extra / 512 % 2];
                match self.has_area && extra / 1024 % 2 == 1 {
                    true => Action::StoreEntry { condition, value, flags, expiry },
                    false => Action::Store { condition, value, flags, expiry },
                }
            }
            168..184 => {
                Action::Concatenate { before: extra % 2 == 1, more: self.value(word.size() % 24, false) }
            }
            184..190 => self.meta_arithmetic(key, (word.size(), extra), expiry),
            190..200 => Action::Arithmetic {
                up: extra % 2 == 1,
                delta: match extra / 2 % 8 {
                    0 => u64::MAX - extra as u64,
                    _ => word.size() as u64 % 200,
                },
            },
            200..210 => Action::Touch { expiry },
            210..215 => self.meta_delete(key, extra, expiry),
            _ => Action::Delete,
        };
        self.ask(key, action);
    }

    /// Does a step that ends much at once.
    fn step_seldom(&mut self, word: Word) {
        match word.size() as u8 {
            0..4 => self.flush(0),
            4..8 => self.flush(1 + word.extra() as u32 % 4),
            8..64 => self.invalidate(NAMESPACES[word.extra() % NAMESPACES.len()]),
            64..128 => {
                // These fill the table until it refuses: with several partitions, in some of them.
                if self.workers.cache().layout().partitions == 1 {
                    self.invalidate(&format!("empty-{}", word.extra() % EMPTY_NAMESPACES));
                }
            }
            128..144 => self.reopen(word.extra().is_multiple_of(2)),
            _ => self.audit(),
        }
    }
}
