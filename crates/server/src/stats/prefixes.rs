//! `stats detail`: requests by the prefix of their keys, counted while that is turned on.
//!
//! Each worker counts in a table of its own, whose lock only the report ever contends for. A table
//! takes its memory when the counts are turned on, and has room for so many prefixes; what comes
//! after them is counted together.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::{Mutex, MutexGuard, PoisonError};

use micanite_engine::{Operation, Outcome, Request};

use crate::limits::{PREFIX_BYTES_MAX, PREFIXES_MAX};
use crate::session::{Output, is_word};
use crate::watch::{deletes, has_found};

/// See the module.
#[derive(Debug)]
pub struct Prefixes {
    delimiter: u8,
    tables: Box<[Mutex<Table>]>,
}

/// What is counted of a prefix.
#[derive(Clone, Copy, Debug, Default)]
pub struct PrefixCounts {
    /// Keys asked for.
    pub get: u64,
    /// Those that were there.
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
            tables: (0..workers).map(|_| Mutex::default()).collect(),
        }
    }

    /// Takes the memory to count in.
    pub fn prepare(&self) {
        for table in &self.tables {
            let mut table = lock(table);
            if table.entries.is_empty() {
                let empty = Entry {
                    name: [0; PREFIX_BYTES_MAX],
                    name_bytes: 0,
                    counts: PrefixCounts::default(),
                };
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
            | Operation::GetAndTouch { .. }
            | Operation::MetaGet(_)
            | Operation::Touch { .. } => {
                counts.get = 1;
                counts.hit = u64::from(has_found(outcome));
            }
            Operation::Store { .. }
            | Operation::Append { .. }
            | Operation::Prepend { .. }
            | Operation::MetaStore(_) => counts.set = 1,
            _ if deletes(&request.operation).is_some() => counts.del = 1,
            _ => return,
        }
        let mut table = lock(&self.tables[worker]);
        table.find(&request.key[..prefix_bytes]).add(counts);
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
    fn find(&mut self, prefix: &[u8]) -> &mut PrefixCounts {
        let places = self.entries.len();
        if prefix.is_empty() || prefix.len() > PREFIX_BYTES_MAX || places == 0 || !is_word(prefix) {
            return &mut self.others;
        }
        // FNV-1a: names are short, and a table that is full of chosen ones is only slow.
        let hash = prefix.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let mut at = hash as usize % places;
        loop {
            let entry = &self.entries[at];
            if entry.name_bytes == prefix.len() && entry.name[..prefix.len()] == *prefix {
                return &mut self.entries[at].counts;
            }
            if entry.name_bytes == 0 {
                break;
            }
            at = (at + 1) % places;
        }
        if self.used == PREFIXES_MAX {
            return &mut self.others;
        }
        self.used += 1;
        let entry = &mut self.entries[at];
        entry.name[..prefix.len()].copy_from_slice(prefix);
        entry.name_bytes = prefix.len();
        &mut entry.counts
    }
}

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}
