//! Ids of requests that must not be executed twice (`docs/protocol.md`, "Once").

const WORDS: usize = (u16::MAX as usize + 1) / 64;
const BITS: u64 = WORDS as u64 * 64;

/// Ids for one server. Those in flight lie within a window that begins with the oldest.
#[derive(Debug)]
pub(crate) struct Ids {
    next: u64,
    /// Oldest id in flight, or the next one.
    oldest: u64,
    window: u64,
    /// Marks ended ids from the oldest on, by their low bits.
    ended: Vec<u64>,
}

impl Ids {
    pub(crate) fn new() -> Self {
        Self { next: 1, oldest: 1, window: 1, ended: vec![0; WORDS] }
    }

    /// Sets how many ids the server remembers.
    pub(crate) fn set_window(&mut self, ids_window: u16) {
        self.window = u64::from(ids_window.max(1));
    }

    /// Returns the next id, unless at most one place is left in the window.
    pub(crate) fn take(&mut self) -> Option<u64> {
        self.take_within((self.window - 1).max(1))
    }

    /// Returns the next id, unless the window is full. It is for the request that introduces the
    /// client, so that the server remembers the others.
    pub(crate) fn take_last(&mut self) -> Option<u64> {
        self.take_within(self.window)
    }

    fn take_within(&mut self, window: u64) -> Option<u64> {
        if self.next - self.oldest >= window {
            return None;
        }
        let id = self.next;
        self.next += 1;
        Some(id)
    }

    /// Gives back the last taken id, which was never sent; 0 = none.
    pub(crate) fn untake(&mut self, id: u64) {
        if id != 0 && id + 1 == self.next {
            self.next = id;
        }
    }

    /// Ends an id, which is no longer in flight.
    pub(crate) fn end(&mut self, id: u64) {
        if !(self.oldest..self.next).contains(&id) {
            return;
        }
        let (word, bit) = place(id);
        self.ended[word] |= bit;
        while self.oldest < self.next {
            let (word, bit) = place(self.oldest);
            if self.ended[word] & bit == 0 {
                break;
            }
            self.ended[word] &= !bit;
            self.oldest += 1;
        }
    }
}

fn place(id: u64) -> (usize, u64) {
    let at = id % BITS;
    ((at / 64) as usize, 1 << (at % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_begins_with_the_oldest() {
        let mut ids = Ids::new();
        ids.set_window(5);
        assert_eq!((1..=5).map(|_| ids.take()).last(), Some(None));
        ids.end(2);
        ids.end(3);
        assert_eq!(ids.take(), None);
        ids.end(1);
        assert_eq!([ids.take(), ids.take(), ids.take(), ids.take()], [Some(5), Some(6), Some(7), None]);
        assert_eq!(ids.take_last(), Some(8));
        ids.untake(8);
        ids.untake(7);
        assert_eq!(ids.take(), Some(7));
    }

    #[test]
    fn ids_go_round_the_bitmap() {
        let mut ids = Ids::new();
        ids.set_window(u16::MAX);
        for id in 1..=300_000 {
            assert_eq!(ids.take(), Some(id));
            if id > 1000 {
                ids.end(id - 1000);
            }
            ids.end(id - id % 7);
        }
        assert!(ids.next - ids.oldest <= 1000);
    }
}
