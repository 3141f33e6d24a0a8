//! The highest rate that a server carries within a bound.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::parse;
use crate::plan::Plan;
use crate::report::Report;

/// First rate of a search by default.
const RATE_FIRST: f64 = 10_000.0;
/// Lowest rate that is tried.
const RATE_LEAST: f64 = 10.0;
/// Highest rate that is tried.
const RATE_MOST: f64 = 1e9;
/// Ratio of bounds at which a search ends.
const PRECISION: f64 = 1.02;
/// A rate breaks the bound when so many runs in a row do: others on the machine may spoil one.
const TRIES: usize = 2;
/// Requests that may be lost when latency is the bound.
const LOSS_RATIO: f64 = 0.01;

/// The bound that a rate has to keep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// Largest part of the requests that may be lost or left over.
    Loss(f64),
    /// The 99th percentile of the latency; at most 1 % may be lost.
    P99(Duration),
}

impl Bound {
    /// Returns whether a run at a fixed rate has kept it.
    pub fn kept(&self, report: &Report) -> bool {
        let loss_ratio = match self {
            Self::Loss(loss_ratio) => *loss_ratio,
            Self::P99(_) => LOSS_RATIO,
        };
        let offered = report.offered_ops.unwrap_or(0.0);
        let carried = report.counts.answered > 0
            && report.loss_ratio <= loss_ratio
            && report.throughput_ops >= offered * (1.0 - loss_ratio.max(LOSS_RATIO));
        match self {
            Self::Loss(_) => carried,
            Self::P99(bound) => carried && report.latency_us.p99 <= bound.as_secs_f64() * 1e6,
        }
    }
}

impl FromStr for Bound {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.ends_with('%') {
            return parse::percent(text).map(|percent| Self::Loss(percent / 100.0));
        }
        let has_unit = text.ends_with(|c: char| c.is_ascii_alphabetic());
        match parse::duration(text) {
            Ok(bound) if has_unit && !bound.is_zero() => Ok(Self::P99(bound)),
            _ => Err(format!("'{text}' is no bound: of loss as 1%, or of the 99th percentile as 500us")),
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loss(ratio) => write!(f, "loss <= {} %", ratio * 100.0),
            Self::P99(bound) => write!(f, "p99 <= {bound:?}"),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Found {
    /// The run with the highest rate that kept the bound.
    pub best: Option<Report>,
    pub runs: Vec<Report>,
}

/// Looks for the highest rate: doubles until the bound is broken, then halves the interval. `run`
/// measures a plan.
///
/// # Errors
/// Returns the errors of `run`.
pub fn search(
    plan: &Plan,
    bound: Bound,
    mut run: impl FnMut(&Plan) -> Result<Report, String>,
) -> Result<Found, String> {
    let mut found = Found { best: None, runs: Vec::new() };
    let (mut kept, mut broken) = (None, None);
    let mut rate = plan.rate_ops.unwrap_or(RATE_FIRST);
    loop {
        let mut at_rate = plan.clone();
        at_rate.rate_ops = Some(rate);
        for _ in 0..TRIES {
            let report = run(&at_rate)?;
            found.runs.push(report.clone());
            if bound.kept(&report) {
                kept = Some(rate);
                found.best = Some(report);
                break;
            }
        }
        if kept != Some(rate) {
            broken = Some(rate);
        }
        match next_rate(kept, broken) {
            Some(next) => rate = next,
            None => return Ok(found),
        }
    }
}

/// The rate to be tried next, between the highest that kept the bound and the lowest that broke it.
fn next_rate(kept: Option<f64>, broken: Option<f64>) -> Option<f64> {
    match (kept, broken) {
        (Some(kept), Some(broken)) => (broken / kept > PRECISION).then(|| (kept * broken).sqrt()),
        (Some(kept), None) => (kept < RATE_MOST).then_some(kept * 2.0),
        (None, Some(broken)) => (broken > RATE_LEAST).then_some(broken / 2.0),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_read() {
        assert_eq!("1%".parse(), Ok(Bound::Loss(0.01)));
        assert_eq!("500us".parse(), Ok(Bound::P99(Duration::from_micros(500))));
        for text in ["", "1", "0us", "x%", "200%", "-1ms"] {
            assert!(text.parse::<Bound>().is_err(), "{text}");
        }
    }

    /// Searches for the rate of a server that carries exactly `limit`; returns it and the number of runs.
    fn find(limit: f64, first: f64) -> (f64, usize) {
        let (mut kept, mut broken, mut rate, mut runs) = (None, None, first, 1);
        loop {
            if rate <= limit {
                kept = Some(rate);
            } else {
                broken = Some(rate);
            }
            match next_rate(kept, broken) {
                Some(next) => rate = next,
                None => return (kept.unwrap_or(0.0), runs),
            }
            runs += 1;
        }
    }

    #[test]
    fn the_limit_is_found_from_both_sides() {
        for limit in [37.0, 9_999.0, 123_456.0, 3e6] {
            for first in [100.0, 10_000.0, 1e6] {
                let (found, runs) = find(limit, first);
                assert!(found <= limit && found * 1.03 > limit, "{limit} {first}: {found}");
                assert!(runs < 30, "{runs}");
            }
        }
        assert_eq!(find(0.0, 1000.0).0, 0.0, "ends where nothing works");
        assert!(find(f64::INFINITY, 1000.0).0 >= RATE_MOST, "or everything does");
    }
}
