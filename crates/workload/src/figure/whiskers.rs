//! Whiskers: the least and the greatest of several measurements, as far as a figure has room for them.

use super::axis::Axis;
use super::number::short;

/// A whisker may be so much longer than what the values take, at either end. A longer one would bury them.
const BEYOND: f64 = 0.5;

/// The values that a figure has room for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Room {
    low: f64,
    high: f64,
}

impl Room {
    /// Returns the room of values on an axis.
    pub fn of(axis: &Axis, values: impl Iterator<Item = f64>) -> Self {
        type Map = fn(f64) -> f64;
        let (to, from): (Map, Map) = match axis.is_log {
            true => (f64::ln, f64::exp),
            false => (|value| value, |value| value),
        };
        let shown = values.filter(|value| axis.shows(*value)).map(to);
        let (mut low, mut high) = shown
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        if low > high {
            return Self { low: f64::NEG_INFINITY, high: f64::INFINITY };
        }
        let least = if axis.is_log { 10f64.ln() } else { high.abs() };
        let width = if axis.from_zero { high.max(0.0) - low.min(0.0) } else { high - low };
        let more = BEYOND * width.max(least);
        (low, high) = (from(low - more), from(high + more));
        Self { low, high }
    }

    /// Returns a value, or the end of the room that it is beyond.
    pub fn clip(self, value: f64) -> f64 {
        value.clamp(self.low, self.high)
    }

    pub fn holds(self, value: f64) -> bool {
        self.clip(value) == value
    }
}

/// Describes the whiskers of a figure by their ends; nothing where there are none. `rounds`: measurements of
/// each value, if that is known.
pub(crate) fn caption(axis: &Axis, room: Room, ends: &[(f64, f64)], rounds: Option<u32>) -> Option<String> {
    if ends.iter().all(|(low, high)| low >= high) {
        return None;
    }
    let rounds = rounds.map_or_else(|| "the rounds".to_owned(), |rounds| format!("{rounds} rounds"));
    let text = format!("Whiskers: least and greatest of {rounds}.");
    let cut = |(low, high): &&(f64, f64)| {
        low < high && [*low, *high].iter().any(|end| axis.shows(*end) && !room.holds(*end))
    };
    let cut: Vec<_> = ends.iter().filter(cut).collect();
    let (Some(low), Some(high)) = (
        cut.iter().map(|(low, _)| *low).reduce(f64::min),
        cut.iter().map(|(_, high)| *high).reduce(f64::max),
    ) else {
        return Some(text);
    };
    let (are, they) = if cut.len() == 1 { ("One is", "it goes") } else { ("Some are", "they go") };
    Some(format!("{text} {are} cut at the edge; {they} from {} to {}.", short(low), short(high)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A whisker near the values is whole; one that would shrink them to a line is cut, and the caption has
    /// its ends.
    #[test]
    fn long_whiskers_are_cut() {
        for (axis, long) in [(Axis::log("us"), 1e6), (Axis::linear("us"), 1e3)] {
            let room = Room::of(&axis, [10.0, 20.0, f64::NAN, 100.0].into_iter());
            assert!(room.holds(9.0) && room.holds(140.0) && !room.holds(long), "{room:?}");
            let ends = [(9.0, 12.0), (15.0, 15.0), (20.0, 140.0)];
            let text = caption(&axis, room, &ends, Some(5)).unwrap();
            assert_eq!(text, "Whiskers: least and greatest of 5 rounds.");
            let text = caption(&axis, room, &[ends[0], (15.0, long)], None).unwrap();
            let cut = format!("One is cut at the edge; it goes from 15 to {}.", short(long));
            assert_eq!(text, format!("Whiskers: least and greatest of the rounds. {cut}"));
            assert_eq!(caption(&axis, room, &[(3.0, 3.0)], Some(5)), None, "no spread, no caption");
        }
    }

    /// An end at zero has no place on a logarithmic axis; that cuts nothing that could be shown.
    #[test]
    fn a_log_axis_has_no_zero() {
        let axis = Axis::log("us");
        let room = Room::of(&axis, [10.0].into_iter());
        assert_eq!(caption(&axis, room, &[(0.0, 12.0)], Some(3)).unwrap().matches("cut").count(), 0);
        let none = Room::of(&axis, std::iter::empty());
        assert!(none.holds(1.0) && none.holds(1e9));
    }
}
