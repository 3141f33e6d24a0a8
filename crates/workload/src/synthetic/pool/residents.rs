//! Choice of the resident item of a request.

use super::parameters::Residents;
use super::skew::Skew;
use crate::Random;

/// A choice among the items `0..keys`.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    keys: u64,
    law: Law,
}

#[derive(Clone, Debug)]
enum Law {
    Popular(&'static Skew),
    /// The items whose hour it is: so many up to the newest one, which moves with every request.
    InTurn {
        newest: f64,
        step: f64,
        width: f64,
    },
}

impl Choice {
    /// A choice that is made so many times in an hour.
    pub fn new(residents: &'static Residents, keys: u64, choices_per_hour: f64) -> Self {
        let law = match residents {
            Residents::Popular(skew) => Law::Popular(skew),
            Residents::InTurn { hours } => {
                let width = keys as f64 / hours;
                Law::InTurn { newest: 0.0, step: width / choices_per_hour, width }
            }
        };
        Self { keys, law }
    }

    /// The number of an item.
    #[inline]
    pub fn next(&mut self, random: &mut Random) -> u64 {
        let draw = random.unit();
        let keys = self.keys as f64;
        let place = match &mut self.law {
            Law::Popular(skew) => skew.at(draw) * keys,
            Law::InTurn { newest, step, width } => {
                *newest += *step;
                if *newest >= keys {
                    *newest -= keys;
                }
                // Half of the requests go to the newest quarter.
                let place = *newest - draw * draw * *width;
                if place < 0.0 { place + keys } else { place }
            }
        };
        (place as u64).min(self.keys - 1)
    }
}
