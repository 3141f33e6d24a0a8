//! Counts and times of one thread.

use std::ops::{AddAssign, Range};

use hdrhistogram::Histogram;
use micanite_client::PortCounters;
use serde::Serialize;

use crate::report::{BatchTally, FabricTally};
use crate::requests::held_updates::HeldUpdates;
use crate::run::latencies::{Class, LATENCY_NS_MAX, Latencies, bounded};

/// Items that wait to be stored, at most.
const MISSED_MAX: usize = 1 << 16;

/// Counts of requests, except where operations (keys) are named. They belong to the requests that
/// were due in the measured part of the run.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Counts {
    /// Handed to connections.
    pub sent: u64,
    pub answered: u64,
    /// Sent, and not answered in time.
    pub lost: u64,
    /// Due, and never sent: all connections had as much in flight as they may.
    pub unsent: u64,
    /// Answered after they had been counted as lost, or twice.
    pub late: u64,
    /// Datagrams that the native client has sent again, at any time.
    pub resent: u64,
    /// Answered by an error.
    pub refused: u64,
    /// Values that do not belong to their key, at any time.
    pub wrong_values: u64,
    pub read_operations: u64,
    #[serde(skip)]
    pub hits: u64,
    pub write_operations: u64,
    /// Reading operations whose values were read one-sided.
    #[serde(skip)]
    pub one_sided: u64,
    /// Counts of the port around the kernel, in the whole run.
    #[serde(skip)]
    pub port: PortCounters,
    /// Operations that were answered during the measured part, whenever they were due.
    #[serde(skip)]
    pub operations_in_window: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.answered += other.answered;
        self.lost += other.lost;
        self.unsent += other.unsent;
        self.late += other.late;
        self.resent += other.resent;
        self.refused += other.refused;
        self.wrong_values += other.wrong_values;
        self.read_operations += other.read_operations;
        self.hits += other.hits;
        self.write_operations += other.write_operations;
        self.one_sided += other.one_sided;
        self.port += other.port;
        self.operations_in_window += other.operations_in_window;
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    #[default]
    Read,
    Write,
    Delete,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Answer {
    pub kind: Kind,
    pub operations: u32,
    pub hits: u32,
    pub wrong_values: u32,
    pub refused: bool,
    /// Operations whose values were read one-sided.
    pub one_sided: u32,
}

/// Counts of a second, measured or not.
#[derive(Debug)]
pub(crate) struct Interval {
    pub operations: u64,
    pub lost: u64,
    pub wrong_values: u64,
    pub latency: Histogram<u32>,
}

/// Takes every event of a thread.
#[derive(Debug)]
pub(crate) struct Recorder {
    window_ns: Range<u64>,
    pub counts: Counts,
    pub latencies: Latencies,
    /// Counts of a client over a fabric.
    pub fabric: FabricTally,
    /// Datagrams of native clients in the measured part.
    pub batches: BatchTally,
    interval: Interval,
    /// Equal latencies in a row (requests of one batch) are recorded together.
    repeated: Repeated,
    /// Items of lost writes, when they are to be written again.
    pub resend: Option<Vec<u64>>,
    /// Items that were read and not found, when they are to be stored then.
    pub missed: Option<Vec<u64>>,
    /// GETs of a pool that UPDATEs may have to wait for.
    pub held_updates: HeldUpdates,
    /// The first error that a server answered with.
    pub refusal: Option<String>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Repeated {
    latency_ns: u64,
    class: Class,
    /// Latencies that are not recorded yet, and those of them that belong to the measured part.
    count: u64,
    measured: u64,
}

impl Recorder {
    /// Measures what is due within `window_ns`.
    pub fn new(window_ns: Range<u64>) -> Self {
        Self {
            window_ns,
            counts: Counts::default(),
            latencies: Latencies::new(),
            fabric: FabricTally::default(),
            batches: BatchTally::default(),
            interval: Interval::new(),
            repeated: Repeated::default(),
            resend: None,
            missed: None,
            held_updates: HeldUpdates::default(),
            refusal: None,
        }
    }

    /// Returns whether a time belongs to the measured part.
    pub fn measures(&self, now_ns: u64) -> bool {
        self.window_ns.contains(&now_ns)
    }

    /// A request has been handed to a connection.
    #[inline]
    pub fn sent(&mut self, scheduled_ns: u64) {
        self.counts.sent += u64::from(self.window_ns.contains(&scheduled_ns));
    }

    /// A request has been answered.
    #[inline]
    pub fn answered(&mut self, scheduled_ns: u64, now_ns: u64, answer: &Answer) {
        let operations = u64::from(answer.operations);
        if self.window_ns.contains(&now_ns) {
            self.counts.operations_in_window += operations;
        }
        self.interval.operations += operations;
        self.counts.wrong_values += u64::from(answer.wrong_values);
        self.interval.wrong_values += u64::from(answer.wrong_values);
        let measured = self.window_ns.contains(&scheduled_ns);
        if measured {
            self.counts.answered += 1;
            self.counts.refused += u64::from(answer.refused);
            if answer.kind == Kind::Read {
                self.counts.read_operations += operations;
                self.counts.hits += u64::from(answer.hits);
                self.counts.one_sided += u64::from(answer.one_sided);
            } else {
                self.counts.write_operations += operations;
            }
        }
        self.time(now_ns.saturating_sub(scheduled_ns), Class::of(answer), measured);
    }

    /// A request is given up. It counts with the time that it has waited: leaving it out would hide
    /// it.
    pub fn lost(&mut self, kind: Kind, scheduled_ns: u64, now_ns: u64) {
        let measured = self.window_ns.contains(&scheduled_ns);
        self.counts.lost += u64::from(measured);
        self.interval.lost += 1;
        self.time(now_ns.saturating_sub(scheduled_ns), Class::of_lost(kind), measured);
    }

    /// A request that was due has not been sent at all.
    pub fn unsent(&mut self, scheduled_ns: u64, now_ns: u64) {
        if self.window_ns.contains(&scheduled_ns) {
            self.counts.unsent += 1;
            self.time(now_ns.saturating_sub(scheduled_ns), Class::Other, true);
        }
    }

    /// Keeps an item that was not found, if it is to be stored. Whoever stores them is faster than
    /// replies come; what is too much is not kept. What has waited for the answer waits no longer.
    #[inline]
    pub fn note_answer(&mut self, items: &[u64], answer: &Answer) {
        if answer.kind == Kind::Read {
            self.held_updates.read_ended(items);
        }
        if let (Some(missed), [item]) = (&mut self.missed, items)
            && answer.kind == Kind::Read
            && answer.operations == 1
            && answer.hits + answer.wrong_values == 0
            && !answer.refused
            && missed.len() < MISSED_MAX
        {
            missed.push(*item);
        }
    }

    /// Keeps the first error for the report.
    pub fn note_refusal(&mut self, line: &[u8]) {
        if self.refusal.is_none() {
            let line = String::from_utf8_lossy(&line[..line.len().min(200)]);
            // A server may send what a terminal would obey.
            let harmless = |letter: char| if letter.is_control() { '?' } else { letter };
            self.refusal = Some(line.trim_end().chars().map(harmless).collect());
        }
    }

    #[inline]
    fn time(&mut self, latency_ns: u64, class: Class, measured: bool) {
        if (self.repeated.latency_ns, self.repeated.class) != (latency_ns, class) {
            self.record_repeated();
            (self.repeated.latency_ns, self.repeated.class) = (latency_ns, class);
        }
        self.repeated.count += 1;
        self.repeated.measured += u64::from(measured);
    }

    fn record_repeated(&mut self) {
        let Repeated { latency_ns, class, count, measured } = std::mem::take(&mut self.repeated);
        if count == 0 {
            return;
        }
        // Within bounds, so that recording cannot fail.
        let latency_ns = latency_ns.clamp(1, LATENCY_NS_MAX);
        if measured > 0 {
            self.latencies.record(class, latency_ns, measured);
        }
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let _ = self.interval.latency.record_n(latency_ns, count);
    }

    /// Returns the counts since the last call.
    pub fn take_interval(&mut self) -> Interval {
        self.record_repeated();
        std::mem::replace(&mut self.interval, Interval::new())
    }

    /// Counts and latencies are complete after this.
    pub fn finish(&mut self) {
        self.record_repeated();
    }
}

impl Interval {
    pub fn new() -> Self {
        Self { operations: 0, lost: 0, wrong_values: 0, latency: bounded(2) }
    }

    pub fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.lost += other.lost;
        self.wrong_values += other.wrong_values;
        // The same bounds: cannot fail.
        let _ = self.latency.add(&other.latency);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Answer =
        Answer { kind: Kind::Read, operations: 4, hits: 3, wrong_values: 0, refused: false, one_sided: 0 };

    #[test]
    fn only_what_is_due_in_the_window_is_measured() {
        let mut recorder = Recorder::new(1000..2000);
        for due in [500, 1500, 1999, 2000] {
            recorder.sent(due);
            recorder.answered(due, due + 600, &READ);
        }
        recorder.finish();
        let counts = recorder.counts;
        assert_eq!((counts.sent, counts.answered, counts.hits), (2, 2, 6));
        assert_eq!(recorder.latencies.all().len(), 2);
        // Answered within the window: the first alone (at 1100).
        assert_eq!(counts.operations_in_window, 4);
        assert_eq!(recorder.take_interval().operations, 16);
        assert_eq!(recorder.take_interval().operations, 0);
    }

    #[test]
    fn lost_requests_count_with_their_waiting_time() {
        let mut recorder = Recorder::new(0..1000);
        recorder.answered(0, 10, &READ);
        recorder.lost(Kind::Read, 0, 5000);
        recorder.unsent(500, 2500);
        recorder.unsent(1000, 9000);
        recorder.finish();
        assert_eq!((recorder.counts.lost, recorder.counts.unsent), (1, 1));
        assert_eq!(recorder.latencies.all().len(), 3);
        assert!(recorder.latencies.all().max() >= 4990);
    }

    #[test]
    fn missed_items_are_kept_on_demand() {
        let missed = |answer: Answer, items: &[u64]| {
            let mut recorder = Recorder::new(0..1000);
            recorder.note_answer(items, &answer);
            assert!(recorder.missed.is_none());
            recorder.missed = Some(Vec::new());
            recorder.note_answer(items, &answer);
            recorder.missed.unwrap_or_default()
        };
        let one = Answer { operations: 1, ..Answer::default() };
        assert_eq!(missed(one, &[7]), [7]);
        assert!(missed(Answer { hits: 1, ..one }, &[7]).is_empty());
        let wrong_values = 1;
        let wrong = Answer { wrong_values, ..one };
        assert!(missed(wrong, &[7]).is_empty());
        let refused = Answer { refused: true, ..one };
        assert!(missed(refused, &[7]).is_empty());
        let kind = Kind::Delete;
        assert!(missed(Answer { kind, ..one }, &[7]).is_empty());
        assert!(missed(READ, &[7, 8, 9, 10]).is_empty());
    }

    #[test]
    fn equal_latencies_in_a_row_are_all_recorded() {
        let mut recorder = Recorder::new(0..100);
        for (due, now) in [(0, 50), (0, 50), (10, 60), (0, 70), (200, 250)] {
            recorder.answered(due, now, &READ);
        }
        recorder.finish();
        assert_eq!(recorder.latencies.all().count_at(50), 3);
        assert_eq!(recorder.latencies.all().count_at(70), 1);
        assert_eq!(recorder.take_interval().latency.len(), 5);
    }

    #[test]
    fn any_latency_can_be_recorded() {
        let mut recorder = Recorder::new(0..u64::MAX);
        recorder.answered(0, 0, &READ);
        recorder.answered(0, u64::MAX - 1, &READ);
        recorder.finish();
        assert_eq!(recorder.latencies.all().len(), 2);
    }
}
