//! Axes: from values to places.

use super::number::short;

/// An axis and what it says.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Quantity that is shown, with its unit: `throughput (operations/s)`.
    pub label: String,
    /// True if equal distances are equal factors; values of zero and below are left out then.
    pub is_log: bool,
    /// True if it begins at zero (linear axes only).
    pub from_zero: bool,
}

impl Axis {
    /// Equal distances are equal differences; begins at zero.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), is_log: false, from_zero: true }
    }

    /// Equal distances are equal factors.
    pub fn log(label: impl Into<String>) -> Self {
        Self { label: label.into(), is_log: true, from_zero: false }
    }

    /// Equal distances are equal differences, between the least and the greatest value.
    pub fn fitted(label: impl Into<String>) -> Self {
        Self { from_zero: false, ..Self::linear(label) }
    }

    /// Returns whether a value has a place.
    pub(crate) fn shows(&self, value: f64) -> bool {
        value.is_finite() && (!self.is_log || value > 0.0)
    }

    pub(crate) fn range(&self, values: impl Iterator<Item = f64>) -> Range {
        let shown = values.filter(|value| self.shows(*value));
        let (mut low, mut high) = shown
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        if low > high {
            (low, high) = (1.0, 10.0);
        }
        if self.is_log {
            return Range::log(low, high);
        }
        if self.from_zero {
            low = low.min(0.0);
        }
        Range::linear(low, high)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Range {
    low: f64,
    high: f64,
    is_log: bool,
    pub ticks: Vec<f64>,
}

/// Ticks of a linear axis, about.
const TICKS: f64 = 6.0;

impl Range {
    fn linear(low: f64, high: f64) -> Self {
        let width = if high > low { high - low } else { high.abs().max(1.0) };
        let rough = width / TICKS;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .map(|factor| factor * power)
            .into_iter()
            .find(|step| *step >= rough)
            .unwrap_or(10.0 * power);
        let (first, last) = ((low / step).floor(), ((low + width) / step - 1e-9).ceil());
        let ticks: Vec<f64> = (0..=(last - first) as usize).map(|at| (first + at as f64) * step).collect();
        Self { low: first * step, high: last * step, is_log: false, ticks }
    }

    /// Whole powers of ten, or steps of 1, 2 and 5 where there are few of them.
    fn log(low: f64, high: f64) -> Self {
        let (from, to) = (low.log10().floor() as i32, (high.log10() - 1e-9).ceil() as i32);
        let to = to.max(from + 1);
        let factors: &[f64] = if to - from <= 3 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let all = (from..=to).flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)));
        let all: Vec<f64> = all.collect();
        let (low, high) = (low * (1.0 + 1e-9), high * (1.0 - 1e-9));
        let first = all.iter().rposition(|tick| *tick <= low).unwrap_or(0);
        let last = all.iter().position(|tick| *tick >= high).unwrap_or(all.len() - 1);
        let last = last.max(first + 1).min(all.len() - 1);
        let apart = (last - first).div_ceil(8).max(1);
        Self {
            low: all[first],
            high: all[last],
            is_log: true,
            ticks: all[first..=last].iter().copied().step_by(apart).collect(),
        }
    }

    /// Returns the place of a value: 0 at the low end, 1 at the high one.
    pub fn place(&self, value: f64) -> f64 {
        let place = if self.is_log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        place.clamp(0.0, 1.0)
    }

    /// Ticks, each with its place and its text.
    pub fn labelled(&self) -> impl Iterator<Item = (f64, String)> + '_ {
        self.ticks.iter().map(|tick| (self.place(*tick), short(*tick)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_ticks_are_round_and_hold_all_values() {
        for values in [[0.0, 0.93], [3.0, 1234.0], [1e6, 1.1e6], [5.0, 5.0], [-3.0, 2.0]] {
            for axis in [Axis::linear("x"), Axis::fitted("x")] {
                let range = axis.range(values.into_iter());
                assert!(range.low <= values[0] && range.high >= values[1], "{range:?}");
                assert!((3..=13).contains(&range.ticks.len()), "{range:?}");
                assert!(values[0] < 0.0 || !axis.from_zero || range.low == 0.0);
            }
        }
    }

    #[test]
    fn log_ticks_hold_all_values() {
        for values in [[1.0, 10.0], [0.3, 4000.0], [1e-6, 1e9], [7.0, 7.0], [64.0, 65.0]] {
            let range = Axis::log("x").range(values.into_iter());
            assert!(range.low <= values[0] && range.high >= values[1] * (1.0 - 1e-8), "{range:?}");
            assert!((2..=10).contains(&range.ticks.len()), "{range:?}");
            let places: Vec<_> = range.labelled().map(|(place, _)| place).collect();
            assert!(places.is_sorted(), "{places:?}");
        }
    }

    #[test]
    fn axes_without_values_have_ticks() {
        for axis in [Axis::log("x"), Axis::linear("x")] {
            assert!(!axis.range([f64::NAN].into_iter()).ticks.is_empty());
        }
        assert!(!Axis::log("x").shows(0.0) && Axis::linear("x").shows(0.0));
    }
}
