//! Runs at several rates.

use std::str::FromStr;

use crate::parse;
use crate::plan::Plan;
use crate::report::Report;

/// Rates in operations per second, in the order in which they are measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates(pub Vec<f64>);

const RATES_MAX: u64 = 1000;

impl FromStr for Rates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((from, rest)) = text.split_once("..") else {
            let rates = text.split(',').map(parse::rate);
            return rates.collect::<Result<_, _>>().map(Self);
        };
        let (to, count) = rest.split_once('/').ok_or_else(|| format!("'{text}' should be FROM..TO/COUNT"))?;
        let (from, to) = (parse::rate(from)?, parse::rate(to)?);
        let count = parse::count(count)?;
        if !(2..=RATES_MAX).contains(&count) || from >= to {
            return Err(format!("'{text}' should be FROM..TO/COUNT, with 2 rates or more"));
        }
        let step = (to - from) / (count - 1) as f64;
        Ok(Self((0..count).map(|number| from + step * number as f64).collect()))
    }
}

/// Numbers of servers, in the order in which they are measured.
#[derive(Clone, Debug, PartialEq)]
pub struct FanOuts(pub Vec<usize>);

impl FromStr for FanOuts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let count = |text: &str| match text.parse::<usize>() {
            Ok(0) | Err(_) => Err(format!("'{text}' is no number of servers")),
            Ok(servers) => Ok(servers),
        };
        text.split(',').map(count).collect::<Result<_, _>>().map(Self)
    }
}

/// Measures the plan with the first servers of it, for each number of them, at each rate.
///
/// # Errors
/// Returns the errors of `run`, and those of a number without so many servers.
pub fn fan_outs(
    plan: &Plan,
    (fan_outs, rates): (&FanOuts, &Rates),
    mut run: impl FnMut(&Plan) -> Result<Report, String>,
) -> Result<Vec<Report>, String> {
    let mut reports = Vec::new();
    for servers in &fan_outs.0 {
        let targets = plan.targets[..*servers].to_vec();
        reports.extend(sweep(&Plan { targets, ..plan.clone() }, rates, &mut run)?);
    }
    Ok(reports)
}

/// Measures the plan at each rate. `run` measures a plan.
///
/// # Errors
/// Returns the errors of `run`.
pub fn sweep(
    plan: &Plan,
    rates: &Rates,
    mut run: impl FnMut(&Plan) -> Result<Report, String>,
) -> Result<Vec<Report>, String> {
    let at = |rate: &f64| {
        let mut plan = plan.clone();
        plan.rate_ops = Some(*rate);
        run(&plan)
    };
    rates.0.iter().map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fan_outs_are_numbers_of_servers() {
        assert_eq!("1,2,8".parse(), Ok(FanOuts(vec![1, 2, 8])));
        for text in ["", "0", "1,x", "1..4"] {
            assert!(text.parse::<FanOuts>().is_err(), "{text}");
        }
    }

    #[test]
    fn lists_and_ranges() {
        assert_eq!("10k,20k".parse(), Ok(Rates(vec![10_000.0, 20_000.0])));
        let range: Rates = "10k..100k/10".parse().unwrap();
        assert_eq!(range.0.len(), 10);
        assert_eq!((range.0[0], range.0[1], range.0[9]), (10_000.0, 20_000.0, 100_000.0));
        for text in ["", "0", "1k..2k", "2k..1k/3", "1k..2k/1", "1k,x"] {
            assert!(text.parse::<Rates>().is_err(), "{text}");
        }
    }
}
