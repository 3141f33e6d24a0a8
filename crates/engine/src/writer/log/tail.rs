//! Reserves space at the tail of a log.

use micanite_memory::sync::{Ordering, fence};

use crate::log::item::Header;
use crate::log::{Log, LogKind};
use crate::partition::Place;
use crate::region::LogField;
use crate::writer::{Refusal, Writer};

impl Writer<'_> {
    /// Reserves `units` at the tail of a log, and evicts (or moves) the items in the way. The space
    /// is marked as busy until its item is written. Items found before may have moved or gone.
    #[inline]
    pub fn reserve_in_log(&self, which: LogKind, units: u64) -> Result<Place, Refusal> {
        let log = self.partition.log(which);
        let mut moves = self.partition.layout.policy.requeue_max;
        loop {
            let end = log.lap_units() + units;
            if end > log.get(LogField::Limit) {
                match self.begin_lap(log, which, units, &mut moves)? {
                    true => continue,
                    false => return Ok(self.reserve_at_tail(log, which, units)),
                }
            }
            let head = log.get(LogField::Head);
            let passed_lap = head >= log.get(LogField::LapStart);
            if passed_lap || head - log.get(LogField::LapBefore) >= end {
                return Ok(self.reserve_at_tail(log, which, units));
            }
            self.pass_head(which, &mut moves)?;
        }
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

    /// Ends the lap: the rest of the previous one is evicted first. While the log becomes shorter this rest
    /// may be most of it. Then each call evicts a part, and the lap goes on in the space that is free.
    /// Returns whether the lap has ended.
    #[cold]
    fn begin_lap(&self, log: Log<'_>, which: LogKind, units: u64, moves: &mut u32) -> Result<bool, Refusal> {
        if units > log.get(LogField::Limit) {
            return Err(Refusal::Full);
        }
        let part_end = match self.partition.limit.shortens() {
            true => log.get(LogField::Head) + units * EVICTED_PER_UNIT + EVICTED_UNITS_MIN,
            false => u64::MAX,
        };
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

/// Units that leave a log that becomes shorter, for each unit that comes.
const EVICTED_PER_UNIT: u64 = 4;
/// Units that leave it at least for an item that comes.
const EVICTED_UNITS_MIN: u64 = 1 << 10;
