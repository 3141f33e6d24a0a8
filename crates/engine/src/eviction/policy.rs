//! Which items leave first.
//!
//! A cache has two circular logs, small and main; both evict at their heads. A policy says which
//! items are written again instead of leaving, in a few numbers, so that the hot path does not
//! branch on the policy. Items count their requests in two bits of their header.
//!
//! S3-FIFO (Yang, Zhang, Qiu, Yue, Vinayak, SOSP 2023): new items enter the small log; those
//! that were requested there move to main when they reach its head, the others leave, and their
//! index entries stay behind as ghosts: a key that comes back while its ghost is there enters
//! main at once. At main's head an item that was requested goes around again. CLOCK is the main
//! log alone; FIFO goes without counting; approximate LRU (MICA 4.3.1) moves a requested item
//! to the tail if it is in the older part of the log.

use crate::limits::FREQUENCY_MAX;

/// An eviction policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eviction {
    /// Two logs, request counts and ghosts.
    #[default]
    S3Fifo,
    /// One log; an item that was requested goes around again.
    Clock,
    /// A requested item in the older half of the log moves to the tail.
    ApproximateLru,
    /// Every requested item moves to the tail. Literal, and worse than it sounds: the stale
    /// copies fill the log.
    Lru,
    /// First in, first out: nothing is ever moved.
    Fifo,
}

/// A policy in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    /// Share of the small log in the data space; 0 = there is none.
    pub small_percent: u64,
    /// An item at the head of the small log moves to main if it was requested so often.
    pub promote_at: u64,
    /// Requests that an item counts; 0 = none.
    pub frequency_max: u64,
    /// Items that an insertion may move at the head of main; the next one leaves.
    pub requeue_max: u32,
    /// A requested item this far from the tail of main, in percent of it, moves there.
    pub reinsert_percent: u64,
    /// How long a ghost is believed: bytes appended to the small log since, in percent of main.
    pub ghost_percent: u64,
}

const NO_MOVES: u64 = u64::MAX;

impl Eviction {
    /// All of them, the default first.
    pub const ALL: [Self; 5] = [
        Self::S3Fifo,
        Self::Clock,
        Self::ApproximateLru,
        Self::Lru,
        Self::Fifo,
    ];

    pub(crate) const fn policy(self) -> Policy {
        let fifo = Policy {
            small_percent: 0,
            promote_at: 0,
            frequency_max: 0,
            requeue_max: 0,
            reinsert_percent: NO_MOVES,
            ghost_percent: 0,
        };
        let clock = Policy {
            frequency_max: FREQUENCY_MAX,
            requeue_max: 32,
            ..fifo
        };
        match self {
            Self::Fifo => fifo,
            Self::Lru => Policy {
                reinsert_percent: 0,
                ..fifo
            },
            Self::ApproximateLru => Policy {
                reinsert_percent: 50,
                ..fifo
            },
            Self::Clock => clock,
            Self::S3Fifo => Policy {
                small_percent: 10,
                promote_at: 2,
                ghost_percent: 100,
                ..clock
            },
        }
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
        Self::ALL
            .into_iter()
            .find(|policy| policy.name() == name)
            .ok_or_else(|| {
                let names = Self::ALL.map(Self::name).join(", ");
                format!("unknown eviction policy '{name}': one of {names}")
            })
    }
}
