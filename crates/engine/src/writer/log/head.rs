//! The head of a log: it evicts the oldest item, or moves it.

use micanite_memory::sync::Ordering::{Relaxed, Release};

use crate::limits::{EVICT_BYTES, KEY_BYTES_MAX};
use crate::log::LogKind;
use crate::log::item::Header;
use crate::partition::Place;
use crate::region::{Field, LogField, copy_budget};
use crate::writer::{Found, NewItem, Refusal, Writer};

impl Writer<'_> {
    /// Notifies the listener, if that is on. Call it before the item at a place is evicted.
    #[inline]
    pub fn note_eviction(&self, place: &Place) {
        if self.partition.eviction_listener.wanted.load(Relaxed) {
            self.partition.notify_eviction(place, self.now_s);
        }
    }

    /// Moves the head of a log behind its oldest item. The item is evicted, or moves to the tail of
    /// main if it was requested (`moves` times at most within main).
    pub fn pass_head(&self, which: LogKind, moves: &mut u32) -> Result<(), Refusal> {
        let p = self.partition;
        let log = p.log(which);
        let offset = log.get(LogField::Head);
        let position = log.position(offset);
        let header = p.header(position);
        if !log.can_step(offset, header) {
            self.skip_lap(which);
            return Ok(());
        }
        // The head is passed in runs, and items behind each other often have one length.
        p.region.prefetch(position + PREFETCH_ITEMS * header.units() as usize);
        if header.is_busy() && offset >= log.get(LogField::Opened) {
            return Err(Refusal::Busy);
        }
        let place = Place { log: which, offset, position };
        if header.is_dead() || header.is_busy() {
            if header.left_early() {
                p.subtract(Field::UnitsLeftEarly, header.units());
                if which == LogKind::Main {
                    p.subtract(Field::UnitsLeftEarlyInMain, header.units());
                }
            }
        } else if log.is_live(offset) {
            if p.holds(position, header) && self.keep(&place, moves)? {
                return Ok(());
            }
            copy_budget::spend(EVICT_BYTES);
            self.note_eviction(&place);
            self.kill_chunk_at_head(&place);
            if !header.is_fetched() {
                p.add(Field::EvictedUnfetched, 1);
            }
            p.add(Field::EvictedLog, 1);
            p.subtract(Field::ItemsLive, 1);
            p.subtract(Field::UnitsLive, header.units());
        }
        log.set(LogField::Head, offset + header.units());
        Ok(())
    }

    /// Moves the item at the head of its log to the tail of main, if it is worth keeping.
    #[inline]
    fn keep(&self, place: &Place, moves: &mut u32) -> Result<bool, Refusal> {
        let found = self.found_at(0, *place);
        if !self.is_wanted(&found, *moves) {
            return Ok(false);
        }
        let Some(found) = self.cleaned_at_head(found) else {
            return Ok(true); // it was removed where it is
        };
        let moved = match place.log {
            LogKind::Main => self.requeue(&found),
            LogKind::Small => self.promote(&found)?,
        };
        if moved {
            *moves = moves.saturating_sub(u32::from(place.log == LogKind::Main));
        }
        Ok(moved)
    }

    /// Moves the head past the rest of its lap: a header in it is damaged, and does not
    /// tell where the next item begins.
    #[cold]
    pub(crate) fn skip_lap(&self, which: LogKind) {
        let p = self.partition;
        let log = p.log(which);
        self.void_chunks();
        log.set(LogField::Head, log.end_of_lap(log.get(LogField::Head)));
        // A busy item is being written: the counters do not include it.
        let _ = self.recount_logs();
    }

    /// Returns whether an item at the head of its log is worth keeping.
    #[inline]
    fn is_wanted(&self, found: &Found, moves: u32) -> bool {
        let policy = &self.partition.layout.policy;
        let frequency = found.header.frequency();
        let requested = match found.place.log {
            LogKind::Small => frequency >= policy.promote_at,
            LogKind::Main => frequency > 0 && moves > 0,
        };
        requested
            && copy_budget::allows(found.header.units() as usize * 8)
            && !found.expiry.has_passed(self.now_s)
            && !self.is_invalid(found)
    }

    /// Moves the item at the head of main to its tail. Both are so near that the places may
    /// overlap; the tail never is behind the head. Returns false if the item has to be evicted
    /// instead.
    pub(crate) fn requeue(&self, found: &Found) -> bool {
        let p = self.partition;
        let log = p.log(found.place.log);
        let cas = self.cas_to_keep(found);
        let shape = found.shape(cas.is_some());
        let units = shape.units();
        if log.lap_units() + units > log.get(LogField::Limit) || units > found.header.units() {
            return false;
        }
        // Words are copied upwards: an additional extension must not push them over words still to
        // copy.
        let target = log.position(log.get(LogField::Tail));
        let key_word = shape.key_word();
        let from = found.place.position;
        if target <= from && target + key_word > from + found.header.key_word() {
            return false;
        }
        let hash = p.hash_at(found.place.position);
        let entry = self.entry_of(hash, &found.place);
        let Some(slot) = self.slot_of(hash, entry) else {
            return false;
        };
        let Some(header) = shape.header_in(units) else {
            return false;
        };
        let header = if shape.cas || found.header.cas_given() { header.with_cas_given() } else { header };
        let header = header.with_fetched(found.header.is_fetched());
        let frequency = found.header.frequency().saturating_sub(1);
        p.bucket(hash).write(|| {
            log.set(LogField::Head, found.place.offset + found.header.units());
            let place = self.reserve_at_tail(log, found.place.log, units);
            self.copy_item(found, place.position, header.with_frequency(frequency), cas);
            let entry = self.entry_of(hash, &place);
            p.word(slot).store(entry.0, Release);
        });
        p.subtract(Field::UnitsLive, found.header.units() - units);
        p.add(Field::Reinserted, 1);
        p.add(Field::Moves, 1);
        copy_budget::spend(units as usize * 8);
        true
    }

    /// Moves the item at the head of a log to its tail, whether it was requested or not. Returns false if it
    /// is not living, or has to be evicted instead.
    pub(crate) fn requeue_living(&self, place: Place, header: Header) -> bool {
        let moved = self.living_at_head(place, header).is_some_and(|found| self.requeue(&found));
        if moved {
            self.scan_as_the_tail_advances();
        }
        moved
    }

    /// Moves the item at the head of the small log to main, whether it was requested or not. Returns false if
    /// it is not living, or has to be evicted instead.
    pub(crate) fn promote_living(&self, place: Place, header: Header) -> bool {
        copy_budget::spend(header.units() as usize * 8);
        let living = self.living_at_head(place, header);
        living.is_some_and(|found| matches!(self.promote(&found), Ok(true)))
    }

    /// Returns the item at the head of a log, if it is living.
    fn living_at_head(&self, place: Place, header: Header) -> Option<Found> {
        let p = self.partition;
        let is_whole = !header.is_dead() && !header.is_busy() && p.holds(place.position, header);
        if !is_whole || !p.log(place.log).is_live(place.offset) {
            return None;
        }
        let found = self.found_at(0, place);
        if found.expiry.has_passed(self.now_s) || self.is_invalid(&found) {
            return None;
        }
        self.cleaned_at_head(found)
    }

    /// Writes a copy of an item, its value last and upwards: the copy may overlap the original
    /// if it lies before it.
    pub(crate) fn copy_item(&self, found: &Found, position: usize, header: Header, cas: Option<u64>) {
        let p = self.partition;
        let from = found.place.position;
        let meta = p.word(from + 1).load(Relaxed);
        let state = self.state_of(found);
        if header.has_meta() {
            p.word(position + 1).store(meta, Relaxed);
        }
        if header.has_state() {
            p.set_state(position + header.state_word(), state);
        }
        if let Some(cas) = cas {
            p.word(position + header.key_word() - 1).store(cas, Relaxed);
        }
        let (from, to) = (from + found.header.key_word(), position + header.key_word());
        for word in 0..header.units() as usize - header.key_word() {
            let value = p.word(from + word).load(Relaxed);
            p.word(to + word).store(value, Relaxed);
        }
        p.word(position).store(header.0, Release);
    }

    /// Moves the item at the head of the small log to main. Returns false if it has to be evicted
    /// instead.
    fn promote(&self, found: &Found) -> Result<bool, Refusal> {
        let p = self.partition;
        let mut key = [0; KEY_BYTES_MAX];
        let key = p.key_at(found.place.position, &mut key);
        let hash = p.hash_of(key);
        let entry = self.entry_of(hash, &found.place);
        let Some(slot) = self.slot_of(hash, entry) else {
            return Ok(false);
        };
        let found = Found { slot, ..*found };
        let log = Some(LogKind::Main);
        let item = NewItem { frequency: 0, moves: true, log, ..self.copy_of(key, &found) };
        match self.insert(hash, &item, Some(&found)) {
            Ok(_) => {}
            Err(Refusal::Busy) => return Err(Refusal::Busy),
            Err(_) => return Ok(false),
        }
        p.add(Field::Promoted, 1);
        let log = p.log(LogKind::Small);
        log.set(LogField::Head, found.place.offset + found.header.units());
        Ok(true)
    }

    /// Moves the head of main past items that left early, and requeues the living, until such items
    /// hold little of the memory again: bounded work, for upkeep. (Those in the small log, a tenth
    /// of the memory, wait for its head.)
    pub fn clean(&self) {
        let p = self.partition;
        if p.is_store() {
            return;
        }
        let data_units = p.data_units();
        let log = p.log(LogKind::Main);
        let mut budget_units = CLEAN_UNITS;
        while p.get(Field::UnitsLeftEarlyInMain) * 100 > data_units * EARLY_PERCENT_MAX {
            let offset = log.get(LogField::Head);
            if budget_units <= 0 || copy_budget::is_spent() || offset >= log.get(LogField::Tail) {
                return;
            }
            let position = log.position(offset);
            let header = p.header(position);
            if !log.can_step(offset, header) {
                return self.skip_lap(LogKind::Main);
            }
            budget_units -= header.units() as i64;
            let full = log.lap_units() + header.units() > log.get(LogField::Limit);
            if full && offset >= log.get(LogField::LapStart) {
                // The tail has reached the end, and the head has left the beginning.
                log.set(LogField::LapBefore, log.get(LogField::LapStart));
                log.set(LogField::LapStart, log.get(LogField::Tail));
            }
            if self.requeue_living(Place { log: LogKind::Main, offset, position }, header) {
                continue;
            }
            if self.pass_head(LogKind::Main, &mut 0).is_err() {
                return;
            }
        }
    }
}

/// Items between the one that the head passes and the one whose header is prefetched.
const PREFETCH_ITEMS: usize = 8;
/// Units that one call of [`Writer::clean`] walks over.
const CLEAN_UNITS: i64 = 128 << 10;
/// Share of the data space, in percent, held by items that left early, at which cleaning begins.
const EARLY_PERCENT_MAX: u64 = 6;
