//! Writes of this client whose effect is open. Gets of their keys ask by a message.

const CELLS: usize = 4096;
/// Writes without a reply that are remembered.
const LOST_MAX: usize = 256;

/// Counts unanswered writes by a part of their keys' hashes, and remembers lost ones. A get of another key
/// may be taken for one of these, and asks by a message for no need.
///
/// No value would be wrong without it. A client sees its own write at once, though, and after a lost one it
/// asks the server once, which has either executed it then or will execute it as any later write.
#[derive(Debug)]
pub(in crate::fabric) struct Writes {
    cells: Box<[u16; CELLS]>,
    unanswered: usize,
    lost: Vec<u64>,
}

impl Writes {
    pub(in crate::fabric) fn new() -> Self {
        Self { cells: Box::new([0; CELLS]), unanswered: 0, lost: Vec::with_capacity(LOST_MAX) }
    }

    #[inline]
    pub(in crate::fabric) fn begin(&mut self, hash: u64) {
        self.cells[hash as usize % CELLS] += 1;
        self.unanswered += 1;
    }

    #[inline]
    pub(in crate::fabric) fn end(&mut self, hash: u64) {
        self.cells[hash as usize % CELLS] -= 1;
        self.unanswered -= 1;
    }

    /// Remembers a write that has ended without a reply.
    pub(in crate::fabric) fn lose(&mut self, hash: u64) {
        if self.lost.len() == LOST_MAX {
            self.lost.remove(0);
        }
        self.lost.push(hash);
    }

    /// Forgets a lost write: a get that was sent later has been answered.
    #[inline]
    pub(in crate::fabric) fn settle(&mut self, hash: u64) {
        if !self.lost.is_empty() {
            self.lost.retain(|lost| *lost != hash);
        }
    }

    /// Forgets all lost writes.
    pub(in crate::fabric) fn settle_all(&mut self) {
        self.lost.clear();
    }

    /// Returns whether a write of the key may be open.
    #[inline]
    pub(in crate::fabric) fn may_be_open(&self, hash: u64) -> bool {
        self.unanswered > 0 && self.cells[hash as usize % CELLS] > 0
            || !self.lost.is_empty() && self.lost.contains(&hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that a key is open from its first write to the end of its last.
    #[test]
    fn a_key_is_open_until_its_writes_have_ended() {
        let mut writes = Writes::new();
        writes.begin(5);
        writes.begin(5);
        writes.end(5);
        assert!(writes.may_be_open(5) && !writes.may_be_open(6));
        writes.end(5);
        assert!(!writes.may_be_open(5));
    }

    /// Proves that a lost write keeps its key open until a later get was answered.
    #[test]
    fn a_lost_write_is_open_until_a_get() {
        let mut writes = Writes::new();
        writes.lose(5);
        assert!(writes.may_be_open(5) && !writes.may_be_open(5 + CELLS as u64));
        writes.settle(6);
        assert!(writes.may_be_open(5));
        writes.settle(5);
        assert!(!writes.may_be_open(5));
        (0..2 * LOST_MAX as u64).for_each(|hash| writes.lose(hash));
        assert!(!writes.may_be_open(0) && writes.may_be_open(2 * LOST_MAX as u64 - 1));
        writes.settle_all();
        assert!(!writes.may_be_open(2 * LOST_MAX as u64 - 1));
    }
}
