//! Counts the contents of the logs anew, after a kill or at damage.

use crate::log::LogKind;
use crate::region::{Field, LogField};
use crate::writer::Writer;

/// Contents of a log: living items, their units, and the units that left early.
#[derive(Clone, Copy, Default)]
struct Counts {
    items: u64,
    units: u64,
    early: u64,
}

impl Writer<'_> {
    /// Counts the contents of the logs of a cache by walking them. Returns the positions of busy
    /// items. Skips the rest of a lap at a header that does not lead to the next item.
    pub(crate) fn recount_logs(&self) -> Vec<usize> {
        let p = self.partition;
        let mut busy = Vec::new();
        if p.is_store() {
            return busy;
        }
        let counts = [LogKind::Small, LogKind::Main].map(|which| self.count_log(which, &mut busy));
        let sum = |of: fn(&Counts) -> u64| counts.iter().map(of).sum();
        p.set(Field::ItemsLive, sum(|counts| counts.items));
        p.set(Field::UnitsLive, sum(|counts| counts.units));
        p.set(Field::UnitsLeftEarly, sum(|counts| counts.early));
        let in_main = counts[LogKind::Main as usize].early;
        p.set(Field::UnitsLeftEarlyInMain, in_main);
        busy
    }

    fn count_log(&self, which: LogKind, busy: &mut Vec<usize>) -> Counts {
        let log = self.partition.log(which);
        let mut counts = Counts::default();
        let mut offset = log.get(LogField::Head);
        while offset < log.get(LogField::Tail) {
            let position = log.position(offset);
            let header = self.partition.header(position);
            if !log.can_step(offset, header) {
                offset = log.end_of_lap(offset);
                log.set(LogField::Head, offset);
                counts = Counts::default();
                continue;
            }
            let units = header.units();
            if header.is_busy() {
                busy.push(position);
            } else if header.left_early() {
                counts.early += units;
            } else if !header.is_dead() && log.is_live(offset) {
                counts.items += 1;
                counts.units += units;
            }
            offset += units;
        }
        counts
    }
}
