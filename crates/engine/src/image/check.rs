//! Checks of an image before it is used, also of one that was closed in order: a disk, a copy or a
//! person may have changed it. A check writes nothing.
//!
//! | checked when it is opened | |
//! |---|---|
//! | the header | every word of it that is used as a size, a position, an offset or a counter |
//! | the index | all chains and entries: bounds, repetitions |
//! | the hashes | of a sample of items: they lie in the buckets of their keys |
//! | the heap of a store | closed image: all free blocks and lists; others: that the items do not overlap |
//!
//! Items are checked when they are read ([`Partition::holds`]). A description of damage begins with
//! its place.

use crate::index::hash::Buckets;
use crate::limits::{BUCKET_WORDS, NAMESPACES_MAX, STAMP_END};
use crate::log::{LAP_SHARE, LogKind};
use crate::partition::Partition;
use crate::partition::eviction::Eviction;
use crate::region::fields::{NAMESPACE_TABLE, NAMESPACE_WORDS};
use crate::region::{Field, LogField};

/// Offsets, stamps and counters are below this: no cache writes this many units in its life, and
/// sums of them do not overflow.
pub(super) const COUNT_MAX: u64 = 1 << 53;

/// Fields that count events, and nothing else.
const COUNTERS: [Field; 18] = [
    Field::Stamp,
    Field::FlushStamp,
    Field::ItemsInserted,
    Field::EvictedLog,
    Field::EvictedBucket,
    Field::Expired,
    Field::Reinserted,
    Field::BucketsScanned,
    Field::DanglingCleared,
    Field::ItemsOverwritten,
    Field::GhostsMet,
    Field::Promoted,
    Field::BucketsSplit,
    Field::OutOfMemory,
    Field::SweepRounds,
    Field::EvictedUnfetched,
    Field::ExpiredUnfetched,
    Field::ScanBucket,
];

/// The result of a check: a description of the damage, or nothing.
pub(crate) type Checked<T = ()> = Result<T, String>;

/// Fails with a description unless `holds` is true.
pub(super) fn ensure(holds: bool, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(what()) }
}

impl Partition {
    /// Checks the words of the header by which the parts of the partition are found. Writes nothing.
    pub(crate) fn check_header(&self, clean: bool) -> Checked {
        self.check_constants()?;
        let why = "the first partition was closed, and this one was not";
        self.ensure_field(Field::Clean, |word| word == 1 || !clean, why)?;
        self.check_sizes(clean)
    }

    /// Checks for damage; `clean` if the image was closed in order. Writes nothing.
    pub(crate) fn check(&self, clean: bool) -> Checked {
        self.check_header(clean)?;
        self.check_counters()?;
        if !self.is_store() {
            let small_end = self.layout.data_first() as u64 + self.layout.small_units();
            let small_first = self.layout.data_first() as u64;
            self.check_log(LogKind::Small, (small_first, small_end - self.gaps().small), clean)?;
            self.check_log(LogKind::Main, (small_end, self.get(Field::DataEnd)), clean)?;
            self.check_scan()?;
        }
        self.check_namespaces()?;
        let used = self.check_index(clean)?;
        if clean {
            self.check_spares(used)?;
        }
        match (self.is_store(), clean) {
            (true, true) => {
                let (first, end) = (self.layout.heap_first(), self.get(Field::DataEnd));
                self.heap().check_free(first, end as usize)
            }
            (true, false) => self.check_items(),
            (false, _) => Ok(()),
        }?;
        self.check_hashes()
    }

    fn wrong(&self, field: Field, why: &str) -> String {
        format!("{field:?} is {}: {why}", self.get(field))
    }

    fn ensure_field(&self, field: Field, holds: impl Fn(u64) -> bool, why: &str) -> Checked {
        ensure(holds(self.get(field)), || self.wrong(field, why))
    }

    /// Checks the words that never change.
    fn check_constants(&self) -> Checked {
        for (field, value) in self.layout.constants() {
            let fits = self.get(field) == value;
            ensure(fits, || match field {
                // The message does not contain the secret.
                Field::SecretLow | Field::SecretHigh => "its secret does not fit the others".into(),
                _ => self.wrong(field, &format!("it does not fit the others, {value} would")),
            })?;
        }
        let policies = Eviction::ALL.len() as u64;
        self.ensure_field(Field::Eviction, |word| word < policies, "no such policy")?;
        self.ensure_field(Field::Clean, |word| word <= 1, "it is 0 or 1")
    }

    /// Checks the number of buckets, and the end of the data space.
    fn check_sizes(&self, clean: bool) -> Checked {
        let word = self.get(Field::Buckets);
        let (first, most) = (self.layout.buckets, self.layout.buckets_max());
        let count = Buckets::unpack(first, word).count();
        let possible = (first..=most).contains(&count) && Buckets::of(first, count).pack() == word;
        ensure(possible, || self.wrong(Field::Buckets, "no number of buckets and their level"))?;
        let small_units = if self.is_store() { 0 } else { self.layout.small_units() };
        let first = self.layout.heap_first() as u64 + small_units;
        let room = self.layout.data_end(count + 1).saturating_sub(first);
        self.ensure_field(Field::SmallGap, |gap| gap <= self.layout.small_units(), "more than the log")?;
        self.ensure_field(Field::MainGap, |gap| gap < room, "more than the memory")?;
        // The line of the next bucket may be reserved already.
        let lowest = self.data_end(count + 1).max(first + 1);
        // A gap grows before the data space ends at it, and shrinks after that.
        let highest = if clean { self.data_end(count) } else { self.layout.data_end(count) };
        let possible = |end| lowest <= end && end <= highest;
        self.ensure_field(Field::DataEnd, possible, "it is beside items and index")
    }

    fn check_counters(&self) -> Checked {
        for field in COUNTERS {
            self.ensure_field(field, |word| word < COUNT_MAX, "too large")?;
        }
        let region_words = self.layout.region_words;
        for field in [Field::ItemsLive, Field::UnitsLive, Field::UnitsLeftEarly, Field::UnitsLeftEarlyInMain]
        {
            let fits = |word| word <= region_words;
            self.ensure_field(field, fits, "more than the memory holds")?;
        }
        for field in [Field::Expiring, Field::Namespaces] {
            self.ensure_field(field, |word| word <= 1, "it is 0 or 1")?;
        }
        for field in [Field::ExpiryLag, Field::ExpiryLagLast, Field::FlushDue] {
            self.ensure_field(field, |word| word <= u64::from(u32::MAX), "too many seconds")?;
        }
        let possible = |word| word < STAMP_END;
        self.ensure_field(Field::Stamp, possible, "more writes than can be")?;
        let stamp = self.get(Field::Stamp);
        self.ensure_field(Field::FlushStamp, |word| word <= stamp, "a flush to come")?;
        let buckets = self.buckets();
        self.ensure_field(Field::ScanBucket, |word| word < buckets, "no such bucket")
    }

    /// Checks that a log lies between `first` and `end`, and that the range from its head to its
    /// tail lies in it once.
    fn check_log(&self, which: LogKind, (first, end): (u64, u64), clean: bool) -> Checked {
        let log = self.log(which);
        let [tail, head, lap, before] =
            [LogField::Tail, LogField::Head, LogField::LapStart, LogField::LapBefore]
                .map(|field| log.get(field));
        let units = end - first;
        // The main one gives up a share of itself at a time, for the line of a bucket and its spare one, or
        // more. Earlier versions left the small one as much shorter after a limit that was taken back.
        let least = match clean {
            true => (units - units / LAP_SHARE).saturating_sub(2 * BUCKET_WORDS as u64),
            // It was becoming shorter.
            false => 0,
        };
        let laps_in_order = 1 <= before && before <= lap && lap <= tail && tail < COUNT_MAX;
        let head_in_laps = before <= head && head <= tail;
        // A part of the previous lap is still there: behind the part that the present one has
        // written.
        let beside = || lap - before <= units && tail - lap <= head - before;
        let relations = [
            (log.get(LogField::First) == first, "First"),
            ((least..=units).contains(&log.get(LogField::Limit)), "Limit"),
            (log.get(LogField::FlushMark) <= tail, "FlushMark"),
            (laps_in_order, "Tail, LapStart and LapBefore"),
            (head_in_laps, "Head"),
            (laps_in_order && tail - lap <= units, "LapStart"),
            (laps_in_order && head_in_laps && (head >= lap || beside()), "Head beside Tail"),
        ];
        let broken = relations.into_iter().find(|(holds, _)| !holds);
        let name = format!("{which:?}").to_lowercase();
        ensure(broken.is_none(), || {
            let what = broken.map_or("", |(_, what)| what);
            format!("the {name} log's {what}: no log can be so")
        })
    }

    /// Checks the scan: it is at most as far behind the tails as one insertion may advance them.
    fn check_scan(&self) -> Checked {
        let behind = self.tails().wrapping_sub(self.get(Field::ScanTail));
        let most = self.scan_interval_units + self.layout.data_units();
        ensure(behind <= most, || self.wrong(Field::ScanTail, "it is not near the tails"))
    }

    fn check_namespaces(&self) -> Checked {
        let (small, main) = if self.is_store() {
            (self.get(Field::Stamp), 0)
        } else {
            let tail = |which| self.log(which).get(LogField::Tail);
            (tail(LogKind::Small), tail(LogKind::Main))
        };
        let rounds = self.get(Field::SweepRounds);
        for record in 0..NAMESPACES_MAX {
            let first = NAMESPACE_TABLE + record * NAMESPACE_WORDS;
            let word = |word: usize| self.header(first + word).0;
            let possible = word(1) <= small && word(2) <= main && word(3) <= rounds;
            ensure(word(0) == 0 || possible, || {
                format!("record {record} of the namespaces: it is of a time to come")
            })?;
        }
        Ok(())
    }
}
