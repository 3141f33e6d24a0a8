//! Reads and writes, in the order of one thread.

use crate::{Popularity, Random, Sampler};

/// Shares of the operations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// Fraction of the operations that read, 0 to 1.
    pub gets: f64,
    /// Operations that one reading request carries; a writing one carries one.
    pub gets_per_request: usize,
}

impl Mix {
    /// Operations per request, on average.
    pub fn operations_per_request(&self) -> f64 {
        let reading = self.reading_requests();
        reading * self.gets_per_request as f64 + (1.0 - reading)
    }

    /// The fraction of the *requests* that read, so that of the *operations* [`Self::gets`] do.
    pub fn reading_requests(&self) -> f64 {
        let reading = self.gets / self.gets_per_request as f64;
        let sum = reading + (1.0 - self.gets);
        if sum > 0.0 { reading / sum } else { 0.0 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Reads the first so many items of the place that was given.
    Read(usize),
    /// Stores a value of this version.
    Write(u64, u32),
    Delete(u64),
}

/// The requests of one thread: always the same for the same seed and thread.
#[derive(Clone, Debug)]
pub struct Requests {
    random: Random,
    sampler: Sampler,
    drawn: Option<Drawn>,
    reading_requests: f64,
    reads_before_writing: bool,
    /// Item and version that were read, and are written next.
    read: Option<(u64, u32)>,
    latest: Option<Latest>,
    /// Version of the next value; every thread begins elsewhere.
    version: u32,
}

impl Requests {
    /// The requests of thread `thread` of `threads`, over the items `0..items`.
    ///
    /// # Panics
    /// When there are no items, or more than [`crate::ITEMS_MAX`].
    pub fn new(
        popularity: Popularity,
        items: u64,
        mix: Mix,
        seed: u64,
        (thread, threads): (usize, usize),
    ) -> Self {
        Self {
            random: Random::of_stream(seed, thread as u64),
            sampler: Sampler::new(popularity, items),
            drawn: None,
            reading_requests: mix.reading_requests(),
            reads_before_writing: false,
            read: None,
            latest: (popularity == Popularity::Latest).then(|| Latest {
                items,
                first: items + thread as u64,
                step: threads as u64,
                inserted: 0,
                unsettled: 0,
            }),
            version: (thread as u32) << 24,
        }
    }

    /// Sets the most requests of this thread in flight: as many of its newest items may not be stored yet,
    /// and are not read.
    #[must_use]
    pub const fn in_flight(mut self, requests: u64) -> Self {
        if let Some(latest) = &mut self.latest {
            latest.unsettled = requests;
        }
        self
    }

    /// Adds a read of the same item before each write.
    #[must_use]
    pub const fn reading_before_writing(mut self, reads: bool) -> Self {
        self.reads_before_writing = reads;
        self
    }

    /// Draws so many items now, and takes them in turns: a law costs nothing then when a request is made.
    /// Items by age are drawn as before, because the newest ones are not known yet.
    #[must_use]
    pub fn drawing_ahead(mut self, items: usize) -> Self {
        if items > 0 && self.latest.is_none() {
            let draw = |_| self.sampler.item(&mut self.random) as u32;
            self.drawn = Some(Drawn { items: (0..items).map(draw).collect(), next: 0 });
        }
        self
    }

    /// The next request; the items that it reads go to `items`, of which a write that is read first takes
    /// one.
    #[inline]
    pub fn next(&mut self, items: &mut [u64]) -> Next {
        if let Some((item, version)) = self.read.take() {
            return Next::Write(item, version);
        }
        if self.reads() {
            for item in &mut *items {
                *item = self.item_to_read();
            }
            return Next::Read(items.len());
        }
        let (item, version) = self.item_to_write();
        if self.reads_before_writing {
            self.read = Some((item, version));
            items[0] = item;
            return Next::Read(1);
        }
        Next::Write(item, version)
    }

    /// Returns whether the next request reads.
    #[inline]
    fn reads(&mut self) -> bool {
        self.random.chance(self.reading_requests)
    }

    #[inline]
    fn item(&mut self) -> u64 {
        match &mut self.drawn {
            None => self.sampler.item(&mut self.random),
            Some(drawn) => drawn.take(),
        }
    }

    #[inline]
    fn item_to_read(&mut self) -> u64 {
        match &self.latest {
            None => self.item(),
            Some(latest) => latest.item(self.sampler.place(&mut self.random)),
        }
    }

    /// The item to be written next, and the version of its value.
    #[inline]
    fn item_to_write(&mut self) -> (u64, u32) {
        let item = match &mut self.latest {
            None => self.item(),
            Some(latest) => latest.insert(),
        };
        (item, self.next_version())
    }

    /// The version of a value that is written for a reason of the caller's.
    #[inline]
    pub const fn next_version(&mut self) -> u32 {
        self.version = self.version.wrapping_add(1);
        self.version
    }
}

/// Items that were drawn in advance.
#[derive(Clone, Debug)]
struct Drawn {
    /// Numbers below [`crate::ITEMS_MAX`].
    items: Box<[u32]>,
    next: usize,
}

impl Drawn {
    #[inline]
    fn take(&mut self) -> u64 {
        let item = self.items[self.next];
        self.next += 1;
        if self.next == self.items.len() {
            self.next = 0;
        }
        u64::from(item)
    }
}

/// Items by age. Every thread makes items of its own and reads those and the ones that were
/// there before.
#[derive(Clone, Debug)]
struct Latest {
    items: u64,
    first: u64,
    step: u64,
    inserted: u64,
    /// Newest items that may not be there yet.
    unsettled: u64,
}

impl Latest {
    fn insert(&mut self) -> u64 {
        self.inserted += 1;
        self.first + (self.inserted - 1) * self.step
    }

    /// The item of this age, 0 being the newest that is there.
    fn item(&self, age: u64) -> u64 {
        let settled = self.inserted.saturating_sub(self.unsettled);
        if age < settled {
            self.first + (settled - 1 - age) * self.step
        } else {
            // Ages are below the number of items.
            self.items - 1 - (age - settled)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(popularity: Popularity, mix: Mix, seed: u64, thread: usize) -> Requests {
        Requests::new(popularity, 1000, mix, seed, (thread, 4))
    }

    fn mix(gets: f64, gets_per_request: usize) -> Mix {
        Mix { gets, gets_per_request }
    }

    fn first(mut requests: Requests) -> Vec<(bool, u64)> {
        (0..1000)
            .map(|_| match requests.reads() {
                true => (true, requests.item_to_read()),
                false => (false, requests.item_to_write().0),
            })
            .collect()
    }

    #[test]
    fn the_same_seed_and_thread_give_the_same_requests() {
        for popularity in [Popularity::Zipf(0.99), Popularity::Latest] {
            let of = |seed, thread| first(requests(popularity, mix(0.5, 1), seed, thread));
            assert_eq!(of(1, 0), of(1, 0));
            assert_ne!(of(1, 0), of(2, 0));
            assert_ne!(of(1, 0), of(1, 1));
        }
    }

    /// Items that are drawn ahead are those of the law, in turns.
    #[test]
    fn items_drawn_ahead_come_in_turns() {
        let popularity = Popularity::Zipf(0.99);
        let mut drawing = requests(popularity, mix(1.0, 1), 3, 0);
        let expected: Vec<u64> = (0..5000).map(|_| drawing.item_to_read()).collect();
        let mut ahead = requests(popularity, mix(1.0, 1), 3, 0).drawing_ahead(5000);
        for _ in 0..2 {
            let taken: Vec<u64> = (0..5000).map(|_| ahead.item_to_read()).collect();
            assert_eq!(taken, expected);
        }
        let latest = first(requests(Popularity::Latest, mix(0.5, 1), 3, 0).drawing_ahead(10));
        assert_eq!(latest, first(requests(Popularity::Latest, mix(0.5, 1), 3, 0)));
    }

    #[test]
    fn the_mix_is_one_of_operations() {
        for (gets, per_request) in [(0.95, 1), (0.95, 16), (0.5, 4), (0.0, 4), (1.0, 100)] {
            let mix = mix(gets, per_request);
            let mut requests = requests(Popularity::Uniform, mix, 3, 0);
            let (mut reads, mut writes) = (0, 0);
            for _ in 0..1_000_000 {
                match requests.reads() {
                    true => reads += per_request,
                    false => writes += 1,
                }
            }
            let share = reads as f64 / (reads + writes) as f64;
            assert!((share - gets).abs() < 0.005, "{gets} {per_request}: {share}");
            let per_request = (reads + writes) as f64 / 1e6;
            let relative = per_request / mix.operations_per_request() - 1.0;
            assert!(relative.abs() < 0.02, "{relative}");
        }
    }

    #[test]
    fn latest_reads_what_exists_and_mostly_the_newest() {
        let mut requests = requests(Popularity::Latest, mix(0.5, 1), 3, 1);
        let mut written = Vec::new();
        let mut newest = 0;
        for _ in 0..2000 {
            written.push(requests.item_to_write().0);
            let read = requests.item_to_read();
            assert!(read < 1000 || written.contains(&read), "{read}");
            newest += u32::from(read == *written.last().unwrap());
        }
        assert_eq!(&written[..3], [1001, 1005, 1009], "thread 1 of 4");
        // Rank 1 of 1,000 has 12.9 % of the mass.
        assert!((180..340).contains(&newest), "{newest}");
    }

    /// Found by YCSB's workload D over pipelines: 3 % of its reads came before what they asked for.
    #[test]
    fn items_in_flight_are_not_read() {
        let mut requests = requests(Popularity::Latest, mix(0.5, 1), 3, 1).in_flight(8);
        let mut written = Vec::new();
        for _ in 0..2000 {
            written.push(requests.item_to_write().0);
            let read = requests.item_to_read();
            let settled = &written[..written.len().saturating_sub(8)];
            assert!(read < 1000 || settled.contains(&read), "{read}");
        }
    }

    /// YCSB's workload F: half of the operations read, the others read an item and then write it.
    #[test]
    fn an_item_is_read_before_it_is_written() {
        let mut requests = requests(Popularity::Uniform, mix(0.5, 1), 3, 0).reading_before_writing(true);
        let (mut items, mut reads, mut writes, mut last) = ([0], 0, 0, None);
        for _ in 0..100_000 {
            match requests.next(&mut items) {
                Next::Read(1) => {
                    reads += 1;
                    last = Some(items[0]);
                }
                Next::Write(item, _) => {
                    writes += 1;
                    assert_eq!(last.take(), Some(item));
                }
                other => unreachable!("{other:?}"),
            }
        }
        let share = f64::from(writes) / f64::from(reads);
        assert!((share - 0.5).abs() < 0.01, "{share}");
    }

    #[test]
    fn versions_of_threads_begin_apart() {
        let version = |thread| requests(Popularity::Uniform, mix(0.0, 1), 1, thread).item_to_write().1;
        assert_ne!(version(0), version(1));
    }
}
