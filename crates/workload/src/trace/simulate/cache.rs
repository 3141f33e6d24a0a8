//! The common part of all simulated caches, and the way a trace is sent to one.
//!
//! Look-aside, as clients of memcached do it: what a read misses is stored at once, with the size
//! that the trace gives. Writes, removals and expiries are done as the trace has them.

use super::compact::{Compact, Object, size_of_read};
use super::event::{Event, Kind, Mark, UNKNOWN};

/// The second at which a simulation begins: 0 and 1 have a meaning as expiries.
const FIRST_SECOND: u32 = 2;

/// An object that is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub object: u32,
    /// Bytes of key and value, and of the key alone (0 where the trace does not tell).
    pub payload_bytes: u32,
    pub key_bytes: u8,
    /// The second at which it expires; 0 = never.
    pub expiry_s: u32,
}

/// A simulated cache.
pub(crate) trait Cache {
    /// The time is now this second, and the request to come is this one of the trace.
    fn turn(&mut self, event: usize, now_s: u32);
    /// Returns whether the object is there; the policy takes notice.
    fn read(&mut self, object: u32) -> bool;
    /// Returns whether the object is there, by the by.
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
    /// Reads.
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
        let was_there = replay.request(*event, cache);
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

    /// Returns whether the object was there.
    fn request(&mut self, event: Event, cache: &mut impl Cache) -> bool {
        let object = event.object();
        match event.kind() {
            Kind::Read | Kind::ReadAndTouch => {
                let was_there = cache.read(object);
                let touches = event.kind() == Kind::ReadAndTouch;
                if touches {
                    self.set_expiry(object);
                }
                if !was_there {
                    self.store_anew(event, cache);
                } else if touches {
                    self.touch(object, cache);
                }
                return was_there;
            }
            Kind::Store => self.write(event, cache),
            Kind::StoreIfAbsent if !cache.has(object) => self.write(event, cache),
            Kind::StoreIfPresent if cache.has(object) => match self.expiry_s {
                Some(_) => self.write(event, cache),
                // It expires when it would have.
                None => self.store(event, cache),
            },
            Kind::StoreIfAbsent | Kind::StoreIfPresent | Kind::Mark => {}
            Kind::Delete => cache.delete(object),
            Kind::Touch => {
                self.set_expiry(object);
                self.touch(object, cache);
            }
        }
        true
    }

    fn write(&mut self, event: Event, cache: &mut impl Cache) {
        self.set_expiry(event.object());
        self.store_anew(event, cache);
    }

    fn store_anew(&mut self, event: Event, cache: &mut impl Cache) {
        self.renew_end(event.object());
        self.store(event, cache);
    }

    fn store(&self, event: Event, cache: &mut impl Cache) {
        let object = event.object();
        let known = &self.objects[object as usize];
        let payload_bytes = match event.payload_bytes() {
            UNKNOWN => known.payload_bytes,
            bytes => bytes,
        };
        if payload_bytes != UNKNOWN {
            cache.store(Stored {
                object,
                payload_bytes,
                key_bytes: known.key_bytes,
                expiry_s: self.end_of(object),
            });
        }
    }

    fn touch(&mut self, object: u32, cache: &mut impl Cache) {
        if self.expiry_s.is_some() {
            self.renew_end(object);
            cache.touch(object, self.end_of(object));
        }
    }

    /// The seconds that were said are the object's from now on.
    fn set_expiry(&mut self, object: u32) {
        if let (Some(of_object), Some(said_s)) = (self.expiries_s.get_mut(object as usize), self.expiry_s) {
            *of_object = said_s;
        }
    }

    /// It expires so many seconds from now as it is given.
    fn renew_end(&mut self, object: u32) {
        if let Some(end_s) = self.ends_s.get_mut(object as usize) {
            *end_s = match self.expiries_s[object as usize] {
                0 => 0,
                expiry_s => self.now_s.saturating_add(expiry_s),
            };
        }
    }

    fn end_of(&self, object: u32) -> u32 {
        self.ends_s.get(object as usize).copied().unwrap_or(0)
    }
}
