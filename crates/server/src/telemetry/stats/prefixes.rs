//! `stats detail`: requests by the prefix of their keys, counted while that is turned on.
//!
//! Each worker counts in a table of its own, whose lock only the report ever contends for. A table
//! takes its memory when the counts are turned on, and has room for so many prefixes; what comes
//! after them is counted together.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::{Mutex, MutexGuard, PoisonError};

use micanite_engine::{Operation, Outcome, Request};

use crate::limits::{PREFIX_BYTES_MAX, PREFIX_PROBES_MAX, PREFIXES_MAX};
use crate::output::{Output, is_word};
use crate::telemetry::outcome::{deletes, has_found};

/// Counts by prefix.
#[derive(Debug)]
pub struct Prefixes {
    delimiter: u8,
    /// Hashes prefixes by a secret, so that nobody can choose such as meet each other.
    hashes: RandomState,
    tables: Box<[Mutex<Table>]>,
}

/// Counts of one prefix.
#[derive(Clone, Copy, Debug, Default)]
pub struct PrefixCounts {
    /// Keys asked for.
    pub get: u64,
    /// Keys that were found.
    pub hit: u64,
    /// Stores.
    pub set: u64,
    /// Removals.
    pub del: u64,
}

impl PrefixCounts {
    fn add(&mut self, other: Self) {
        self.get += other.get;
        self.hit += other.hit;
        self.set += other.set;
        self.del += other.del;
    }
}

#[derive(Debug, Default)]
struct Table {
    /// Open addressing; an entry without bytes is empty.
    entries: Box<[Entry]>,
    used: usize,
    others: PrefixCounts,
}

#[derive(Clone, Debug)]
struct Entry {
    name: [u8; PREFIX_BYTES_MAX],
    name_bytes: usize,
    counts: PrefixCounts,
}

impl Prefixes {
    /// Bytes that the tables of so many workers take at most.
    pub const fn bytes(workers: usize) -> usize {
        workers * 2 * PREFIXES_MAX * size_of::<Entry>()
    }

    /// Nothing is counted yet.
    pub fn new(workers: usize, delimiter: u8) -> Self {
        Self {
            delimiter,
            hashes: RandomState::new(),
            tables: (0..workers).map(|_| Mutex::default()).collect(),
        }
    }

    /// Takes the memory to count in.
    pub fn prepare(&self) {
        for table in &self.tables {
            let mut table = lock(table);
            if table.entries.is_empty() {
                let empty =
                    Entry { name: [0; PREFIX_BYTES_MAX], name_bytes: 0, counts: PrefixCounts::default() };
                table.entries = vec![empty; 2 * PREFIXES_MAX].into();
            }
        }
    }

    /// Forgets all counts (`stats reset`).
    pub fn clear(&self) {
        for table in &self.tables {
            let mut table = lock(table);
            table.used = 0;
            table.others = PrefixCounts::default();
            for entry in &mut table.entries {
                entry.name_bytes = 0;
                entry.counts = PrefixCounts::default();
            }
        }
    }

    /// Counts a request of a worker. Keys without a delimiter have no prefix.
    pub fn count(&self, worker: usize, request: &Request<'_>, outcome: Outcome) {
        let Some(prefix_bytes) = request.key.iter().position(|byte| *byte == self.delimiter) else {
            return;
        };
        let mut counts = PrefixCounts::default();
        match request.operation {
            Operation::Get { .. }
            | Operation::GetEntry
            | Operation::GetAndTouch { .. }
            | Operation::MetaGet(_)
            | Operation::Touch { .. } => {
                counts.get = 1;
                counts.hit = u64::from(has_found(outcome));
            }
            Operation::Store { .. }
            | Operation::StoreEntry { .. }
            | Operation::Append { .. }
            | Operation::Prepend { .. }
            | Operation::MetaStore(_) => counts.set = 1,
            _ if deletes(&request.operation).is_some() => counts.del = 1,
            _ => return,
        }
        let mut table = lock(&self.tables[worker]);
        let prefix = &request.key[..prefix_bytes];
        table.find(prefix, &self.hashes).add(counts);
    }

    /// Writes the prefixes behind one, as far as there is room, and notes the last; true if there
    /// are more.
    pub(crate) fn tell(&self, told: &mut Vec<u8>, output: &mut Output<'_>) -> bool {
        let (totals, others) = self.totals();
        for (name, counts) in totals.range::<[u8], _>((Excluded(told.as_slice()), Unbounded)) {
            if output.room() < 2 * LINE_BYTES_MAX {
                return true;
            }
            write(name, *counts, output);
            *told = name.clone();
        }
        if others.any() {
            write(b"", others, output);
        }
        false
    }

    /// The sums over workers, by name, and what had no room.
    fn totals(&self) -> (BTreeMap<Vec<u8>, PrefixCounts>, PrefixCounts) {
        let mut totals: BTreeMap<Vec<u8>, PrefixCounts> = BTreeMap::new();
        let mut others = PrefixCounts::default();
        for table in &self.tables {
            let table = lock(table);
            for entry in table.entries.iter().filter(|entry| entry.counts.any()) {
                let name = entry.name[..entry.name_bytes].to_vec();
                totals.entry(name).or_default().add(entry.counts);
            }
            others.add(table.others);
        }
        (totals, others)
    }
}

/// Room for the longest line.
const LINE_BYTES_MAX: usize = PREFIX_BYTES_MAX + 128;

/// Writes a line, as memcached does.
fn write(name: &[u8], counts: PrefixCounts, output: &mut Output<'_>) {
    let PrefixCounts { get, hit, set, del } = counts;
    output.push(b"PREFIX ");
    output.push(name);
    output.push(format!(" get {get} hit {hit} set {set} del {del}\r\n").as_bytes());
}

impl PrefixCounts {
    fn any(&self) -> bool {
        self.get + self.set + self.del > 0
    }
}

impl Table {
    /// The counts of a prefix; those of all others if there is no room for it, or if it cannot stand in
    /// a line.
    fn find(&mut self, prefix: &[u8], hashes: &impl BuildHasher) -> &mut PrefixCounts {
        let places = self.entries.len();
        if prefix.is_empty() || prefix.len() > PREFIX_BYTES_MAX || places == 0 || !is_word(prefix) {
            return &mut self.others;
        }
        let hash = hashes.hash_one(prefix) as usize;
        // Odd, so that it leads to every place.
        let step = (hash / places) | 1;
        let at = |probe: usize| hash.wrapping_add(step.wrapping_mul(probe)) % places;
        for at in (0..PREFIX_PROBES_MAX).map(at) {
            let entry = &self.entries[at];
            if entry.name_bytes == prefix.len() && entry.name[..prefix.len()] == *prefix {
                return &mut self.entries[at].counts;
            }
            if entry.name_bytes > 0 {
                continue;
            }
            if self.used == PREFIXES_MAX {
                break;
            }
            self.used += 1;
            let entry = &mut self.entries[at];
            entry.name[..prefix.len()].copy_from_slice(prefix);
            entry.name_bytes = prefix.len();
            return &mut entry.counts;
        }
        &mut self.others
    }
}

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

const _: () = assert!((2 * PREFIXES_MAX).is_power_of_two());

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasherDefault, Hasher};

    use super::*;

    const ALL: usize = 2 * PREFIXES_MAX;

    fn table() -> (Prefixes, Vec<Vec<u8>>) {
        let prefixes = Prefixes::new(1, b':');
        prefixes.prepare();
        let names = (0..ALL).map(|number| format!("p{number}").into_bytes());
        (prefixes, names.collect())
    }

    /// Hashes everything alike.
    #[derive(Default)]
    struct Alike;

    impl Hasher for Alike {
        fn write(&mut self, _: &[u8]) {}
        fn finish(&self) -> u64 {
            0
        }
    }

    /// A full table counts further prefixes under others.
    #[test]
    fn a_table_tells_as_many_prefixes_apart_as_it_says() {
        let (prefixes, names) = table();
        let mut table = lock(&prefixes.tables[0]);
        for (number, name) in names.iter().chain(&names).enumerate() {
            let counts = table.find(name, &prefixes.hashes);
            counts.get += 1;
            let (pass, of_pass) = (number / ALL, number % ALL);
            let expected = match of_pass < PREFIXES_MAX {
                true => pass + 1,
                false => pass * (ALL - PREFIXES_MAX) + of_pass - PREFIXES_MAX + 1,
            };
            assert_eq!(counts.get, expected as u64, "prefix {number}");
        }
        assert_eq!(table.used, PREFIXES_MAX);
    }

    /// Prefixes that meet each other are looked for at so many places, and then counted with others.
    #[test]
    fn prefixes_that_meet_cost_a_few_places() {
        let (prefixes, names) = table();
        let mut table = lock(&prefixes.tables[0]);
        let hashes = BuildHasherDefault::<Alike>::default();
        for name in &names {
            table.find(name, &hashes).get += 1;
        }
        assert_eq!(table.used, PREFIX_PROBES_MAX);
        assert_eq!(table.others.get, (ALL - PREFIX_PROBES_MAX) as u64);
    }

    /// No two servers hash alike: who has learnt from one which prefixes meet knows nothing of another.
    #[test]
    fn every_server_hashes_by_a_secret_of_its_own() {
        let hash = |prefixes: Prefixes| prefixes.hashes.hash_one("prefix");
        assert_ne!(hash(Prefixes::new(1, b':')), hash(Prefixes::new(1, b':')));
    }
}
