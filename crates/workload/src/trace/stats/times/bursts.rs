//! Bursts: intervals in which far more is asked for than before, and what they do to the hits.
//!
//! The rate before is the mean of the last intervals that belong to no burst. A burst lasts from the first
//! interval above [`FACTOR`] times that rate to the last one in a row. What stays above for longer than the
//! mean remembers is no burst but another load: the mean begins anew.

use std::collections::VecDeque;

/// Intervals of which the mean is the rate before.
const BEFORE: usize = 600;
/// Intervals that a mean takes at least.
const BEFORE_MIN: usize = 60;
/// A burst has so many times the rate before.
const FACTOR: f64 = 1.5;
/// It is also so many times the square root of that rate above it, which chance is not.
const DEVIATIONS: f64 = 6.0;
/// With fewer requests in an interval before, nothing is called a burst.
const REQUESTS_MIN: f64 = 20.0;
/// Bursts that are listed: the highest.
const LISTED_MAX: usize = 1 << 12;

/// Counts of an interval, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::trace::stats) struct Count {
    pub requests: u64,
    /// Different keys in each interval.
    pub keys: f64,
    /// Reads whose end is known, and those of them that hit.
    pub reads: f64,
    pub hits: f64,
}

impl Count {
    fn add(&mut self, other: &Self, sign: f64) {
        self.requests = self.requests.wrapping_add_signed(other.requests as i64 * sign as i64);
        self.keys += other.keys * sign;
        self.reads += other.reads * sign;
        self.hits += other.hits * sign;
    }

    /// Share of the reads that hit; none if the end of none is known.
    pub fn hit_ratio(&self) -> Option<f64> {
        (self.reads > 0.5).then(|| self.hits / self.reads)
    }

    /// Different keys per request.
    pub fn keys_per_request(&self) -> f64 {
        self.keys / self.requests.max(1) as f64
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(in crate::trace::stats) struct Burst {
    /// Number of its first interval.
    pub first: u64,
    pub intervals: u64,
    pub all: Count,
    /// Requests of its busiest interval, in units of the rate before.
    pub peak: f64,
    /// Intervals before it, and their counts.
    pub before_intervals: usize,
    pub before: Count,
}

impl Burst {
    /// Rate of the whole burst, in units of the rate before.
    pub fn mean(&self) -> f64 {
        let per_interval = self.all.requests as f64 / self.intervals as f64;
        per_interval / (self.before.requests as f64 / self.before_intervals as f64)
    }

    /// Change of the hit ratio against the time before.
    pub fn change(&self) -> Option<f64> {
        Some(self.all.hit_ratio()? - self.before.hit_ratio()?)
    }
}

/// Finds bursts in requests that come in the order of their times.
#[derive(Clone, Debug)]
pub(in crate::trace::stats) struct Bursts {
    pub width_ms: u64,
    number: u64,
    current: Count,
    before: VecDeque<Count>,
    sum: Count,
    burst: Option<Burst>,
    found: Vec<Burst>,
    /// All bursts, also those that are not listed.
    pub count: u64,
    /// Intervals with a rate before, and those whose rate was too low to call anything a burst.
    intervals: u64,
    low: u64,
}

impl Bursts {
    pub fn new(width_ms: u64) -> Self {
        Self {
            width_ms,
            number: 0,
            current: Count::default(),
            before: VecDeque::new(),
            sum: Count::default(),
            burst: None,
            found: Vec::new(),
            count: 0,
            intervals: 0,
            low: 0,
        }
    }

    /// Number of the interval of a time since the beginning of the trace.
    pub const fn number(&self, time_ms: u64) -> u64 {
        time_ms / self.width_ms
    }

    /// Counts a request, and the read's end if it is known.
    pub fn add(&mut self, time_ms: u64, hit: Option<bool>) {
        let number = self.number(time_ms);
        // Of a long pause only the intervals matter that the mean remembers.
        let pause = number.saturating_sub(self.number).min(1 + BEFORE as u64);
        for _ in 0..pause {
            self.end_interval();
        }
        self.number = number;
        self.current.requests += 1;
        if let Some(hit) = hit {
            self.end_read(hit, 1.0);
        }
    }

    /// Counts a key that has not been asked for in the current interval, and stands for `weight` keys.
    pub fn add_key(&mut self, weight: f64) {
        self.current.keys += weight;
    }

    /// Counts the end of a read.
    pub fn end_read(&mut self, hit: bool, weight: f64) {
        self.current.reads += weight;
        self.current.hits += if hit { weight } else { 0.0 };
    }

    /// Ends the last interval and the last burst.
    pub fn close(&mut self) {
        self.end_interval();
        self.end_burst();
        self.found.sort_by_key(|burst| burst.first);
    }

    fn end_interval(&mut self) {
        let ended = std::mem::take(&mut self.current);
        let number = self.number;
        self.number += 1;
        let intervals = self.before.len();
        let per_interval = self.sum.requests as f64 / intervals.max(1) as f64;
        if intervals >= BEFORE_MIN {
            self.intervals += 1;
            self.low += u64::from(per_interval < REQUESTS_MIN);
        }
        let least = (per_interval * FACTOR).max(per_interval + DEVIATIONS * per_interval.sqrt());
        let can_tell = intervals >= BEFORE_MIN && per_interval >= REQUESTS_MIN;
        if !can_tell || ended.requests as f64 <= least {
            self.end_burst();
            return self.remember(ended);
        }
        let burst = self.burst.get_or_insert_with(|| Burst {
            first: number,
            intervals: 0,
            all: Count::default(),
            peak: 0.0,
            before_intervals: intervals,
            before: self.sum,
        });
        burst.intervals += 1;
        burst.all.add(&ended, 1.0);
        burst.peak = burst.peak.max(ended.requests as f64 / per_interval);
        if burst.intervals as usize > BEFORE {
            self.burst = None;
            self.before.clear();
            self.sum = Count::default();
        }
    }

    fn remember(&mut self, ended: Count) {
        self.sum.add(&ended, 1.0);
        self.before.push_back(ended);
        if self.before.len() > BEFORE
            && let Some(oldest) = self.before.pop_front()
        {
            self.sum.add(&oldest, -1.0);
        }
    }

    fn end_burst(&mut self) {
        let Some(burst) = self.burst.take() else {
            return;
        };
        self.count += 1;
        self.found.push(burst);
        if self.found.len() >= 2 * LISTED_MAX {
            self.found.sort_by(|a, b| b.peak.total_cmp(&a.peak));
            self.found.truncate(LISTED_MAX);
        }
    }

    /// Bursts in the order of their times: all, or the highest of very many.
    pub fn listed(&self) -> &[Burst] {
        &self.found
    }

    /// Says that nothing could be called a burst for most of the time, and what to do.
    pub fn remark(&self) -> Option<String> {
        (self.low * 2 > self.intervals).then(|| {
            let seconds = self.width_ms / 1000;
            format!(
                "most intervals of {seconds} s have fewer than {REQUESTS_MIN:.0} requests, in which bursts \
                 cannot be told from chance: --interval {} looks for longer ones",
                seconds * 10
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts of 100 requests in each of 100 s, then 400 in each of 3 s, then 100 again.
    fn with_a_burst(burst_hits: bool) -> Bursts {
        let mut bursts = Bursts::new(1000);
        for second in 0..150u64 {
            let is_burst = (100..103).contains(&second);
            for request in 0..if is_burst { 400 } else { 100 } {
                let hits = if is_burst { burst_hits } else { request % 2 == 0 };
                bursts.add(second * 1000 + request, Some(hits));
                if request < 50 {
                    bursts.add_key(1.0);
                }
            }
        }
        bursts.close();
        bursts
    }

    #[test]
    fn a_burst_is_found_with_what_it_does_to_hits() {
        for hits in [true, false] {
            let bursts = with_a_burst(hits);
            let [burst] = bursts.listed() else {
                panic!("{:?}", bursts.listed());
            };
            assert_eq!((burst.first, burst.intervals, burst.all.requests), (100, 3, 1200));
            assert!((burst.peak - 4.0).abs() < 1e-9 && (burst.mean() - 4.0).abs() < 1e-9);
            assert_eq!(burst.change(), Some(if hits { 0.5 } else { -0.5 }));
            assert_eq!((burst.before.keys_per_request(), burst.all.keys_per_request()), (0.5, 0.125));
            assert!(bursts.count == 1 && bursts.remark().is_none());
        }
    }

    #[test]
    fn a_load_that_stays_is_no_burst() {
        let mut bursts = Bursts::new(1000);
        for second in 0..3000u64 {
            for request in 0..if second < 1000 { 100 } else { 300 } {
                bursts.add(second * 1000 + request, None);
            }
        }
        bursts.close();
        assert!(bursts.listed().is_empty() && bursts.count == 0);
    }

    #[test]
    fn rare_requests_have_no_bursts_but_a_remark() {
        let mut bursts = Bursts::new(1000);
        for second in 0..1000u64 {
            for request in 0..if second == 500 { 30 } else { 3 } {
                bursts.add(second * 1000 + request, None);
            }
        }
        bursts.close();
        assert!(bursts.listed().is_empty());
        assert!(bursts.remark().is_some_and(|remark| remark.contains("--interval 10")));
    }

    /// Pauses are intervals without a request; however long one is, it takes no time.
    #[test]
    fn pauses_lower_the_rate_before() {
        let mut bursts = Bursts::new(1000);
        for time_ms in (0..1_000_000).chain([u64::MAX]) {
            bursts.add(time_ms, None);
        }
        bursts.close();
        assert!(bursts.listed().is_empty());
        assert_eq!(bursts.sum.requests, 1);
    }
}
