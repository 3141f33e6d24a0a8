//! A trace in memory: eight bytes per request, in at most so many bytes altogether. What would be
//! more is sampled by the hash of the key (Waldspurger, Park, Garthwaite, Ahmad: Efficient MRC
//! construction with SHARDS, FAST 2015): all requests of some keys, none of the others.

use hashbrown::HashTable;

use super::event::{Event, Kind, Mark, UNKNOWN};
use crate::trace::progress::REQUESTS_PER_LOOK;
use crate::trace::{Failure, Reader, Request};

/// Bounds on the part of a trace that is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Requests that are read, at most.
    pub requests_max: u64,
    /// Bytes that the trace may take in memory: of what would be more a sample is kept.
    pub bytes_max: usize,
    /// The fraction of keys that is kept, if there is room.
    pub fraction: f64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { requests_max: u64::MAX, bytes_max: 512 << 20, fraction: 1.0 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    /// Bytes of key and value as they were first known; [`UNKNOWN`] if never.
    pub payload_bytes: u32,
    /// Bytes of the key; 0 if the trace does not tell.
    pub key_bytes: u8,
}

/// A trace in memory, or a sample of it.
#[derive(Debug, Default)]
pub struct Compact {
    pub(crate) events: Vec<Event>,
    pub(crate) objects: Vec<Object>,
    hashes: Vec<u64>,
    /// Keys up to this hash are here.
    hash_max: u64,
    /// The seconds after which objects expire, where something does: the first that were said.
    pub(crate) expiries_s: Vec<u32>,
    /// The fraction of all keys that is here, of those that were ever asked for.
    pub fraction: f64,
    /// Requests of the trace that were read, kept or not.
    pub requests: u64,
    /// Reads among these.
    pub reads: u64,
    /// Reads of all keys, where the trace is a sample itself and tells it; otherwise as estimated.
    pub reads_of_all: f64,
    pub read_bytes: u64,
    /// The fraction of keys that the trace itself has.
    sampled: f64,
    /// True if the trace does not tell the size of some reads.
    has_unknown_sizes: bool,
    /// Reads that are here.
    pub reads_kept: u64,
    /// Bytes of these.
    pub read_bytes_kept: u64,
}

/// Bytes that one object takes: its entry, its hash, its place in the table by hash.
const OBJECT_BYTES: usize = size_of::<Object>() + 8 + 6;
/// Events for which room is made at a time, so that nothing is left unused.
const EVENTS_STEP: usize = 1 << 19;

impl Compact {
    /// Reads a trace; `at` is called every now and then with the number of requests.
    ///
    /// # Errors
    /// Returns the errors of the reader.
    pub fn read(reader: &mut dyn Reader, bounds: Bounds, mut at: impl FnMut(u64)) -> Result<Self, Failure> {
        let mut loader = Loader::new(bounds);
        while loader.compact.requests < bounds.requests_max
            && let Some(request) = reader.next()?
        {
            loader.take(&request);
            if loader.compact.requests.is_multiple_of(REQUESTS_PER_LOOK) {
                at(loader.compact.requests);
            }
        }
        let Loader { mut compact, .. } = loader;
        let sampled = reader.sampled_fraction();
        let seen = reader.seen().filter(|_| bounds.requests_max == u64::MAX);
        compact.reads_of_all = match seen {
            Some(seen) if sampled < 1.0 => seen.reads as f64,
            _ => compact.reads as f64 / sampled,
        };
        compact.fraction *= sampled;
        compact.sampled = sampled;
        Ok(compact)
    }

    /// Reads that a sample of this fraction should have.
    pub(crate) fn reads_expected(&self) -> f64 {
        self.reads_of_all * self.fraction
    }

    /// Bytes of the reads that a sample of this fraction should have.
    pub(crate) fn read_bytes_expected(&self) -> f64 {
        if self.sampled == 1.0 && !self.has_unknown_sizes {
            return self.read_bytes as f64 * self.fraction;
        }
        let surplus = self.reads_expected() / self.reads_kept.max(1) as f64;
        self.read_bytes_kept as f64 * surplus
    }

    /// Objects that are here.
    pub fn objects(&self) -> usize {
        self.objects.len()
    }

    /// Bytes of key and value of all objects of the whole trace: as of those that are here, and of
    /// first requests.
    pub fn footprint_bytes(&self) -> u64 {
        (self.footprint_bytes_kept() as f64 / self.fraction) as u64
    }

    /// Bytes of key and value of the objects that are here.
    pub(crate) fn footprint_bytes_kept(&self) -> u64 {
        let sizes = self.objects.iter().map(|object| object.payload_bytes);
        sizes.filter(|size| *size != UNKNOWN).map(u64::from).sum()
    }

    /// The largest object.
    pub(crate) fn payload_bytes_max(&self) -> u32 {
        let requests = self.events.iter().filter(|at| at.kind() != Kind::Mark);
        let sizes = requests.map(|event| event.payload_bytes());
        sizes.filter(|size| *size != UNKNOWN).max().unwrap_or(0)
    }

    /// Keeps this share of what is here.
    pub fn thin(&mut self, share: f64) {
        self.keep((self.hash_max as f64 * share) as u64);
        self.fraction *= share;
    }

    /// Drops what belongs to keys of greater hashes.
    fn keep(&mut self, hash_max: u64) {
        self.hash_max = hash_max;
        if !self.expiries_s.is_empty() {
            self.expiries_s.resize(self.objects.len(), 0);
        }
        let mut numbers = vec![u32::MAX; self.objects.len()];
        let mut kept = 0;
        for (object, number) in numbers.iter_mut().enumerate() {
            if self.hashes[object] <= hash_max {
                *number = kept as u32;
                self.objects[kept] = self.objects[object];
                self.hashes[kept] = self.hashes[object];
                if !self.expiries_s.is_empty() {
                    self.expiries_s[kept] = self.expiries_s[object];
                }
                kept += 1;
            }
        }
        self.objects.truncate(kept);
        self.hashes.truncate(kept);
        self.expiries_s.truncate(kept);
        self.keep_events(&numbers);
    }

    /// Drops the requests of objects that have no number any more, and marks that nothing follows.
    fn keep_events(&mut self, numbers: &[u32]) {
        let (mut reads, mut bytes, mut kept) = (0, 0, 0);
        let mut marks = Marks::default();
        for at in 0..self.events.len() {
            let event = self.events[at];
            if event.kind() == Kind::Mark {
                marks.add(event);
                continue;
            }
            let number = numbers[event.object() as usize];
            if number == u32::MAX {
                continue;
            }
            // There were at least as many marks before it.
            for mark in marks.take() {
                self.events[kept] = mark;
                kept += 1;
            }
            let event = event.renumbered(number);
            self.events[kept] = event;
            kept += 1;
            if event.kind().reads() {
                reads += 1;
                bytes += size_of_read(event, &self.objects);
            }
        }
        for mark in marks.take() {
            self.events[kept] = mark;
            kept += 1;
        }
        self.events.truncate(kept);
        (self.reads_kept, self.read_bytes_kept) = (reads, bytes);
    }
}

/// Marks without a request between them: together they say no more than two.
#[derive(Default)]
struct Marks {
    seconds: u64,
    expiry: Option<Event>,
}

impl Marks {
    fn add(&mut self, mark: Event) {
        match mark.marked() {
            Mark::Seconds(seconds) => self.seconds += u64::from(seconds),
            Mark::Expiry(_) => self.expiry = Some(mark),
        }
    }

    fn take(&mut self) -> impl Iterator<Item = Event> + use<> {
        let Self { seconds, expiry } = std::mem::take(self);
        let time = (seconds > 0).then(|| Event::time(seconds));
        time.into_iter().chain(expiry)
    }
}

/// Bytes of what a read looks for.
pub(crate) fn size_of_read(event: Event, objects: &[Object]) -> u64 {
    let known = match event.payload_bytes() {
        UNKNOWN => objects[event.object() as usize].payload_bytes,
        bytes => bytes,
    };
    if known == UNKNOWN { 0 } else { u64::from(known) }
}

struct Loader {
    compact: Compact,
    bounds: Bounds,
    numbers: HashTable<u32>,
    /// Time of the first request, and second of the last that is marked.
    began_ms: Option<u64>,
    second: u64,
    expiry_s: Option<u32>,
}

impl Loader {
    fn new(bounds: Bounds) -> Self {
        let fraction = bounds.fraction.clamp(f64::MIN_POSITIVE, 1.0);
        Self {
            compact: Compact {
                fraction,
                hash_max: (fraction * u64::MAX as f64) as u64,
                ..Compact::default()
            },
            bounds,
            numbers: HashTable::new(),
            began_ms: None,
            second: 0,
            expiry_s: None,
        }
    }

    fn take(&mut self, request: &Request<'_>) {
        self.compact.requests += 1;
        let payload_bytes = request.payload_bytes();
        let reads = request.operation.reads();
        if reads {
            self.compact.reads += 1;
            self.compact.read_bytes += payload_bytes.unwrap_or(0);
            self.compact.has_unknown_sizes |= payload_bytes.is_none();
        }
        let hash = request.key.hash();
        if hash > self.compact.hash_max {
            return;
        }
        let Some(kind) = Kind::of(request) else {
            return;
        };
        self.mark_time(request.time_ms);
        let number = self.number(hash, request);
        self.mark_expiry(number, request, kind);
        let event = Event::request(kind, number, payload_bytes);
        self.push(event);
        if reads {
            self.compact.reads_kept += 1;
            self.compact.read_bytes_kept += size_of_read(event, &self.compact.objects);
        }
        self.keep_within_bounds();
    }

    fn push(&mut self, event: Event) {
        let events = &mut self.compact.events;
        if events.len() == events.capacity() {
            events.reserve_exact(EVENTS_STEP);
        }
        events.push(event);
    }

    fn mark_time(&mut self, time_ms: u64) {
        let began_ms = *self.began_ms.get_or_insert(time_ms);
        let second = time_ms.saturating_sub(began_ms) / 1000;
        if second > self.second {
            self.push(Event::time(second - self.second));
            self.second = second;
        }
    }

    fn mark_expiry(&mut self, number: u32, request: &Request<'_>, kind: Kind) {
        let expiry_s = request.lifetime_s();
        if matches!(kind, Kind::Read | Kind::Delete) {
            return;
        }
        if self.expiry_s != expiry_s {
            self.push(Event::expiry(expiry_s));
            self.expiry_s = expiry_s;
        }
        let expiries_s = &mut self.compact.expiries_s;
        if let Some(expiry_s) = expiry_s
            && (expiry_s != 0 || !expiries_s.is_empty())
        {
            expiries_s.resize(self.compact.objects.len(), 0);
            let first_s = &mut expiries_s[number as usize];
            if *first_s == 0 {
                *first_s = expiry_s;
            }
        }
    }

    /// The number of a key's object.
    fn number(&mut self, hash: u64, request: &Request<'_>) -> u32 {
        let Compact { hashes, objects, .. } = &mut self.compact;
        let payload_bytes =
            request.payload_bytes().map_or(UNKNOWN, |bytes| bytes.min(u64::from(UNKNOWN) - 1) as u32);
        if let Some(&number) = self.numbers.find(hash, |number| hashes[*number as usize] == hash) {
            let object = &mut objects[number as usize];
            if object.payload_bytes == UNKNOWN {
                object.payload_bytes = payload_bytes;
            }
            return number;
        }
        let number = objects.len() as u32;
        objects.push(Object { payload_bytes, key_bytes: request.key_bytes.min(250) as u8 });
        hashes.push(hash);
        self.numbers.insert_unique(hash, number, |number| hashes[*number as usize]);
        number
    }

    /// Halves the sample as long as it is too large.
    fn keep_within_bounds(&mut self) {
        let compact = &self.compact;
        let bytes = compact.events.len() * size_of::<Event>()
            + compact.objects.len() * OBJECT_BYTES
            + compact.expiries_s.len() * 4;
        // Requests have numbers of 32 bits.
        let is_within = bytes <= self.bounds.bytes_max && compact.events.len() < u32::MAX as usize;
        if is_within || compact.hash_max == 0 {
            return;
        }
        self.compact.thin(0.5);
        let hashes = &self.compact.hashes;
        self.numbers.clear();
        for (number, hash) in hashes.iter().enumerate() {
            self.numbers.insert_unique(*hash, number as u32, |number| hashes[*number as usize]);
        }
    }
}
