//! Space-Saving (Metwally, Agrawal, El Abbadi, 2005) over samples that fade.
//!
//! A sketch has room for [`ENTRIES`] keys. A sample of a key that is not there takes the place of
//! the lightest, and inherits its weight as a possible error; so a key of more than
//! `1 / ENTRIES` of the weight is always there. Samples of now weigh more than those of before:
//! instead of fading every entry, the weight of new ones grows (forward decay), and all are scaled
//! down before numbers become too large.

use micanite_wire::memcache::text::KEY_BYTES_MAX;

/// Keys that are followed.
const ENTRIES: usize = 512;
/// After so many seconds a sample counts half.
pub const HALF_LIFE_S: u32 = 20;
/// The most keys that are told.
pub const KEYS_MAX: usize = 64;
/// A worker that takes this many samples within a second takes half as many from then on.
const SAMPLES_PER_SECOND_MAX: u32 = 512;
/// One that takes fewer than this takes twice as many.
const SAMPLES_PER_SECOND_MIN: u32 = 128;
/// The most requests for one sample.
const INTERVAL_MAX: u32 = 1 << 20;
/// Samples that are older than this are forgotten.
const MEMORY_S: u32 = 16 * HALF_LIFE_S;
/// Limit at which numbers are scaled down, far from what a float can hold exactly.
const SCALE_MAX: f64 = (1u64 << 40) as f64;

#[derive(Clone, Copy, Debug)]
struct Key {
    bytes: [u8; KEY_BYTES_MAX],
    length: u8,
}

/// The weight of everything that was sampled, as of now.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faded {
    /// Requests.
    pub weight: f64,
    /// Samples.
    pub samples: f64,
}

/// The sketch of one worker, which alone adds to it.
#[derive(Debug)]
pub(super) struct Sketch {
    hashes: Box<[u64]>,
    weights: Box<[f64]>,
    /// Parts of the weights that may belong to keys that were there before.
    errors: Box<[f64]>,
    keys: Box<[Key]>,
    used: usize,
    total: Faded,
    /// Count of a sample of weight 1, now.
    scale: f64,
    now_s: u32,
    /// Samples in this second.
    recent: u32,
    /// Requests for one sample, on average.
    interval: u32,
    random: u64,
}

impl Sketch {
    /// Bytes that it points to.
    pub const BYTES: usize = ENTRIES * (size_of::<Key>() + 3 * size_of::<u64>());

    pub fn new(seed: u64) -> Self {
        let nothing = Key { bytes: [0; KEY_BYTES_MAX], length: 0 };
        Self {
            hashes: vec![0; ENTRIES].into(),
            weights: vec![0.0; ENTRIES].into(),
            errors: vec![0.0; ENTRIES].into(),
            keys: vec![nothing; ENTRIES].into(),
            used: 0,
            total: Faded::default(),
            scale: 1.0,
            now_s: 0,
            recent: 0,
            interval: 1,
            random: seed | 1,
        }
    }

    /// Takes a sample. Returns after how many requests the next one is due.
    pub fn sample(&mut self, hash: u64, key: &[u8], now_s: u32) -> u32 {
        if now_s > self.now_s {
            self.second_passed(now_s);
        }
        let weight = self.scale * f64::from(self.interval);
        self.total.weight += weight;
        self.total.samples += self.scale;
        self.add(hash, key, weight);
        self.recent += 1;
        if self.recent >= SAMPLES_PER_SECOND_MAX {
            self.recent = 0;
            self.interval = (self.interval * 2).min(INTERVAL_MAX);
        }
        self.pause()
    }

    /// Requests until the next sample: on average the interval, but never in step with
    /// whatever repeats itself in the load.
    fn pause(&mut self) -> u32 {
        // xorshift64
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        1 + (self.random >> 32) as u32 % (2 * self.interval - 1)
    }

    /// Adjusts to the time, and the interval to what the past second has brought.
    #[cold]
    fn second_passed(&mut self, now_s: u32) {
        let passed_s = now_s - self.now_s;
        self.now_s = now_s;
        if passed_s > MEMORY_S {
            self.used = 0;
            self.total = Faded::default();
            self.scale = 1.0;
        }
        let fewer = match std::mem::take(&mut self.recent) {
            // A whole second without a sample.
            _ if passed_s > 1 => 8,
            few if few < SAMPLES_PER_SECOND_MIN => 2,
            _ => 1,
        };
        self.interval = (self.interval / fewer).max(1);
        self.scale /= fading(passed_s.min(MEMORY_S));
        if self.scale > SCALE_MAX {
            let numbers = self.weights.iter_mut().chain(&mut self.errors);
            let totals = [&mut self.total.weight, &mut self.total.samples];
            numbers.chain(totals).for_each(|number| *number /= self.scale);
            self.scale = 1.0;
        }
    }

    fn add(&mut self, hash: u64, key: &[u8], weight: f64) {
        // A linear look at 4 KiB: there are few samples, and a map would not be smaller.
        if let Some(place) = self.hashes[..self.used].iter().position(|at| *at == hash) {
            self.weights[place] += weight;
            return;
        }
        let place = if self.used < ENTRIES {
            self.used += 1;
            self.weights[self.used - 1] = 0.0;
            self.used - 1
        } else {
            self.lightest()
        };
        self.errors[place] = self.weights[place];
        self.weights[place] += weight;
        self.hashes[place] = hash;
        let length = key.len().min(KEY_BYTES_MAX);
        self.keys[place].bytes[..length].copy_from_slice(&key[..length]);
        self.keys[place].length = length as u8;
    }

    fn lightest(&self) -> usize {
        let weights = self.weights.iter().enumerate();
        let least = weights.min_by(|a, b| a.1.total_cmp(b.1));
        least.map_or(0, |(place, _)| place)
    }

    /// Visits the keys with the number of requests that are surely theirs, as of `now_s`.
    pub fn read(&self, now_s: u32, mut visit: impl FnMut(&[u8], f64)) -> Faded {
        let passed_s = now_s.saturating_sub(self.now_s);
        if passed_s > MEMORY_S {
            return Faded::default();
        }
        let now = fading(passed_s) / self.scale;
        for place in 0..self.used {
            let key = &self.keys[place];
            let weight = self.weights[place] - self.errors[place];
            visit(&key.bytes[..usize::from(key.length)], weight * now);
        }
        Faded { weight: self.total.weight * now, samples: self.total.samples * now }
    }
}

/// Returns the part of a weight that is left after a time.
fn fading(passed_s: u32) -> f64 {
    (-f64::from(passed_s) / f64::from(HALF_LIFE_S)).exp2()
}
