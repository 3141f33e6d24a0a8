//! Counts of a group of keys: of all keys, or of those with one prefix.

use super::causes::Read;
use super::keys::Reads;
use super::sizes::Sizes;
use super::times::{Bins, Hits, Rate, Touch, Windows};
use crate::trace::{Operation, Outcome, Request};

const SECOND_MS: u64 = 1000;
const MINUTE_MS: u64 = 60 * SECOND_MS;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;
/// Hours of a week: reuse after more than these counts with the last one.
pub(super) const HOURS: usize = 168;
/// 1970 began on a Thursday: so many hours after a Monday.
const THURSDAY_HOUR: u64 = 3 * 24;

/// The hour of the week of a time since 1970, beginning on Monday.
const fn hour_of_week(time_ms: u64) -> usize {
    ((time_ms / HOUR_MS + THURSDAY_HOUR) % HOURS as u64) as usize
}

/// Milliseconds of each hour of the week from the first request of a trace to the last one, which is
/// given a second: most traces know whole seconds only.
pub(super) fn covered(start_ms: u64, end_ms: u64) -> [u64; HOURS] {
    let span_ms = (end_ms - start_ms).saturating_add(SECOND_MS);
    let week_ms = HOURS as u64 * HOUR_MS;
    let mut covered = [span_ms / week_ms * HOUR_MS; HOURS];
    let (mut at_ms, mut left_ms) = (start_ms, span_ms % week_ms);
    while left_ms > 0 {
        let part_ms = left_ms.min(HOUR_MS - at_ms % HOUR_MS);
        covered[hour_of_week(at_ms)] += part_ms;
        at_ms = at_ms.saturating_add(part_ms);
        left_ms -= part_ms;
    }
    covered
}

/// Counts of a group. Fractions of keys stand for others where the keys are a sample: what
/// depends on keys is in units of all of them, and may be broken.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    pub requests: u64,
    pub operations: [u64; Operation::ALL.len()],
    /// Reads by what the trace says of them: nothing, hit, miss.
    pub outcomes: [u64; 3],
    /// Lengths of keys, where the trace tells them.
    pub key_bytes: Sizes,
    /// Lengths of values, or of both where the trace tells only that, of each request that has one.
    pub value_bytes: Sizes,
    /// The same of the requests alone that store a whole value.
    pub set_key_bytes: Sizes,
    pub set_value_bytes: Sizes,
    pub rate: Rate,
    /// Reads and hits over time.
    pub hits: Bins<Hits>,
    /// Requests by the hour of the week (UTC), beginning on Monday.
    pub week: [u64; HOURS],
    pub minutes: Windows,
    pub hours: Windows,
    pub days: Windows,
    /// Gaps between requests of the same key by their whole hours.
    pub reuse: Vec<f64>,
    /// Ends of the reads in a cache of some memory, by [`Read`].
    pub reads: [f64; 4],
}

impl Default for Figures {
    fn default() -> Self {
        Self {
            requests: 0,
            operations: [0; Operation::ALL.len()],
            outcomes: [0; 3],
            key_bytes: Sizes::default(),
            value_bytes: Sizes::default(),
            set_key_bytes: Sizes::default(),
            set_value_bytes: Sizes::default(),
            hits: Bins::default(),
            rate: Rate::default(),
            week: [0; HOURS],
            minutes: Windows::new(MINUTE_MS),
            hours: Windows::new(HOUR_MS),
            days: Windows::new(DAY_MS),
            reuse: vec![0.0; HOURS],
            reads: [0.0; 4],
        }
    }
}

impl Figures {
    /// Counts what does not depend on the key; `start_ms` is the time of the first request of the trace.
    pub fn count(&mut self, request: &Request<'_>, start_ms: u64) {
        self.requests += 1;
        self.operations[request.operation as usize] += 1;
        let since_ms = request.time_ms - start_ms;
        if request.operation.reads() {
            self.outcomes[request.outcome as usize] += 1;
        }
        if let Some(hit) = request.told_hit() {
            self.hits.add(since_ms, Hits::told(hit));
        }
        let stores = request.operation.stores_whole();
        if request.key_bytes > 0 {
            self.key_bytes.add(request.key_bytes);
            if stores {
                self.set_key_bytes.add(request.key_bytes);
            }
        }
        if let Some(bytes) = request.value_bytes {
            self.value_bytes.add(bytes);
            if stores {
                self.set_value_bytes.add(bytes);
            }
        }
        self.rate.add(since_ms, 1);
        self.week[hour_of_week(request.time_ms)] += 1;
    }

    /// A request of a key in the sample, with its reads before; returns those in the current minute, hour
    /// and day.
    pub fn touch(&mut self, touch: &Touch, reads: Reads) -> [u8; 3] {
        if let Some((last_ms, _)) = touch.last {
            let hours = ((touch.time_ms - last_ms) / HOUR_MS) as usize;
            self.reuse[hours.min(HOURS - 1)] += touch.weight;
        }
        let windows = [&mut self.minutes, &mut self.hours, &mut self.days];
        let mut within = [0; 3];
        for (at, windows) in windows.into_iter().enumerate() {
            within[at] = windows.touch(touch, reads.within(at));
        }
        within
    }

    /// A read of a simulated cache, by a key that stands for `weight` keys.
    pub fn read(&mut self, since_ms: u64, read: Read, weight: f64) {
        self.reads[read as usize] += weight;
        self.hits.add(since_ms, Hits::simulated(read == Read::Hit, weight));
    }

    /// Ends what is under way.
    pub fn close(&mut self) {
        for windows in [&mut self.minutes, &mut self.hours, &mut self.days] {
            windows.close();
        }
    }

    /// Share of the gaps between requests of the same key that are less than so many hours.
    pub fn reused_within(&self, hours: usize) -> f64 {
        let all: f64 = self.reuse.iter().sum();
        if all > 0.0 { self.reuse[..hours.min(HOURS)].iter().sum::<f64>() / all } else { 0.0 }
    }

    /// Share of the reads in a cache of some memory that missed, and of these the share of each
    /// cause; nothing if no cache was asked.
    pub fn misses(&self) -> Option<(f64, [f64; 3])> {
        let [hits, compulsory, invalidation, capacity] = self.reads;
        let causes = [compulsory, invalidation, capacity];
        let misses: f64 = causes.iter().sum();
        (hits + misses > 0.0)
            .then(|| (misses / (hits + misses), causes.map(|cause| cause / misses.max(f64::MIN_POSITIVE))))
    }

    /// Share of hits among the reads whose end the trace tells; none if it tells none.
    pub fn hit_ratio(&self) -> Option<f64> {
        let hits = self.outcomes[Outcome::Hit as usize];
        let said = hits + self.outcomes[Outcome::Miss as usize];
        (said > 0).then(|| hits as f64 / said as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Key;

    fn request(time_ms: u64) -> Request<'static> {
        Request {
            time_ms,
            key: Key::Number(1),
            operation: Operation::Get,
            key_bytes: 20,
            value_bytes: Some(5),
            expiry_s: None,
            outcome: Outcome::Hit,
        }
    }

    #[test]
    fn hours_of_the_week_begin_on_monday() {
        let mut figures = Figures::default();
        // 2024-01-01 was a Monday: 00:30 UTC. 1970 began on a Thursday.
        figures.count(&request(1_704_069_000_000), 0);
        figures.count(&request(0), 0);
        assert_eq!((figures.week[0], figures.week[3 * 24]), (1, 1));
        assert_eq!(figures.hit_ratio(), Some(1.0));
    }

    #[test]
    fn a_trace_covers_its_hours() {
        // From half past ten on a Monday to a quarter past eleven, a week and a day later.
        let start_ms = 1_704_069_000_000 + 10 * HOUR_MS;
        let end_ms = start_ms + HOURS as u64 * HOUR_MS + DAY_MS + 45 * MINUTE_MS - SECOND_MS;
        let covered = covered(start_ms, end_ms);
        let minutes = |day: usize, hour: usize| covered[day * 24 + hour] / MINUTE_MS;
        let found = [(0, 9), (0, 10), (0, 11), (1, 9), (1, 10), (1, 11), (1, 12), (6, 10)];
        assert_eq!(found.map(|(day, hour)| minutes(day, hour)), [60, 90, 120, 120, 120, 75, 60, 60]);
        assert_eq!(super::covered(7, 7).iter().sum::<u64>(), SECOND_MS);
        assert!(super::covered(0, u64::MAX).iter().all(|hour| *hour > 0));
    }

    #[test]
    fn gaps_count_at_their_hour() {
        let mut figures = Figures::default();
        let of = |time_ms, last| Touch { time_ms, last, bytes: 25, reads: true, weight: 1.0 };
        for gap_ms in [1, HOUR_MS - 1, HOUR_MS, 1000 * HOUR_MS] {
            figures.touch(&of(gap_ms, Some((0, 25))), Reads::default());
        }
        figures.touch(&of(0, None), Reads::default());
        assert_eq!((figures.reuse[0], figures.reuse[1], figures.reuse[HOURS - 1]), (2.0, 1.0, 1.0));
        assert!((figures.reused_within(1) - 0.5).abs() < 1e-9);
    }
}
