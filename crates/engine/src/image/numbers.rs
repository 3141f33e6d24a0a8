//! Offsets and stamps of a new image. They are CAS values, so they go on behind those of the image that it is
//! made from: what a client knows from there fits no other value here.

use crate::image::check::COUNT_MAX;
use crate::log::LogKind;
use crate::partition::Partition;
use crate::region::{Field, LogField};

/// Distance of a snapshot from the cache that goes on beside it. Units or writes of so many lie between the
/// snapshot and the first write whose CAS value may be one of the snapshot's, too.
pub(crate) const AHEAD_OF_WRITES: u64 = 1 << 44;

/// Lets the numbers of empty partitions begin `ahead` of those of others.
pub(crate) fn go_on(old: &[Partition], new: &[Partition], ahead: u64) {
    // An image beyond half of all numbers is ahead of none, but is still one.
    let after = |last: u64| last.max((last + ahead).min(COUNT_MAX / 2));
    if old[0].is_store() {
        let last = old.iter().map(|partition| partition.get(Field::Stamp)).max().unwrap_or(0);
        new.iter().for_each(|partition| partition.set(Field::Stamp, after(last)));
        return;
    }
    for which in [LogKind::Small, LogKind::Main] {
        let tail = |partition: &Partition| partition.log(which).get(LogField::Tail);
        let last = old.iter().map(tail).max().unwrap_or(1);
        new.iter().for_each(|partition| partition.begin_log_at(which, after(last)));
    }
}

impl Partition {
    /// Lets the offsets of an empty log begin with another one.
    fn begin_log_at(&self, which: LogKind, first: u64) {
        let log = self.log(which);
        for field in
            [LogField::Tail, LogField::Head, LogField::LapStart, LogField::LapBefore, LogField::Opened]
        {
            log.set(field, first);
        }
        self.set(Field::ScanTail, self.tails());
    }
}
