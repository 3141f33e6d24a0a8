//! The common part of all simulated caches, and the way a trace is sent to one.
//!
//! Look-aside, as clients of memcached do it: what a read misses is stored at once, with the size
//! that the trace gives. Writes, removals and expiries are done as the trace has them.

use super::compact::{Compact, Object, size_of_read};
use super::event::{Event, Kind, Mark, UNKNOWN};

/// The second at which a simulation begins: 0 and 1 have a meaning as expiries.
const FIRST_SECOND: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub object: u32,
    /// Bytes of key and value, and of the key alone (0 where the trace does not tell).
    pub payload_bytes: u32,
    pub key_bytes: u8,
    /// The second at which it expires; 0 = never.
    pub expiry_s: u32,
}

pub(crate) trait Cache {
    /// The time is now this second, and the request to come is this one of the trace.
    fn turn(&mut self, event: usize, now_s: u32);
    /// Returns whether the object is there; the policy takes notice.
    fn read(&mut self, object: u32) -> bool;
    /// Returns whether the object is there; the policy need not take notice.
    fn has(&mut self, object: u32) -> bool;
    /// Stores an object, or another version of it.
    fn store(&mut self, stored: Stored);
    /// Removes an object if it is there.
    fn delete(&mut self, object: u32);
    /// Gives an object another expiry if it is there.
    fn touch(&mut self, object: u32, expiry_s: u32);
}

/// Reads, and those that missed, after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub reads: u64,
    /// Reads that did not find their object.
    pub misses: u64,
    /// Bytes of key and value of the reads.
    pub bytes: u64,
    /// Bytes of key and value of the reads that missed.
    pub bytes_missed: u64,
}

/// Sends every request to a cache; those of the first `warm_up` (0 to 1) are not counted.
pub(crate) fn drive(trace: &Compact, cache: &mut impl Cache, warm_up: f64) -> Counts {
    let counted_from = (trace.events.len() as f64 * warm_up) as usize;
    let mut counts = Counts::default();
    let mut replay = Replay {
        objects: &trace.objects,
        expiries_s: trace.expiries_s.clone(),
        ends_s: vec![0; trace.expiries_s.len()],
        now_s: FIRST_SECOND,
        expiry_s: None,
    };
    for (number, event) in trace.events.iter().enumerate() {
        if event.kind() == Kind::Mark {
            replay.mark(*event);
            continue;
        }
        cache.turn(number, replay.now_s);
        let mut item = InCache { replay: &mut replay, cache: &mut *cache, event: *event };
        let was_there = look_aside(event.kind(), &mut item);
        if event.kind().reads() && number >= counted_from {
            let bytes = size_of_read(*event, &trace.objects);
            counts.reads += 1;
            counts.bytes += bytes;
            if !was_there {
                counts.misses += 1;
                counts.bytes_missed += bytes;
            }
        }
    }
    counts
}

/// The object of a request, as the rules of look-aside see it.
pub(crate) trait Item {
    /// Returns whether it is there; the policy takes notice.
    fn read(&mut self) -> bool;
    /// Returns whether it is there; the policy need not take notice.
    fn has(&mut self) -> bool;
    /// Notes how long it lives, if the request tells that. Returns whether it does.
    fn set_lifetime(&mut self) -> bool;
    /// Stores it for its lifetime.
    fn store(&mut self);
    /// Stores another version, which expires when it would have.
    fn replace(&mut self);
    /// Notes a new version that is not stored, because the cache has lost the item.
    fn replace_absent(&mut self);
    fn delete(&mut self);
    /// Lets it live for its lifetime from now on, if it is there.
    fn touch(&mut self);
}

/// Does what client and server do with a request; returns whether a read found its object.
pub(crate) fn look_aside(kind: Kind, item: &mut impl Item) -> bool {
    match kind {
        Kind::Read | Kind::ReadAndTouch => {
            let was_there = item.read();
            let touches = kind == Kind::ReadAndTouch && item.set_lifetime();
            if !was_there {
                item.store();
            } else if touches {
                item.touch();
            }
            return was_there;
        }
        Kind::Store => store(item),
        Kind::StoreIfAbsent if !item.has() => store(item),
        Kind::StoreIfPresent if item.has() => match item.set_lifetime() {
            true => item.store(),
            false => item.replace(),
        },
        Kind::StoreIfPresent => item.replace_absent(),
        Kind::StoreIfAbsent | Kind::Mark => {}
        Kind::Delete => item.delete(),
        Kind::Touch => {
            if item.set_lifetime() {
                item.touch();
            }
        }
    }
    true
}

fn store(item: &mut impl Item) {
    item.set_lifetime();
    item.store();
}

struct Replay<'a> {
    objects: &'a [Object],
    /// The seconds after which each object expires; empty where none does.
    expiries_s: Vec<u32>,
    /// The second at which each does, as it was stored or touched last; as long.
    ends_s: Vec<u32>,
    now_s: u32,
    /// The seconds after which what is stored expires, if that is told.
    expiry_s: Option<u32>,
}

impl Replay<'_> {
    fn mark(&mut self, event: Event) {
        match event.marked() {
            Mark::Seconds(seconds) => self.now_s = self.now_s.saturating_add(seconds),
            Mark::Expiry(expiry_s) => self.expiry_s = expiry_s,
        }
    }
}

/// An event's object in a cache.
struct InCache<'a, 'b, C> {
    replay: &'a mut Replay<'b>,
    cache: &'a mut C,
    event: Event,
}

impl<C: Cache> Item for InCache<'_, '_, C> {
    fn read(&mut self) -> bool {
        self.cache.read(self.event.object())
    }

    fn has(&mut self) -> bool {
        self.cache.has(self.event.object())
    }

    fn set_lifetime(&mut self) -> bool {
        let Replay { expiries_s, expiry_s, .. } = &mut *self.replay;
        if let (Some(of_object), Some(told_s)) = (expiries_s.get_mut(self.event.object() as usize), *expiry_s)
        {
            *of_object = told_s;
        }
        expiry_s.is_some()
    }

    fn store(&mut self) {
        self.renew_end();
        self.replace();
    }

    fn replace(&mut self) {
        let object = self.event.object();
        let known = &self.replay.objects[object as usize];
        let payload_bytes = match self.event.payload_bytes() {
            UNKNOWN => known.payload_bytes,
            bytes => bytes,
        };
        if payload_bytes != UNKNOWN {
            let (key_bytes, expiry_s) = (known.key_bytes, self.end_s());
            self.cache.store(Stored { object, payload_bytes, key_bytes, expiry_s });
        }
    }

    fn replace_absent(&mut self) {}

    fn delete(&mut self) {
        self.cache.delete(self.event.object());
    }

    fn touch(&mut self) {
        self.renew_end();
        self.cache.touch(self.event.object(), self.end_s());
    }
}

impl<C> InCache<'_, '_, C> {
    /// Restarts the lifetime of the object.
    fn renew_end(&mut self) {
        let object = self.event.object() as usize;
        let Replay { expiries_s, ends_s, now_s, .. } = &mut *self.replay;
        if let Some(end_s) = ends_s.get_mut(object) {
            *end_s = match expiries_s[object] {
                0 => 0,
                expiry_s => now_s.saturating_add(expiry_s),
            };
        }
    }

    fn end_s(&self) -> u32 {
        self.replay.ends_s.get(self.event.object() as usize).copied().unwrap_or(0)
    }
}
