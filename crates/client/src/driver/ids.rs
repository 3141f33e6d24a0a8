//! Ids of requests that must not be executed twice (`docs/protocol.md`, "Once").

const WORDS: usize = (u16::MAX as usize + 1) / 64;
const BITS: u64 = WORDS as u64 * 64;

/// The ids of one server: those in the air lie within a window that begins with the oldest.
#[derive(Debug)]
pub(super) struct Ids {
    next: u64,
    /// The oldest that is in the air, or the next.
    oldest: u64,
    window: u64,
    /// Which of those from the oldest on have ended, by their low bits.
    ended: Vec<u64>,
}

impl Ids {
    pub(super) fn new() -> Self {
        Self {
            next: 1,
            oldest: 1,
            window: 1,
            ended: vec![0; WORDS],
        }
    }

    /// The server remembers so many.
    pub(super) fn set_window(&mut self, ids_window: u16) {
        self.window = u64::from(ids_window.max(1));
    }

    /// The next id, unless the window is full but for one.
    pub(super) fn take(&mut self) -> Option<u64> {
        self.take_within((self.window - 1).max(1))
    }

    /// The next id, unless the window is full: for the request that makes a server remember the
    /// others.
    pub(super) fn take_last(&mut self) -> Option<u64> {
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

    /// Gives back an id that was taken last and never sent; 0 is none.
    pub(super) fn untake(&mut self, id: u64) {
        if id != 0 && id + 1 == self.next {
            self.next = id;
        }
    }

    /// An id is not in the air any more.
    pub(super) fn end(&mut self, id: u64) {
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
        assert_eq!(
            [ids.take(), ids.take(), ids.take(), ids.take()],
            [Some(5), Some(6), Some(7), None]
        );
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
