//! Counts of one-sided reads per key, for the server, which does not see these reads.

use micanite_wire::native::Access;

/// Number of records from which on a message leaves at once.
pub(in crate::fabric) const RECORDS_DUE: usize = 256;
/// Records of the table.
pub(in crate::fabric) const RECORDS_MAX: usize = 448;
const PLACES: usize = 1024;

/// Reads since the last message: a bounded hash table, and the order of its records.
#[derive(Debug)]
pub(in crate::fabric) struct History {
    /// Place in `records`, plus 1; 0: free.
    places: Box<[u16; PLACES]>,
    records: Vec<Access>,
}

impl History {
    pub(in crate::fabric) fn new() -> Self {
        Self { places: Box::new([0; PLACES]), records: Vec::with_capacity(RECORDS_MAX) }
    }

    /// Counts a read; returns whether there was room.
    #[inline]
    pub(in crate::fabric) fn note(&mut self, hash: u64) -> bool {
        let mut at = hash as usize % PLACES;
        loop {
            match usize::from(self.places[at]).checked_sub(1) {
                Some(number) if self.records[number].hash == hash => {
                    self.records[number].count = self.records[number].count.saturating_add(1);
                    return true;
                }
                // Less than half of the places are taken.
                Some(_) => at = (at + 1) % PLACES,
                None => break,
            }
        }
        if self.records.len() == RECORDS_MAX {
            return false;
        }
        self.records.push(Access { hash, count: 1 });
        self.places[at] = self.records.len() as u16;
        true
    }

    pub(in crate::fabric) fn records(&self) -> &[Access] {
        &self.records
    }

    /// Begins anew.
    pub(in crate::fabric) fn clear(&mut self) {
        self.records.clear();
        self.places.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that reads are counted per hash, and that a full table drops new hashes only.
    #[test]
    fn reads_are_counted_per_hash() {
        let mut history = History::new();
        for number in 0..3 * RECORDS_MAX as u64 {
            // Colliding places.
            let hash = number % RECORDS_MAX as u64 * PLACES as u64 / 4;
            assert!(history.note(hash));
        }
        assert_eq!(history.records().len(), RECORDS_MAX);
        assert!(history.records().iter().all(|record| record.count == 3));
        assert!(!history.note(1) && history.note(0));
        history.clear();
        assert!(history.records().is_empty() && history.note(1));
    }
}
