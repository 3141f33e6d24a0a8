//! What the simulated policies have in common, and how they are named.

use std::fmt;
use std::str::FromStr;

/// Re-appends per insertion when there is no bound.
pub(crate) const UNBOUNDED: u32 = u32::MAX;

/// A cache that answers requests and fills itself on a miss.
pub(crate) trait Cache {
    /// Whether the object was there; afterwards it is, if it fits at all.
    fn request(&mut self, object: u32) -> bool;
    /// Items that were written again, so far.
    fn moves(&self) -> u64;
}

/// An eviction policy over circular logs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Policy {
    /// `fifo`
    Fifo,
    /// `lru`: every hit appends the item again.
    Lru,
    /// `alru:SHARE`: a hit in the oldest share of the log appends the item again.
    ApproximateLru { oldest: f64 },
    /// `clock:BITS[:REAPPENDS]`: a counter of so many bits per item; an item with a count gets
    /// another lap for one off it; at most so many of these per insertion.
    Clock { bits: u32, reappends_max: u32 },
    /// `s3:SMALL,THRESHOLD`: S3-FIFO with so large a small log, promotion from so many hits;
    /// `s3w` with the warm-up rule.
    TwoLogs {
        small: f64,
        threshold: u8,
        warm_up: bool,
    },
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || {
            format!(
                "unknown policy '{text}': fifo, lru, alru:SHARE, clock:BITS[:REAPPENDS], \
                 s3:SMALL,THRESHOLD or s3w:SMALL,THRESHOLD"
            )
        };
        let (name, arguments) = text.split_once(':').unwrap_or((text, ""));
        let share = |text: &str| {
            let share = text.parse::<f64>().map_err(|_| unknown())?;
            (share > 0.0 && share < 1.0)
                .then_some(share)
                .ok_or_else(|| format!("the share '{text}' is not between 0 and 1"))
        };
        match name {
            "fifo" if arguments.is_empty() => Ok(Self::Fifo),
            "lru" if arguments.is_empty() => Ok(Self::Lru),
            "alru" => Ok(Self::ApproximateLru {
                oldest: share(arguments)?,
            }),
            "clock" => {
                let (bits, most) = arguments
                    .split_once(':')
                    .map_or((arguments, None), |(bits, most)| (bits, Some(most)));
                let bits = bits.parse().map_err(|_| unknown())?;
                if !(1..=7).contains(&bits) {
                    return Err(format!("'{text}': 1 to 7 bits"));
                }
                let most = most.map(str::parse).transpose().map_err(|_| unknown())?;
                Ok(Self::Clock {
                    bits,
                    reappends_max: most.unwrap_or(UNBOUNDED),
                })
            }
            "s3" | "s3w" => {
                let (small, threshold) = arguments.split_once(',').ok_or_else(unknown)?;
                Ok(Self::TwoLogs {
                    small: share(small)?,
                    threshold: threshold.parse().map_err(|_| unknown())?,
                    warm_up: name == "s3w",
                })
            }
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fifo => f.write_str("fifo"),
            Self::Lru => f.write_str("lru"),
            Self::ApproximateLru { oldest } => write!(f, "alru:{oldest}"),
            Self::Clock {
                bits,
                reappends_max: UNBOUNDED,
            } => write!(f, "clock:{bits}"),
            Self::Clock {
                bits,
                reappends_max,
            } => write!(f, "clock:{bits}:{reappends_max}"),
            Self::TwoLogs {
                small,
                threshold,
                warm_up,
            } => write!(
                f,
                "{}:{small},{threshold}",
                if *warm_up { "s3w" } else { "s3" }
            ),
        }
    }
}

/// What a trace did to a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    pub object_miss: f64,
    pub byte_miss: f64,
    pub moves_per_request: f64,
}

/// Sends every request of a trace to a cache.
pub(crate) fn replay(requests: &[u32], sizes: &[u32], cache: &mut impl Cache) -> Outcome {
    let (mut misses, mut bytes, mut bytes_missed) = (0u64, 0u64, 0u64);
    for &object in requests {
        let size = u64::from(sizes[object as usize]);
        bytes += size;
        if !cache.request(object) {
            misses += 1;
            bytes_missed += size;
        }
    }
    let requests = requests.len() as f64;
    Outcome {
        object_miss: misses as f64 / requests,
        byte_miss: bytes_missed as f64 / bytes as f64,
        moves_per_request: cache.moves() as f64 / requests,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in [
            "fifo",
            "lru",
            "alru:0.25",
            "clock:2",
            "clock:1:8",
            "s3:0.05,1",
            "s3w:0.1,2",
        ] {
            let policy = name.parse::<Policy>().expect("a policy");
            assert_eq!(policy.to_string(), name);
        }
    }

    #[test]
    fn other_names_are_refused() {
        for name in [
            "", "fifo:1", "lfu", "alru", "alru:1", "alru:x", "clock:0", "clock:9", "clock:1:",
            "s3:0.1", "s3:2,1",
        ] {
            assert!(name.parse::<Policy>().is_err(), "{name}");
        }
    }

    struct EveryOther(u64);

    impl Cache for EveryOther {
        fn request(&mut self, object: u32) -> bool {
            self.0 += 1;
            object.is_multiple_of(2)
        }

        fn moves(&self) -> u64 {
            self.0
        }
    }

    #[test]
    fn misses_are_counted_by_object_and_by_byte() {
        let outcome = replay(&[0, 1, 2, 0], &[10, 30, 50], &mut EveryOther(0));
        assert_eq!(outcome.object_miss, 0.25);
        assert_eq!(outcome.byte_miss, 0.3);
        assert_eq!(outcome.moves_per_request, 1.0);
    }
}
