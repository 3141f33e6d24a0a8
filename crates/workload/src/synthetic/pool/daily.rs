//! A pool's requests by the time of the day: the daily and the weekly curve, bursts, and keys that are asked
//! for again soon after they were missed.
//!
//! Operations, hits and causes of misses are those of the pool's stream, for clients that store what they
//! miss: a repeated GET takes the place of one that hits, and so hits itself. Bursts come on top.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::stream::{Miss, PoolOperation, PoolOptions, PoolRequest, PoolStream};
use super::{Pool, PoolItem};
use crate::Random;

/// Hours of the day (UTC) and factors of the rate, joined by straight lines: lowest at 08:00, two peaks at
/// 17:00 and 03:00 with high load between them, as published of ETC. The factors were not published.
const DAY: [(f64, f64); 7] =
    [(0.0, 1.12), (3.0, 1.25), (8.0, 0.6), (13.0, 0.95), (17.0, 1.25), (20.0, 1.15), (24.0, 1.12)];
/// Mean of the curve.
const DAY_MEAN: f64 = 24.595 / 24.0;
/// Factors of the days from Monday on: somewhat less towards the weekend.
const WEEK: [f64; 7] = [1.02, 1.02, 1.02, 1.01, 0.99, 0.97, 0.97];

/// Hours from one burst to the next, on average.
const BURST_HOURS: f64 = 6.0;
/// Shortest and longest burst, in seconds.
const BURST_S: [f64; 2] = [60.0, 300.0];
/// Lowest and highest rate of a burst, in units of the rate before: published is more than three times.
const BURST_FACTORS: [f64; 2] = [1.6, 3.5];
/// Items that a burst of limited content is about.
const BURST_ITEMS: usize = 8;
/// Share of a burst's GETs that miss if it is about varied keys.
const BURST_MISSES: f64 = 0.15;
/// Hours until a missed key is asked for again.
const REVISIT_HOURS: [f64; 2] = [1.0 / 60.0, 1.0 / 3.0];

/// Returns the factor of the rate at an hour since Monday, 00:00; its mean over a week is 1.
fn daily_factor(hours: f64) -> f64 {
    let (day, hour) = ((hours / 24.0) as usize, hours % 24.0);
    let after = DAY.iter().position(|(at, _)| *at > hour).unwrap_or(DAY.len() - 1);
    let ((from, low), (to, high)) = (DAY[after - 1], DAY[after]);
    let factor = low + (high - low) * (hour - from) / (to - from);
    factor / DAY_MEAN * WEEK[day % WEEK.len()]
}

/// A time in which more is asked for.
#[derive(Clone, Debug)]
struct Burst {
    end_hours: f64,
    factor: f64,
    /// Items that it is about; none if it is about varied keys.
    items: Option<[PoolItem; BURST_ITEMS]>,
}

/// A pool's requests with their times, without end; always the same for the same keys and seed.
#[derive(Clone, Debug)]
pub struct DailyStream {
    stream: PoolStream,
    random: Random,
    revisits: f64,
    gets_per_hour: f64,
    /// Time since Monday, 00:00.
    hours: f64,
    burst: Option<Burst>,
    next_burst_hours: f64,
    /// Missed items by the time (in millionths of an hour) at which they are asked for again.
    again: BinaryHeap<Reverse<(u64, u64)>>,
}

impl DailyStream {
    /// The requests of a pool with so many resident items.
    ///
    /// # Panics
    /// When there are no keys, or more than [`crate::ITEMS_MAX`].
    pub fn new(pool: Pool, keys: u64, seed: u64) -> Self {
        let mut random = Random::of_stream(seed, u64::MAX);
        Self {
            stream: PoolStream::new(pool, PoolOptions::new(keys, seed)),
            next_burst_hours: random.exponential(BURST_HOURS),
            random,
            revisits: pool.parameters().revisits,
            gets_per_hour: pool.gets_per_hour(keys),
            hours: 0.0,
            burst: None,
            again: BinaryHeap::new(),
        }
    }

    /// Time of the last request in milliseconds since Monday, 00:00.
    pub const fn time_ms(&self) -> f64 {
        self.hours * 3_600_000.0
    }

    fn draw(&mut self, [low, high]: [f64; 2]) -> f64 {
        low + (high - low) * self.random.unit()
    }

    /// Begins and ends bursts; returns the factor of the one that lasts.
    fn burst_factor(&mut self) -> f64 {
        if self.burst.as_ref().is_some_and(|burst| burst.end_hours <= self.hours) {
            self.burst = None;
        }
        if self.burst.is_none() && self.next_burst_hours <= self.hours {
            let length_hours = self.draw(BURST_S) / 3600.0;
            self.next_burst_hours = self.hours + length_hours + self.random.exponential(BURST_HOURS);
            let is_limited = self.random.chance(0.5);
            let items = is_limited.then(|| std::array::from_fn(|_| self.stream.next_resident()));
            let factor = self.draw(BURST_FACTORS);
            self.burst = Some(Burst { end_hours: self.hours + length_hours, factor, items });
        }
        self.burst.as_ref().map_or(1.0, |burst| burst.factor)
    }

    /// A GET that the burst adds.
    fn of_burst(&mut self) -> PoolRequest {
        let items = self.burst.as_ref().and_then(|burst| burst.items);
        let (item, miss) = match items {
            Some(items) => (items[self.random.below(BURST_ITEMS as u64) as usize], None),
            None if self.random.chance(BURST_MISSES) => (self.stream.next_scanned(), Some(Miss::Eviction)),
            None => (self.stream.next_resident(), None),
        };
        PoolRequest { operation: PoolOperation::Get, item, miss }
    }

    /// Lets a missed item come again, and lets one whose time has come take the place of a hit.
    fn revisit(&mut self, request: &mut PoolRequest) {
        let at = |hours: f64| (hours * 1e6) as u64;
        match request.miss {
            Some(Miss::Compulsory | Miss::Eviction) if self.random.chance(self.revisits) => {
                let due = at(self.hours + self.draw(REVISIT_HOURS));
                self.again.push(Reverse((due, request.item.number)));
            }
            None => {
                if let Some(Reverse((due, number))) = self.again.peek().copied()
                    && due <= at(self.hours)
                {
                    self.again.pop();
                    request.item.number = number;
                }
            }
            _ => {}
        }
    }
}

impl Iterator for DailyStream {
    type Item = PoolRequest;

    fn next(&mut self) -> Option<PoolRequest> {
        let factor = self.burst_factor();
        let is_added = factor > 1.0 && self.random.chance(1.0 - 1.0 / factor);
        let mut request = match is_added {
            true => self.of_burst(),
            false => self.stream.next()?,
        };
        if request.operation == PoolOperation::Get {
            self.hours += 1.0 / (self.gets_per_hour * daily_factor(self.hours) * factor);
            if !is_added {
                self.revisit(&mut request);
            }
        }
        Some(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_has_its_mean_and_its_extremes() {
        let at = |minute: u32| daily_factor(f64::from(minute) / 60.0);
        let mean = (0..7 * 24 * 60).map(at).sum::<f64>() / (7.0 * 24.0 * 60.0);
        assert!((mean - 1.0).abs() < 0.001, "{mean}");
        let by_load = |minutes: std::ops::Range<u32>| {
            minutes.max_by(|a, b| at(*a).total_cmp(&at(*b))).map(|minute| minute / 60)
        };
        assert_eq!((by_load(0..600), by_load(600..1440)), (Some(3), Some(17)));
        assert!((0..1440).all(|minute| at(minute) >= at(8 * 60)));
    }

    /// The rate follows the curve, and the mix stays the pool's.
    #[test]
    fn requests_follow_the_curve() {
        let keys = 3000;
        let mut stream = DailyStream::new(Pool::Etc, keys, 1);
        let (mut gets_of_hours, mut gets, mut all) = (vec![0.0; 168], 0.0, 0.0);
        while let Some(request) = stream.next() {
            let hour = (stream.time_ms() / 3_600_000.0) as usize;
            let Some(of_hour) = gets_of_hours.get_mut(hour) else {
                break;
            };
            all += 1.0;
            if request.operation == PoolOperation::Get {
                (*of_hour, gets) = (*of_hour + 1.0, gets + 1.0);
            }
        }
        for (hour, found) in gets_of_hours.iter().enumerate() {
            let expected = Pool::Etc.gets_per_hour(keys) * daily_factor(hour as f64 + 0.5);
            assert!((found / expected - 1.0).abs() < 0.35, "{hour}: {found}, not {expected}");
        }
        assert!((gets / all - Pool::Etc.mix()[0]).abs() < 0.01);
    }
}
