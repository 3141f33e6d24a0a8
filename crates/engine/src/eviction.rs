//! Which items leave first (MICA 4.3.1, "Exploiting the eviction of live items").
//!
//! The log always evicts at its head. A policy decides which items are appended to the tail
//! again when they are requested; the decision is one comparison of the item's distance from the
//! tail, so that the hot path does not branch on the policy.

/// An eviction policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eviction {
    /// First in, first out: nothing is ever moved.
    Fifo,
    /// Every requested item moves to the tail. Literal, and worse than it sounds: the stale
    /// copies fill the log.
    Lru,
    /// A requested item in the older half of the log moves to the tail.
    #[default]
    ApproximateLru,
}

impl Eviction {
    /// A requested item whose distance from the tail, in bytes, is at least this moves there.
    pub const fn reinsert_distance_bytes(self, log_bytes: u64) -> u64 {
        match self {
            Self::Fifo => u64::MAX,
            Self::Lru => 0,
            Self::ApproximateLru => log_bytes / 2,
        }
    }

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Lru => "lru",
            Self::ApproximateLru => "approximate-lru",
        }
    }
}

impl std::str::FromStr for Eviction {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        [Self::Fifo, Self::Lru, Self::ApproximateLru]
            .into_iter()
            .find(|policy| policy.name() == name)
            .ok_or_else(|| {
                format!("unknown eviction policy '{name}': fifo, lru or approximate-lru")
            })
    }
}
