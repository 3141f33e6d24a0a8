//! Changes of the offered rate during a run, as a factor of `--rate`.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// A curve of factors over the run's time.
#[derive(Clone, Debug, PartialEq)]
pub struct RateProfile {
    shape: Shape,
    text: String,
}

#[derive(Clone, Debug, PartialEq)]
enum Shape {
    /// Factor and seconds of each step; the last one goes on.
    Steps(Vec<(f64, f64)>),
    /// Once with another factor.
    Spike { factor: f64, start_s: f64, length_s: f64 },
    /// Points (time, factor), straight lines between them, stretched to the length of the run.
    Curve(Vec<(f64, f64)>),
}

impl RateProfile {
    /// The factor `at_s` seconds after the start of a run of `run_s`.
    pub fn factor(&self, at_s: f64, run_s: f64) -> f64 {
        match &self.shape {
            Shape::Steps(steps) => {
                let mut left_s = at_s;
                for (factor, length_s) in steps {
                    if left_s < *length_s {
                        return *factor;
                    }
                    left_s -= length_s;
                }
                steps.last().map_or(1.0, |(factor, _)| *factor)
            }
            Shape::Spike { factor, start_s, length_s } => {
                if (*start_s..start_s + length_s).contains(&at_s) {
                    *factor
                } else {
                    1.0
                }
            }
            Shape::Curve(points) => on_curve(points, at_s / run_s),
        }
    }

    pub fn length_s(&self) -> Option<f64> {
        match &self.shape {
            Shape::Steps(steps) => Some(steps.iter().map(|(_, length_s)| length_s).sum()),
            _ => None,
        }
    }
}

/// The height of the curve at a part of its way, 0 to 1.
fn on_curve(points: &[(f64, f64)], part: f64) -> f64 {
    let (first, last) = (points[0], points[points.len() - 1]);
    let x = first.0 + (last.0 - first.0) * part.clamp(0.0, 1.0);
    let after = points.partition_point(|point| point.0 <= x).clamp(1, points.len() - 1);
    let (from, to) = (points[after - 1], points[after]);
    from.1 + (to.1 - from.1) * (x - from.0) / (to.0 - from.0)
}

impl FromStr for RateProfile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shape = match text.split_once(':') {
            Some(("steps", steps)) => parse_steps(steps),
            Some(("spike", spike)) => parse_spike(spike),
            _ => std::fs::read_to_string(Path::new(text))
                .map_err(|error| error.to_string())
                .and_then(|content| parse_curve(&content)),
        };
        match shape {
            Ok(shape) => Ok(Self { shape, text: text.to_owned() }),
            Err(error) => Err(format!(
                "'{text}' is no rate profile: {error} (steps:1@10s,2@10s, spike:3@5s+2s, or a file \
                 with a time and a factor per line)"
            )),
        }
    }
}

impl fmt::Display for RateProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn factor(text: &str) -> Result<f64, String> {
    let factor: f64 = text.trim().parse().map_err(|_| format!("'{text}' is no factor"))?;
    if factor.is_finite() && factor >= 0.0 { Ok(factor) } else { Err(format!("'{text}' is no factor")) }
}

fn seconds(text: &str) -> Result<f64, String> {
    crate::parse::duration(text.trim()).map(|duration| duration.as_secs_f64())
}

/// `FACTOR@LENGTH,FACTOR@LENGTH`.
fn parse_steps(text: &str) -> Result<Shape, String> {
    let step = |word: &str| {
        let (height, length) =
            word.split_once('@').ok_or_else(|| format!("'{word}' should be FACTOR@LENGTH"))?;
        Ok::<_, String>((factor(height)?, seconds(length)?))
    };
    let steps: Vec<_> = text.split(',').map(step).collect::<Result<_, _>>()?;
    if steps.iter().any(|(_, length_s)| *length_s <= 0.0) {
        return Err("a step without length".to_owned());
    }
    Ok(Shape::Steps(steps))
}

/// `FACTOR@START+LENGTH`.
fn parse_spike(text: &str) -> Result<Shape, String> {
    let what = || format!("'{text}' should be FACTOR@START+LENGTH");
    let (height, when) = text.split_once('@').ok_or_else(what)?;
    let (start, length) = when.split_once('+').ok_or_else(what)?;
    Ok(Shape::Spike { factor: factor(height)?, start_s: seconds(start)?, length_s: seconds(length)? })
}

/// A time (any unit: it is stretched) and a factor per line; `#` begins a comment.
fn parse_curve(content: &str) -> Result<Shape, String> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (number, line) in content.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<_> =
            line.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty()).collect();
        let point = match words[..] {
            [] => continue,
            [time, height] => time.parse().ok().zip(factor(height).ok()),
            _ => None,
        };
        let in_order =
            |point: &(f64, f64)| point.0.is_finite() && points.last().is_none_or(|last| last.0 < point.0);
        let point = point
            .filter(in_order)
            .ok_or_else(|| format!("line {}: no later time with a factor", number + 1))?;
        points.push(point);
    }
    if points.len() < 2 {
        return Err("fewer than two points".to_owned());
    }
    Ok(Shape::Curve(points))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn factors(text: &str, at_s: &[f64]) -> Vec<f64> {
        let profile: RateProfile = text.parse().unwrap();
        at_s.iter().map(|at_s| profile.factor(*at_s, 100.0)).collect()
    }

    #[test]
    fn steps_and_spikes() {
        assert_eq!(
            factors("steps:1@10s,2@500ms,0.5@10", &[0.0, 9.9, 10.0, 10.4, 10.6, 99.0]),
            [1.0, 1.0, 2.0, 2.0, 0.5, 0.5]
        );
        assert_eq!(factors("spike:3@5s+2s", &[0.0, 5.0, 6.9, 7.0]), [1.0, 3.0, 3.0, 1.0]);
        let steps: RateProfile = "steps:1@10s,2@500ms".parse().unwrap();
        assert_eq!(steps.length_s(), Some(10.5));
    }

    #[test]
    fn a_curve_is_stretched_to_the_run() {
        let shape = parse_curve("# a day\n0 1\n12, 3 # noon\n\n24 1\n").unwrap();
        let profile = RateProfile { shape, text: String::new() };
        let at = |at_s| profile.factor(at_s, 60.0);
        assert_eq!([0.0, 15.0, 30.0, 45.0, 60.0].map(at), [1.0, 2.0, 3.0, 2.0, 1.0]);
    }

    #[test]
    fn malformed_profiles_are_refused() {
        for text in [
            "steps:",
            "steps:1",
            "steps:x@1s",
            "steps:1@0s",
            "steps:-1@1s",
            "spike:3",
            "spike:3@1s",
            "/no/such/file",
        ] {
            assert!(text.parse::<RateProfile>().is_err(), "{text}");
        }
        for content in ["", "0 1\n", "0 1\n0 2\n", "1 1\n0 2\n", "0 1\n1 x\n", "0 1 2\n"] {
            assert!(parse_curve(content).is_err(), "{content:?}");
        }
    }
}
