//! Pauses between attempts to attach.

use crate::options::DEAD_FOR_NS_MIN;

/// The pause after the last attempt that failed: the shortest one at first, each further one twice as long,
/// up to [`crate::Options::dead_for_ns`].
#[derive(Debug)]
pub(crate) struct Pause {
    until_ns: u64,
    next_ns: u64,
    ns_max: u64,
    /// The server had no place for another client.
    is_full: bool,
    /// A request had no reply, and none had one since.
    is_silent: bool,
}

impl Pause {
    /// Returns no pause.
    pub fn new(dead_for_ns: u64) -> Self {
        Self {
            until_ns: 0,
            next_ns: DEAD_FOR_NS_MIN,
            ns_max: dead_for_ns.max(DEAD_FOR_NS_MIN),
            is_full: false,
            is_silent: false,
        }
    }

    /// Begins a pause after an attempt that began at `began_ns`: twice as long as the one before unless that
    /// was long over by then.
    pub fn begin(&mut self, began_ns: u64, now_ns: u64, is_full: bool) {
        if began_ns > self.until_ns.saturating_add(self.next_ns) {
            self.next_ns = DEAD_FOR_NS_MIN;
        }
        self.is_full = is_full;
        self.until_ns = now_ns.saturating_add(self.next_ns);
        self.next_ns = self.next_ns.saturating_mul(2).min(self.ns_max);
    }

    /// Notes that a request had no reply within its deadline. The first time the server is tried again at
    /// once.
    pub fn note_silence(&mut self, began_ns: u64, now_ns: u64) {
        if std::mem::replace(&mut self.is_silent, true) {
            self.begin(began_ns, now_ns, false);
        }
    }

    /// Returns whether the server may be tried.
    pub fn is_over(&self, now_ns: u64) -> bool {
        now_ns >= self.until_ns
    }

    /// Returns whether the last attempt found a server without a place for another client.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Notes that the server has let this client in.
    pub fn let_in(&mut self) {
        self.is_full = false;
    }

    /// Notes that a request had its reply.
    pub fn end(&mut self) {
        (self.next_ns, self.is_full, self.is_silent) = (DEAD_FOR_NS_MIN, false, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_while_trouble_lasts() {
        // A server that is stopped refuses nothing: each attempt takes a deadline.
        for attempt_ns in [0, 2_000_000_000] {
            let mut pause = Pause::new(50_000_000);
            let mut now_ns = 1_000_000_000;
            let mut lengths = Vec::new();
            for _ in 0..5 {
                let began_ns = now_ns;
                now_ns += attempt_ns;
                pause.begin(began_ns, now_ns, true);
                assert!(!pause.is_over(now_ns) && pause.is_full());
                lengths.push((pause.until_ns - now_ns) / 1_000_000);
                now_ns = pause.until_ns + 1;
                pause.let_in();
            }
            assert_eq!(lengths, [10, 20, 40, 50, 50]);
            now_ns += 1_000_000_000;
            pause.begin(now_ns, now_ns, false);
            assert_eq!(pause.until_ns - now_ns, 10_000_000, "the trouble before is long over");
            pause.end();
            assert!(!pause.is_full() && pause.is_over(pause.until_ns));
        }
    }
}
