//! Eviction policies: the order in which items leave.
//!
//! A cache has two circular logs, small and main; both evict at their heads. A policy consists of a
//! few numbers that decide which items are written again instead of evicted, so that the hot path
//! does not branch on the policy. Items count their requests in two bits of their header.
//!
//! S3-FIFO (Yang, Zhang, Qiu, Yue, Vinayak, SOSP 2023): new items enter the small log. Those that
//! were requested there move to main when they reach its head. The others are evicted, and their
//! index entries remain as ghosts: a key that returns while its ghost is there enters main at once.
//! At the head of main a requested item moves to the tail. CLOCK is the main log alone. LRU is CLOCK that
//! counts one request: an item with many requests that have ended leaves as soon as one with a single one.
//! (Literal LRU, which moves an item with each request, misses more than FIFO: stale copies fill the log.)
//! FIFO does not count. Approximate LRU (MICA 4.3.1) moves a requested item to the tail if it is in the older
//! part of the log.

use crate::limits::FREQUENCY_MAX;

/// An eviction policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eviction {
    /// Two logs, request counts and ghosts.
    #[default]
    S3Fifo,
    /// One log; a requested item moves from the head to the tail.
    Clock,
    /// A requested item in the older half of the log moves to the tail.
    ApproximateLru,
    /// Least recently used, by one bit: an item that was requested since it was stored or moved goes on from
    /// the head to the tail. The other items leave, the oldest first.
    Lru,
    /// First in, first out: no item ever moves.
    Fifo,
}

/// A policy in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    /// Share of the small log in the data space; 0 = there is none.
    pub small_percent: u64,
    /// Requests that move an item at the head of the small log to main.
    pub promote_at: u64,
    /// Largest request count of an item; 0 = requests are not counted.
    pub frequency_max: u64,
    /// Items that an insertion may move at the head of main; the next one is evicted.
    pub requeue_max: u32,
    /// Distance from the tail of main, in percent of it, at which a requested item moves there.
    pub reinsert_percent: u64,
    /// Lifetime of a ghost: bytes appended to the small log since, in percent of main.
    pub ghost_percent: u64,
}

const NO_MOVES: u64 = u64::MAX;

impl Eviction {
    /// All policies, the default first.
    pub const ALL: [Self; 5] = [Self::S3Fifo, Self::Clock, Self::ApproximateLru, Self::Lru, Self::Fifo];

    pub(crate) const fn policy(self) -> Policy {
        let fifo = Policy {
            small_percent: 0,
            promote_at: 0,
            frequency_max: 0,
            requeue_max: 0,
            reinsert_percent: NO_MOVES,
            ghost_percent: 0,
        };
        let clock = Policy { frequency_max: FREQUENCY_MAX, requeue_max: 32, ..fifo };
        match self {
            Self::Fifo => fifo,
            Self::Lru => Policy { frequency_max: 1, ..clock },
            Self::ApproximateLru => Policy { reinsert_percent: 50, ..fifo },
            Self::Clock => clock,
            Self::S3Fifo => Policy { small_percent: 10, promote_at: 2, ghost_percent: 100, ..clock },
        }
    }

    /// Returns the position in [`Self::ALL`], which images keep.
    pub(crate) fn number(self) -> u64 {
        Self::ALL.iter().position(|of| *of == self).unwrap_or(0) as u64
    }

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::S3Fifo => "s3-fifo",
            Self::Clock => "clock",
            Self::ApproximateLru => "approximate-lru",
            Self::Lru => "lru",
            Self::Fifo => "fifo",
        }
    }
}

impl std::str::FromStr for Eviction {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|policy| policy.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("unknown eviction policy '{name}': one of {names}")
        })
    }
}
