//! Answers to hellos that are being sent: one for each peer, and each for a limited time, because strangers
//! need not take them.

use arrayvec::ArrayVec;
use micanite_fabric::Peer;

use crate::limits::{FABRIC_GIVE_UP_MS, FABRIC_HELLOS};

#[derive(Clone, Copy, Debug)]
struct Sent<P> {
    number: u32,
    peer: P,
    sent_ms: u64,
}

/// Answers to hellos that are being sent.
#[derive(Debug)]
pub struct Answering<P = Peer> {
    sent: ArrayVec<Sent<P>, FABRIC_HELLOS>,
    numbers: u32,
}

impl<P> Default for Answering<P> {
    fn default() -> Self {
        Self { sent: ArrayVec::new(), numbers: 0 }
    }
}

impl<P: Copy + PartialEq> Answering<P> {
    /// Returns the number of the next answer.
    pub fn next_number(&mut self) -> u32 {
        self.numbers = self.numbers.wrapping_add(1);
        self.numbers
    }

    /// Notes an answer that is being sent. There are as many as buffers for them at most.
    pub fn begin(&mut self, number: u32, peer: P, now_ms: u64) {
        let _ = self.sent.try_push(Sent { number, peer, sent_ms: now_ms });
    }

    /// Notes that an answer was sent, or could not be.
    pub fn end(&mut self, number: u32) {
        self.sent.retain(|sent| sent.number != number);
    }

    /// Returns whether an answer to a peer is being sent.
    pub fn has(&self, peer: P) -> bool {
        self.sent.iter().any(|sent| sent.peer == peer)
    }

    /// Takes an answer that is being sent for too long.
    pub fn take_late(&mut self, now_ms: u64) -> Option<u32> {
        let is_late = |sent: &Sent<P>| now_ms.saturating_sub(sent.sent_ms) > FABRIC_GIVE_UP_MS;
        let place = self.sent.iter().position(is_late)?;
        Some(self.sent.swap_remove(place).number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_nobody_takes_is_given_up_once() {
        let mut answering = Answering::default();
        let [first, second] = ["a", "b"].map(|peer| {
            let number = answering.next_number();
            answering.begin(number, peer, 1000);
            number
        });
        assert!(answering.has("a") && answering.has("b") && !answering.has("c"));
        answering.end(first);
        assert!(!answering.has("a"));
        assert_eq!(answering.take_late(1000 + FABRIC_GIVE_UP_MS), None);
        assert_eq!(answering.take_late(1001 + FABRIC_GIVE_UP_MS), Some(second));
        assert_eq!(answering.take_late(u64::MAX), None);
        assert!(!answering.has("b"));
    }
}
