//! Causes of misses in a cache of some memory (dissertation, section 2.3.1): the engine itself, or an exact
//! policy, is asked for what the trace asks for, and what happened to a key before tells why it is not there.

mod cache;

use cache::KeyCache;

use super::keys::{KeyState, State};
use crate::trace::simulate::{Item, Kind, Policy, look_aside};
use crate::trace::{Failure, Operation, Outcome, Request};

/// The second at which a simulation begins: 0 and 1 have a meaning as expiries.
const FIRST_SECOND: u64 = 2;

/// End of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    Hit = 0,
    /// Nobody had stored it or asked for it before.
    Compulsory = 1,
    /// The item had been deleted, or had expired.
    Invalidation = 2,
    /// The item was evicted for want of memory.
    Capacity = 3,
}

impl Read {
    /// All ends, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Hit, Self::Compulsory, Self::Invalidation, Self::Capacity];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Compulsory => "compulsory",
            Self::Invalidation => "invalidation",
            Self::Capacity => "capacity",
        }
    }
}

/// A look-aside cache: what a read misses is stored.
pub(super) struct MissCauses {
    cache: KeyCache,
}

impl MissCauses {
    /// A cache that has so many bytes, where a fraction of the keys is asked for.
    ///
    /// # Errors
    /// Those of [`KeyCache::new`].
    pub fn new(policy: Policy, bytes: u64, fraction: f64) -> Result<Self, Failure> {
        Ok(Self { cache: KeyCache::new(policy, bytes, fraction)? })
    }

    /// A request of a key, of which `state` says what happened before and learns what happens now;
    /// what became of it if it reads.
    pub fn ask(
        &mut self,
        request: &Request<'_>,
        hash: u64,
        state: &mut KeyState,
        since_ms: u64,
    ) -> Option<Read> {
        // The item was there: that this cache has lost it shows in the next read.
        if request.operation == Operation::Add && request.outcome == Outcome::Miss {
            return None;
        }
        let kind = Kind::of(request)?;
        let now_s = u32::try_from(since_ms / 1000 + FIRST_SECOND).unwrap_or(u32::MAX);
        self.cache.set_now(now_s);
        let before = match state.state {
            State::New => Read::Compulsory,
            State::Deleted => Read::Invalidation,
            State::Stored if !state.lives(now_s) => Read::Invalidation,
            State::Stored => Read::Capacity,
        };
        let key_bytes = u8::try_from(request.key_bytes).unwrap_or(u8::MAX);
        let expiry_s = request.lifetime_s();
        let mut item = KeyInCache { cache: &mut self.cache, hash, key_bytes, state, now_s, expiry_s };
        let was_there = look_aside(kind, &mut item);
        kind.reads().then_some(if was_there { Read::Hit } else { before })
    }
}

/// The key of a request.
struct KeyInCache<'a> {
    cache: &'a mut KeyCache,
    hash: u64,
    key_bytes: u8,
    state: &'a mut KeyState,
    now_s: u32,
    /// Seconds that it is to live, if the request tells that.
    expiry_s: Option<u32>,
}

impl Item for KeyInCache<'_> {
    fn read(&mut self) -> bool {
        self.cache.get(self.hash, self.key_bytes)
    }

    fn has(&mut self) -> bool {
        self.read()
    }

    fn set_lifetime(&mut self) -> bool {
        self.state.expiry_s = self.expiry_s.unwrap_or(self.state.expiry_s);
        self.expiry_s.is_some()
    }

    /// Stores nothing whose size the trace has not told yet.
    fn store(&mut self) {
        if self.state.payload_bytes > 0 {
            self.state.state = State::Stored;
            self.state.expires_s = self.end_s();
            self.replace();
        }
    }

    fn replace(&mut self) {
        let (bytes, expires_s) = (u64::from(self.state.payload_bytes), self.state.expires_s);
        self.cache.set(self.hash, self.key_bytes, bytes, expires_s);
    }

    /// Only this cache has lost the item: the server of the trace gives it its new lifetime.
    fn replace_absent(&mut self) {
        if self.lives() && self.set_lifetime() {
            self.state.expires_s = self.end_s();
        }
    }

    fn delete(&mut self) {
        self.cache.delete(self.hash, self.key_bytes);
        // A key that nobody has stored is not deleted.
        if self.state.state == State::Stored {
            self.state.state = State::Deleted;
        }
    }

    fn touch(&mut self) {
        let end_s = self.end_s();
        if self.lives() {
            self.state.expires_s = end_s;
        }
        self.cache.touch(self.hash, self.key_bytes, end_s);
    }
}

impl KeyInCache<'_> {
    /// Returns whether a cache that evicts nothing would have it.
    fn lives(&self) -> bool {
        self.state.state == State::Stored && self.state.lives(self.now_s)
    }

    /// The second at which its life ends that begins now; 0 for never.
    fn end_s(&self) -> u32 {
        match self.state.expiry_s {
            0 => 0,
            seconds => self.now_s.saturating_add(seconds),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Key;
    use micanite_engine::Eviction;

    fn causes_at(bytes: u64, fraction: f64) -> Result<MissCauses, Failure> {
        MissCauses::new(Policy::Engine(Eviction::default()), bytes, fraction)
    }

    fn request(operation: Operation) -> Request<'static> {
        Request {
            time_ms: 5000,
            key: Key::Number(9),
            operation,
            key_bytes: 0,
            value_bytes: Some(100),
            expiry_s: None,
            outcome: Outcome::Unknown,
        }
    }

    /// Returns the ends of the reads of a key that is asked for so: (seconds, operation, bytes, expiry).
    fn reads(requests: &[(u64, Operation, Option<u32>, Option<u32>)]) -> Vec<Read> {
        let mut causes = causes_at(64 << 20, 1.0).unwrap();
        let mut state = KeyState::default();
        let ask = |(time_s, operation, value_bytes, expiry_s): &(u64, Operation, _, _)| {
            let request = Request {
                time_ms: time_s * 1000,
                operation: *operation,
                value_bytes: *value_bytes,
                expiry_s: *expiry_s,
                ..request(*operation)
            };
            if let Some(bytes) = request.payload_bytes() {
                state.payload_bytes = bytes as u32;
            }
            causes.ask(&request, 9, &mut state, time_s * 1000)
        };
        requests.iter().filter_map(ask).collect()
    }

    #[test]
    fn causes_follow_from_earlier_requests() {
        use Operation::{Delete, Get, Set};
        let (size, no) = (Some(100), None);
        let told = reads(&[
            (0, Get, size, no),
            (0, Get, size, no),
            (1, Delete, no, no),
            (1, Get, size, no),
            (2, Set, size, Some(3)),
            (4, Get, size, no),
            (5, Get, size, no),
            (7, Get, size, no),
            (8, Get, size, no),
        ]);
        use Read::{Compulsory, Hit, Invalidation};
        let first = [Compulsory, Hit, Invalidation];
        // The expired item was stored for three seconds again.
        let expiring = [Hit, Invalidation, Hit, Invalidation];
        assert_eq!(told, [&first[..], &expiring].concat());
    }

    /// Nobody has stored it before, so that nothing else is to blame: not what is deleted or changed
    /// without being there, and not a read whose size is not told, which fills nothing.
    #[test]
    fn first_reads_are_compulsory_misses() {
        use Operation::{Append, Delete, Get, Increment, Replace, Touch};
        for operation in [Delete, Replace, Append, Increment, Touch, Get] {
            let bytes = (operation != Get && operation != Delete).then_some(50);
            let told = reads(&[(0, operation, bytes, Some(9)), (1, Get, Some(100), None)]);
            assert_eq!(told.last(), Some(&Read::Compulsory), "{operation:?}");
        }
    }

    #[test]
    fn expiries_are_those_that_memcached_gives() {
        use Operation::{Add, Append, Get, GetAndTouch, Increment, Set, Touch};
        let size = Some(100);
        let ends_at_10 = [(Add, Some(100)), (Append, Some(0)), (Append, None), (Increment, None)];
        for (operation, expiry_s) in ends_at_10 {
            let told = reads(&[
                (0, Set, size, Some(10)),
                (5, operation, size, expiry_s),
                (9, Get, size, None),
                (10, Get, size, None),
            ]);
            assert_eq!(told, [Read::Hit, Read::Invalidation], "{operation:?}");
        }
        for operation in [Touch, GetAndTouch] {
            let told = reads(&[
                (0, Set, size, Some(10)),
                (5, operation, size, Some(10)),
                (14, Get, size, None),
                (15, Get, size, None),
            ]);
            let last = told.last_chunk::<2>();
            assert_eq!(last, Some(&[Read::Hit, Read::Invalidation]), "{operation:?}");
        }
    }

    /// The engine knows whole seconds only.
    #[test]
    fn items_expire_in_the_second_of_their_end() {
        let mut causes = causes_at(64 << 20, 1.0).unwrap();
        let mut state = KeyState { payload_bytes: 100, ..KeyState::default() };
        let mut ask = |operation, since_ms| {
            let request = Request { expiry_s: Some(1), ..request(operation) };
            causes.ask(&request, 9, &mut state, since_ms)
        };
        assert_eq!(ask(Operation::Set, 900), None);
        assert_eq!(ask(Operation::Get, 1000), Some(Read::Invalidation));
    }

    /// Returns the ends of the reads of a key that was stored at 0 s, for ten seconds, and evicted at 3 s.
    fn reads_of_evicted(requests: &[(u64, Operation, Option<u32>)]) -> Vec<Read> {
        let mut causes = causes_at(64 << 20, 0.01).unwrap();
        let mut state = KeyState { payload_bytes: 100, ..KeyState::default() };
        causes.ask(&Request { expiry_s: Some(10), ..request(Operation::Set) }, 9, &mut state, 0);
        for number in 10..10_000 {
            let mut other = KeyState { payload_bytes: 1000, ..KeyState::default() };
            causes.ask(&request(Operation::Set), number, &mut other, 3000);
        }
        let ask = |(time_s, operation, expiry_s): &(u64, Operation, _)| {
            let request = Request { expiry_s: *expiry_s, ..request(*operation) };
            causes.ask(&request, 9, &mut state, time_s * 1000)
        };
        requests.iter().filter_map(ask).collect()
    }

    #[test]
    fn writes_to_evicted_items_renew_their_lifetimes() {
        use Operation::{Append, Cas, Decrement, Get, Increment, Prepend, Replace};
        use Read::{Capacity, Hit, Invalidation};
        for operation in [Replace, Cas, Increment, Decrement] {
            let told = [(5, operation, Some(100)), (50, Get, None), (149, Get, None), (150, Get, None)];
            assert_eq!(reads_of_evicted(&told), [Capacity, Hit, Invalidation], "{operation:?}");
            let not_told = [(5, operation, None), (9, Get, None)];
            assert_eq!(reads_of_evicted(&not_told), [Capacity], "{operation:?}");
            let too_late = [(10, operation, Some(100)), (50, Get, None), (59, Get, None), (60, Get, None)];
            assert_eq!(reads_of_evicted(&too_late), [Invalidation, Hit, Invalidation], "{operation:?}");
        }
        for operation in [Append, Prepend] {
            let told = [(5, operation, Some(100)), (50, Get, None)];
            assert_eq!(reads_of_evicted(&told), [Invalidation], "{operation:?}");
        }
    }

    #[test]
    fn refused_adds_store_nothing() {
        let mut causes = causes_at(64 << 20, 1.0).unwrap();
        let mut state = KeyState { payload_bytes: 100, ..KeyState::default() };
        let refused = Request { outcome: Outcome::Miss, ..request(Operation::Add) };
        assert_eq!(causes.ask(&refused, 9, &mut state, 0), None);
        let read = causes.ask(&request(Operation::Get), 9, &mut state, 0);
        assert_eq!(read, Some(Read::Compulsory));
    }

    #[test]
    fn evicted_items_are_capacity_misses() {
        let mut causes = causes_at(64 << 20, 0.01).unwrap();
        let mut missed = 0;
        for round in 0..2 {
            for number in 0..10_000u64 {
                let mut state = KeyState {
                    payload_bytes: 1000,
                    state: if round == 0 { State::New } else { State::Stored },
                    ..KeyState::default()
                };
                let read = causes.ask(&request(Operation::Get), number, &mut state, 5000);
                assert!(round > 0 || read == Some(Read::Compulsory));
                missed += u32::from(read == Some(Read::Capacity));
            }
        }
        // 671 KB for 10 MB.
        assert!(missed > 9000, "{missed}");
    }
}
