//! The requests of a pool.
//!
//! A pool's items are of four kinds, by the two highest of the 56 bits of their numbers
//! within the pool:
//!
//! | kind | GETs of it | in the server |
//! |---|---|---|
//! | resident | hit | from the start |
//! | invalidated | each follows a DELETE of the same item | if an UPDATE, or the client, has stored it |
//! | scanned | all of them in turn, about once in a day | if the client stores misses, until evicted |
//! | new | one | if the client, or an UPDATE that follows, stores it |

use super::parameters::{Parameters, Residents};
use super::residents::Choice;
use super::rings::{Invalidated, Ring};
use super::{Pool, PoolItem};
use crate::synthetic::random::mix;
use crate::{ITEMS_MAX, Random};

/// First numbers of each kind; those of resident items begin at 0.
pub(super) const INVALIDATED: u64 = 1 << 54;
const SCANNED: u64 = 2 << 54;
const NEW: u64 = 3 << 54;
/// Bits of a number within its pool.
pub(super) const NUMBER_BITS: u32 = 56;

/// Hours from one GET of an invalidated item to the next.
const INVALIDATED_HOURS: f64 = 0.5;
/// Hours from one GET of a scanned item to the next.
const SCAN_HOURS: f64 = 24.0;

/// A request to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolOperation {
    /// Reads an item.
    Get,
    /// Stores an item (the papers' UPDATE is every writing operation but DELETE).
    Update,
    /// Removes an item, which may or may not be there.
    Delete,
}

/// Why a GET misses. Without demand fill all of these miss because nobody has stored the item; with
/// it, for the cause that is named, as long as the server holds what was asked for in the last
/// hours, and not what was asked for a day ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Miss {
    /// Nobody has asked for it before.
    Compulsory,
    /// The item was deleted.
    Invalidation,
    /// The item was asked for too long ago.
    Eviction,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolRequest {
    pub operation: PoolOperation,
    pub item: PoolItem,
    /// Reason why a GET is to miss; none if it is to hit, and for the other operations.
    pub miss: Option<Miss>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoolOptions {
    /// Resident items; [`Pool::prefill`] has to be given the same.
    pub keys: u64,
    /// Seed; the same one gives the same requests.
    pub seed: u64,
    /// Thread and number of threads that share the items, and the hours.
    pub part: (usize, usize),
    /// Parts of GET, UPDATE and DELETE among the requests, whatever their sum, instead of the pool's.
    pub mix: Option<[f64; 3]>,
}

impl PoolOptions {
    /// The pool's own mix, for a single thread.
    pub const fn new(keys: u64, seed: u64) -> Self {
        Self { keys, seed, part: (0, 1), mix: None }
    }
}

/// The requests of a pool, without end; always the same for the same options. Nothing is allocated.
///
/// An UPDATE may be of an item that the GET before it is to miss. Who sends requests before the
/// replies to the earlier ones have come holds it back until that GET is answered: it might overtake.
#[derive(Clone, Debug)]
pub struct PoolStream {
    pool: Pool,
    parameters: &'static Parameters,
    random: Random,
    /// Bounds of the draws of 32 bits: up to the first it is a GET, up to the second an UPDATE.
    operations: [u64; 2],
    /// Up to the first it hits, then it was invalidated, then evicted.
    causes: [u64; 3],
    fills: u64,
    residents: Choice,
    invalidated: Invalidated,
    scanned: Ring,
    scans: u64,
    new: u64,
    /// Item that was missed last and has not been stored since.
    missed: Option<u64>,
}

impl PoolStream {
    /// A stream of the pool.
    ///
    /// # Panics
    /// When there are no keys, or more than [`ITEMS_MAX`]; when the thread is none of the threads;
    /// when the mix has nothing in it.
    pub fn new(pool: Pool, options: PoolOptions) -> Self {
        let PoolOptions { keys, seed, part, .. } = options;
        assert!((1..=ITEMS_MAX).contains(&keys), "{keys} keys");
        assert!(part.0 < part.1, "thread {} of {}", part.0, part.1);
        let weights = options.mix.unwrap_or_else(|| pool.mix());
        let sum: f64 = weights.iter().sum();
        assert!(sum > 0.0, "{weights:?}");
        let parameters = pool.parameters();
        let hits = pool.hit_rate();
        let of_gets = |cause| (1.0 - hits) * pool.miss_share(cause);
        let invalidated = hits + of_gets(Miss::Invalidation);
        let evicted = invalidated + of_gets(Miss::Eviction);
        let scanned = items_within(pool, keys, Miss::Eviction, SCAN_HOURS);
        // UPDATEs choose, too.
        let choices_per_get = hits + weights[1] / weights[0].max(f64::MIN_POSITIVE);
        let choices_per_hour = pool.gets_per_hour(keys) / part.1 as f64 * choices_per_get;
        // Streams of other seeds, or of other threads, have new items of their own.
        let own = mix(seed ^ mix(part.0 as u64)) >> 42 << 32;
        Self {
            pool,
            parameters,
            random: Random::of_stream(seed, part.0 as u64),
            operations: [weights[0] / sum, (weights[0] + weights[1]) / sum].map(bound),
            causes: [hits, invalidated, evicted].map(bound),
            fills: bound(parameters.fills),
            residents: Choice::new(&parameters.residents, keys, choices_per_hour),
            invalidated: Invalidated::new(Ring::part(INVALIDATED, invalidated_items(pool, keys), part)),
            scanned: Ring::part(SCANNED, scanned, part),
            scans: 0,
            new: NEW + own,
            missed: None,
        }
    }

    #[inline]
    fn get(&mut self, draw: u64) -> (u64, Option<Miss>) {
        let [hits, invalidated, evicted] = self.causes;
        if draw < hits {
            return (self.residents.next(&mut self.random), None);
        }
        if draw < invalidated
            && let Some(number) = self.invalidated.read()
        {
            if !self.parameters.fills_new_keys {
                self.missed = Some(number);
            }
            return (number, Some(Miss::Invalidation));
        }
        // Also what cannot be an invalidated one, for want of DELETEs.
        if draw < evicted {
            self.scans += 1;
            return (self.scanned.at(self.scans - 1), Some(Miss::Eviction));
        }
        self.new += 1;
        if self.parameters.fills_new_keys {
            self.missed = Some(self.new - 1);
        }
        (self.new - 1, Some(Miss::Compulsory))
    }

    /// The next item that is asked for once in a day.
    pub(super) fn next_scanned(&mut self) -> PoolItem {
        self.scans += 1;
        self.pool.item(self.scanned.at(self.scans - 1))
    }

    /// A resident item by its popularity.
    pub(super) fn next_resident(&mut self) -> PoolItem {
        let number = self.residents.next(&mut self.random);
        self.pool.item(number)
    }

    #[inline]
    fn update(&mut self, draw: u64) -> u64 {
        if draw < self.fills
            && let Some(missed) = self.missed.take()
        {
            return missed;
        }
        self.residents.next(&mut self.random)
    }
}

impl Iterator for PoolStream {
    type Item = PoolRequest;

    #[inline]
    fn next(&mut self) -> Option<PoolRequest> {
        let word = self.random.word();
        let (draw, second) = (word >> 32, word & 0xffff_ffff);
        let [gets, updates] = self.operations;
        let (operation, (number, miss)) = if draw < gets {
            (PoolOperation::Get, self.get(second))
        } else if draw < updates {
            (PoolOperation::Update, (self.update(second), None))
        } else {
            let number = self.invalidated.delete(&mut self.random);
            (PoolOperation::Delete, (number, None))
        };
        Some(PoolRequest { operation, item: self.pool.item(number), miss })
    }
}

/// Number of items that are invalidated again and again.
pub(super) fn invalidated_items(pool: Pool, keys: u64) -> u64 {
    items_within(pool, keys, Miss::Invalidation, INVALIDATED_HOURS).max(16)
}

/// Number of items that come and go in the time that a server holds an item nobody asks for again.
pub(super) fn passing_items(pool: Pool, keys: u64) -> u64 {
    let hours = match pool.parameters().residents {
        Residents::Popular(_) => SCAN_HOURS / 2.0,
        Residents::InTurn { hours } => hours,
    };
    let passing = [Miss::Compulsory, Miss::Eviction];
    passing.map(|cause| items_within(pool, keys, cause, hours)).iter().sum()
}

/// Number of misses of a cause in so many hours.
fn items_within(pool: Pool, keys: u64, cause: Miss, hours: f64) -> u64 {
    let misses_per_hour = pool.gets_per_hour(keys) * (1.0 - pool.hit_rate());
    (misses_per_hour * pool.miss_share(cause) * hours) as u64
}

/// A probability as a bound of draws of 32 bits.
fn bound(probability: f64) -> u64 {
    (probability * 2f64.powi(32)).round() as u64
}
