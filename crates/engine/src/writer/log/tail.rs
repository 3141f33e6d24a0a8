//! Reserves space at the tail of a log.

use micanite_memory::sync::{Ordering, fence};

use crate::limits::{EVICT_BYTES, WINDOW_REQUESTS};
use crate::log::item::Header;
use crate::log::{Log, LogKind};
use crate::partition::Place;
use crate::region::{LogField, copy_budget};
use crate::writer::{Refusal, Writer};

impl Writer<'_> {
    /// Reserves `units` at the tail of a log, and evicts (or moves) the items in the way. The space
    /// is marked as busy until its item is written. Items found before may have moved or gone.
    #[inline]
    pub fn reserve_in_log(&self, which: LogKind, units: u64) -> Result<Place, Refusal> {
        let log = self.partition.log(which);
        let mut moves = self.partition.layout.policy.requeue_max;
        let mut passes = 0;
        loop {
            let end = log.lap_units() + units;
            if end > log.get(LogField::Limit) {
                match self.begin_lap(log, which, units, &mut moves)? {
                    true => continue,
                    false => return Ok(self.reserve_at_tail(log, which, units)),
                }
            }
            let is_free = log.is_free_to(end);
            if is_free && !self.makes_room_ahead(log, (end, units), passes, moves) {
                return Ok(self.reserve_at_tail(log, which, units));
            }
            match self.pass_head(which, &mut moves) {
                Err(_) if is_free => return Ok(self.reserve_at_tail(log, which, units)),
                passed => passed?,
            }
            passes += 1;
        }
    }

    /// Returns whether an insertion of `units` that ends at `end`, and had to pass some items of the log,
    /// passes another one: then the next insertions find space, and void no hints. One that has moved its
    /// share of items, or spent its turn, does not.
    #[inline]
    fn makes_room_ahead(&self, log: Log<'_>, (end, units): (u64, u64), passes: u64, moves: u32) -> bool {
        if passes == 0 || passes >= AHEAD_ITEMS || self.shared {
            return false;
        }
        let ahead_units = (units * AHEAD_ITEMS).min(log.get(LogField::Limit) / AHEAD_SHARE);
        let may_move = moves > 0 || self.partition.layout.policy.requeue_max == 0;
        may_move && !log.is_free_to(end + ahead_units) && copy_budget::allows(EVICT_BYTES)
    }

    /// Reserves space at the tail that is known to be free.
    #[inline]
    pub fn reserve_at_tail(&self, log: Log<'_>, which: LogKind, units: u64) -> Place {
        let offset = log.get(LogField::Tail);
        let position = log.position(offset);
        // For every reader, later writes come after the advance of the head.
        fence(Ordering::Release);
        self.partition.word(position).store(Header::reserved(units).0, Ordering::Relaxed);
        log.set(LogField::Tail, offset + units);
        Place { log: which, offset, position }
    }

    /// Ends the lap: the rest of the previous one is evicted first. Where the log has become shorter, this
    /// rest may be most of it. So each call evicts a part, and the lap goes on in the space that is free.
    /// Returns whether the lap has ended.
    #[cold]
    fn begin_lap(&self, log: Log<'_>, which: LogKind, units: u64, moves: &mut u32) -> Result<bool, Refusal> {
        if units > log.get(LogField::Limit) {
            return Err(Refusal::Full);
        }
        let part_end = log.get(LogField::Head) + units * EVICTED_PER_UNIT + EVICTED_UNITS_MIN;
        while log.get(LogField::Head) < log.get(LogField::LapStart) {
            let head = log.get(LogField::Head);
            if head > part_end && head - log.get(LogField::LapBefore) >= log.lap_units() + units {
                return Ok(false);
            }
            self.pass_head(which, moves)?;
        }
        log.set(LogField::LapBefore, log.get(LogField::LapStart));
        log.set(LogField::LapStart, log.get(LogField::Tail));
        Ok(true)
    }
}

/// Items that an insertion passes at most for others, items of the length of the one that comes for which an
/// insertion makes room, if it has to make any, and the share of the log that they take at most.
const AHEAD_ITEMS: u64 = 4 * WINDOW_REQUESTS as u64;
const AHEAD_SHARE: u64 = 512;
/// Units that leave a log that becomes shorter, for each unit that comes.
const EVICTED_PER_UNIT: u64 = 4;
/// Units that leave it at least for an item that comes.
const EVICTED_UNITS_MIN: u64 = 1 << 10;
