//! Replies: their meaning, and the commands that follow from them.

use micanite_workload::trace::Operation;

use super::connection::Reply;
use super::lane::{Lane, Phase, Slot};
use super::step::Fill;
use super::tally::{News, Tally};

pub(super) struct Counts {
    pub tally: Tally,
    pub news: News,
    /// Bytes at the start of keys that the trace does not count.
    pub prefix_bytes: u64,
    /// True if requests have a time.
    pub is_timed: bool,
}

impl Counts {
    /// A request is being sent.
    pub fn sent(&mut self, slot: &Slot, now_ns: u64, was_held: bool) {
        if self.is_timed {
            let lag_ns = now_ns.saturating_sub(slot.due_ns);
            self.tally.sent(lag_ns, was_held);
            self.news.lag_ns_max = self.news.lag_ns_max.max(lag_ns);
        }
    }

    /// Counts a reply, and sends the command that follows from it.
    pub fn settle(&mut self, lane: &mut Lane, token: u32, reply: Reply, now_ns: u64) {
        let slot = lane.slots[token as usize];
        let operation = slot.step.operation;
        match (slot.phase, reply) {
            (Phase::Fill, Reply::Done) => self.tally.filled += 1,
            (Phase::Fill, _) => self.tally.not_filled += 1,
            (Phase::First, Reply::Found { cas, .. }) if operation == Operation::Cas => {
                lane.slots[token as usize].phase = Phase::Swap;
                lane.command(token, Operation::Cas, cas);
                return;
            }
            (Phase::First | Phase::Swap, _) => {
                self.count(&slot, reply, now_ns);
                if reply == Reply::NotFound && slot.step.fill == Fill::Yes {
                    lane.slots[token as usize].phase = Phase::Fill;
                    lane.command(token, Operation::Set, 0);
                    return;
                }
                let is_too_large = slot.step.fill == Fill::TooLarge;
                self.tally.too_large += u64::from(reply == Reply::NotFound && is_too_large);
            }
        }
        lane.end(token);
        let is_there = match reply {
            Reply::Found { .. } => true,
            Reply::Done => operation != Operation::Delete,
            _ => false,
        };
        self.unpark(lane, slot.step.key_hash, is_there, now_ns);
    }

    /// Sends what waited for this key: the next request or, as long as the item is there, all reads up to
    /// the next write, for none of them changes what another one finds.
    fn unpark(&mut self, lane: &mut Lane, key_hash: u64, is_there: bool, now_ns: u64) {
        if lane.is_busy_with(key_hash) {
            return;
        }
        let mut next = lane.unpark(key_hash, |_| true);
        while let Some(mut slot) = next {
            if !self.is_timed {
                slot.due_ns = now_ns;
            }
            let is_plain = |slot: &Slot| slot.step.operation == Operation::Get;
            let more = is_there && is_plain(&slot);
            self.sent(&slot, now_ns, true);
            lane.begin(slot);
            next = if more { lane.unpark(key_hash, is_plain) } else { None };
        }
    }

    fn count(&mut self, slot: &Slot, reply: Reply, now_ns: u64) {
        let operation = slot.step.operation;
        self.tally.latency(now_ns.saturating_sub(slot.due_ns));
        self.news.answered += 1;
        let ends = self.tally.ended(operation);
        match reply {
            Reply::Found { .. } | Reply::Done => ends.done += 1,
            Reply::NotFound | Reply::NotDone => ends.not_done += 1,
            Reply::Refused => ends.refused += 1,
            Reply::Lost => ends.lost += 1,
        }
        if !operation.reads() || matches!(reply, Reply::Refused | Reply::Lost) {
            return;
        }
        self.news.reads += 1;
        let key_bytes = u64::from(slot.step.key_bytes) - self.prefix_bytes;
        if let Reply::Found { value_bytes, .. } = reply {
            let told_bytes = slot.step.value_bytes.unwrap_or(0).into();
            self.news.hits += 1;
            self.tally.hit_bytes += key_bytes + value_bytes.unwrap_or(told_bytes);
        } else if let Some(value_bytes) = slot.step.value_bytes {
            self.tally.missed_bytes += key_bytes + u64::from(value_bytes);
        }
    }
}
