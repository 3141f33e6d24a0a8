//! Limits of events that a client can provoke: so many a minute, then how many were dropped.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{IS_UNLIMITED, output};
use crate::limits::LOG_LINES_PER_MINUTE;

const MINUTE: Duration = Duration::from_secs(60);

/// Limits that have dropped events of a minute that may not have ended.
static DROPPING: Mutex<Vec<&Limit>> = Mutex::new(Vec::new());

/// A place in the code that logs a limited number of events a minute.
#[derive(Debug)]
pub struct Limit {
    text: &'static str,
    window: Mutex<Window>,
}

/// A minute that begins with an event.
#[derive(Debug)]
struct Window {
    began: Option<Instant>,
    lines: u32,
    dropped: u64,
}

impl Window {
    /// Returns whether one more event is logged.
    fn admits(&mut self, now: Instant) -> bool {
        if self.has_ended(now) && self.dropped == 0 {
            (self.began, self.lines) = (Some(now), 0);
        }
        let is_admitted = self.lines < LOG_LINES_PER_MINUTE;
        match is_admitted {
            true => self.lines += 1,
            false => self.dropped += 1,
        }
        is_admitted
    }

    fn has_ended(&self, now: Instant) -> bool {
        self.began.is_none_or(|began| now.saturating_duration_since(began) >= MINUTE)
    }

    /// Returns how many events were dropped, and begins anew with the next one.
    fn end(&mut self) -> u64 {
        self.began = None;
        std::mem::take(&mut self.dropped)
    }
}

impl Limit {
    pub const fn new(text: &'static str) -> Self {
        Self { text, window: Mutex::new(Window { began: None, lines: 0, dropped: 0 }) }
    }

    /// Returns whether one more event is logged.
    pub fn admits(&'static self) -> bool {
        if IS_UNLIMITED.load(Ordering::Relaxed) {
            return true;
        }
        let now = Instant::now();
        let mut window = lock(&self.window);
        if window.dropped > 0 && window.has_ended(now) {
            drop(window);
            note(|limit, window| std::ptr::eq(limit, self) && window.has_ended(now));
            window = lock(&self.window);
        }
        let is_admitted = window.admits(now);
        let is_first = window.dropped == 1;
        drop(window);
        if !is_admitted && is_first {
            lock(&DROPPING).push(self);
        }
        is_admitted
    }
}

/// Logs how many events were dropped in minutes that have ended, and how many standard error did not take.
pub fn note_dropped() {
    if let Some(lost) = output::lost() {
        tracing::warn!(lost, "lines of the log were lost: standard error did not take them");
    }
    let now = Instant::now();
    note(|_, window| window.has_ended(now));
}

/// Does so for minutes that have not ended: the server ends.
pub fn end_limits() {
    note(|_, _| true);
}

fn note(is_due: impl Fn(&Limit, &Window) -> bool) {
    let mut due = Vec::new();
    lock(&DROPPING).retain(|limit| {
        let mut window = lock(&limit.window);
        let ends = is_due(limit, &window);
        if ends {
            due.push((limit.text, window.end()));
        }
        !ends
    });
    for (text, dropped) in due {
        tracing::warn!(
            dropped,
            event = text,
            "events were dropped, more than {LOG_LINES_PER_MINUTE} a minute"
        );
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A minute has so many events; what it drops is counted until somebody has noted it.
    #[test]
    fn a_minute_admits_a_limited_number() {
        let mut window = Window { began: None, lines: 0, dropped: 0 };
        let began = Instant::now();
        let admitted = (0..1000).filter(|ms| window.admits(began + Duration::from_millis(*ms))).count();
        assert_eq!((admitted as u32, window.dropped), (LOG_LINES_PER_MINUTE, 1000 - admitted as u64));
        assert!(!window.has_ended(began + MINUTE - Duration::from_millis(1)));
        assert!(window.has_ended(began + MINUTE) && !window.admits(began + MINUTE));
        assert_eq!(window.end(), 1001 - admitted as u64);
        assert!(window.admits(began + MINUTE), "the next minute has begun");
        assert_eq!((window.lines, window.dropped), (1, 0));
    }

    /// A minute without drops begins anew by itself.
    #[test]
    fn a_quiet_minute_needs_no_note() {
        let mut window = Window { began: None, lines: 0, dropped: 0 };
        let began = Instant::now();
        for minute in 0..10 {
            for _ in 0..LOG_LINES_PER_MINUTE {
                assert!(window.admits(began + MINUTE * minute));
            }
        }
        assert_eq!(window.dropped, 0);
    }
}
