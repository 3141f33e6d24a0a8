//! Figures of several contenders, round by round.

use super::load::Figures;
use super::sides::Side;
use crate::Result;
use crate::results::measurement::Measurement;

/// A figure of a slice: what it is called, its unit, and which it is.
pub(super) type Metric = (&'static str, &'static str, fn(&Figures) -> f64);

pub(super) const RATES: [Metric; 3] = [
    ("per server-core-second", "requests", |figures| figures.per_core_second),
    ("throughput", "requests/s", |figures| figures.per_second),
    ("energy", "J/M requests", |figures| figures.joules_per_million),
];

/// Loads all sides with all cases in turns: a round is a slice of each. Enters the metrics of each case.
pub(super) fn in_turns<C>(
    (sides, rounds): (&[Side], usize),
    cases: &[(String, C)],
    metrics: &[Metric],
    report: &mut Measurement,
    slice: impl Fn(&C, &Side) -> Result<Figures>,
) -> Result<()> {
    let names = || sides.iter().map(|side| side.name.as_str());
    let mut all: Vec<_> = cases.iter().map(|_| Rounds::new(names())).collect();
    for round in 0..rounds {
        for ((name, case), rounds) in cases.iter().zip(&mut all) {
            eprint!("\r{name}, round {}   ", round + 1);
            for (at, side) in sides.iter().enumerate() {
                rounds.add(at, slice(case, side)?);
            }
        }
    }
    eprintln!();
    for ((name, _), rounds) in cases.iter().zip(&all) {
        rounds.report(name, metrics, report);
    }
    Ok(())
}

#[derive(Debug)]
pub(super) struct Rounds {
    names: Vec<String>,
    figures: Vec<Vec<Figures>>,
}

impl Rounds {
    pub fn new<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let names: Vec<_> = names.map(str::to_owned).collect();
        Self { figures: vec![Vec::new(); names.len()], names }
    }

    pub fn add(&mut self, contender: usize, figures: Figures) {
        self.figures[contender].push(figures);
    }

    /// Each contender's figures by their names, and each of ours beside each of the others. What could
    /// not be measured is left out.
    pub fn report(&self, case: &str, metrics: &[Metric], report: &mut Measurement) {
        for (metric, unit, figure) in metrics {
            let all: Vec<Vec<f64>> =
                self.figures.iter().map(|rounds| rounds.iter().map(figure).collect()).collect();
            let named = || self.names.iter().zip(&all);
            for (name, rounds) in named() {
                if !rounds.is_empty() && rounds.iter().all(|value| value.is_finite()) {
                    report.value(case, &format!("{metric}, {name}"), unit, rounds);
                }
            }
            // A ratio needs finite values above zero.
            let has_ratio = |value: &f64| value.is_finite() && *value > 0.0;
            for (name, ours) in named().filter(|(name, _)| is_ours(name)) {
                for (peer, theirs) in named().filter(|(name, _)| !is_ours(name)) {
                    if ours.iter().chain(theirs).all(has_ratio) {
                        let metric = format!("{metric} of {name}");
                        report.beside((case, &metric, unit), ours, peer, theirs);
                    }
                }
            }
        }
    }
}

fn is_ours(name: &str) -> bool {
    name.starts_with("micanite")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_figures_are_left_out() {
        let figures = |per_second, per_core_second| Figures {
            per_second,
            per_core_second,
            p50_us: 1.0,
            p95_us: 1.0,
            p99_us: 1.0,
            loss: 0.0,
            hit_ratio: 1.0,
            joules_per_million: f64::NAN,
        };
        let mut rounds = Rounds::new(["micanite TCP", "elsewhere"].into_iter());
        rounds.add(0, figures(20.0, 40.0));
        rounds.add(1, figures(10.0, f64::NAN));
        let mut report = Measurement::new("test");
        rounds.report("case", &RATES, &mut report);
        let metrics: Vec<_> = report
            .records()
            .iter()
            .map(|record| (record.metric.as_str(), record.value, record.ratio))
            .collect();
        assert_eq!(
            metrics,
            [
                ("per server-core-second, micanite TCP", 40.0, None),
                ("throughput, micanite TCP", 20.0, None),
                ("throughput, elsewhere", 10.0, None),
                ("throughput of micanite TCP", 20.0, Some(2.0)),
            ]
        );
    }
}
