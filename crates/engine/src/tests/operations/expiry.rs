//! Items with short lives do not wait behind long-lived ones: expired items hold little of the
//! memory.

use crate::log::LogKind;
use crate::partition::Partition;
use crate::region::LogField;
use crate::tests::support::*;
use crate::*;

const LIFE_S: u32 = 60;

impl Partition {
    /// Returns the units in the logs of expired items, removed from the index or not.
    fn units_expired(&self, now_s: u32) -> u64 {
        let mut units = 0;
        for which in [LogKind::Small, LogKind::Main] {
            let log = self.log(which);
            let mut offset = log.get(LogField::Head);
            while offset < log.get(LogField::Tail) {
                let position = log.position(offset);
                let header = self.header(position);
                let expiry_s = self.word(position + 1).load(std::sync::atomic::Ordering::Relaxed);
                let expired = header.has_meta() && Expiry(expiry_s as u32).has_passed(now_s);
                // An item that was replaced before it expired does not count.
                if expired && (!header.is_dead() || header.left_early()) {
                    units += header.units();
                }
                offset += header.units();
            }
        }
        units
    }
}

/// Runs requests with demand fill: each key has its life, every other key a short one. Returns the
/// largest share of the memory that expired items held in the second half, in percent, and the hit
/// ratio.
fn expired_percent(eviction: Eviction, requests_per_s: u32, keys: u64, skew: bool) -> (u64, u64) {
    let geometry = Setup { buckets: 256, data_units: 64 << 10, grows: true, eviction, ..Setup::default() };
    let cache = geometry.cache();
    let mut client = Client::new(&cache, 0);
    let (mut random, mut worst, mut hits, mut asked) = (Random(1), 0, 0, 0);
    let seconds = 1000;
    for second in 0..seconds {
        client.now_s = 1000 + second;
        for request in 0..requests_per_s {
            let uniform = random.fraction();
            let of_keys = if skew { uniform.powi(4) } else { uniform };
            let key = (of_keys * keys as f64) as u64;
            let name = key.to_le_bytes();
            asked += 1;
            if client.get(&name).is_some() {
                hits += 1;
            } else {
                let life_s = if key.is_multiple_of(2) { client.now_s + LIFE_S } else { 0 };
                let value = [7; 40];
                client.outcome(&name, store(Condition::Always, &value, 0, life_s));
            }
            if request % (requests_per_s / 20) == 0 {
                let now_s = client.now_s;
                client.worker.maintain(now_s);
            }
        }
        if second > seconds / 2 && second % 24 == 0 {
            let expired = cache.partitions[0].units_expired(client.now_s);
            worst = worst.max(expired * 100 / geometry.data_units);
        }
    }
    (worst, hits * 100 / asked)
}

#[test]
fn expired_items_hold_little_of_the_memory() {
    for (eviction, requests_per_s, keys, skew) in [
        (Eviction::S3Fifo, 20, u64::MAX >> 11, false), // every key once: a lap takes seven minutes
        (Eviction::Clock, 100, u64::MAX >> 11, false), // a lap takes little longer than the short lives
        (Eviction::Clock, 60, 16_000, true),           // keys that come back, twice as many as fit
        (Eviction::S3Fifo, 200, 30_000, true),
    ] {
        let (worst, hits) = expired_percent(eviction, requests_per_s, keys, skew);
        println!("{eviction:?} {requests_per_s}/s of {keys} keys: {worst} % expired, {hits} % hits");
        assert!(worst <= 10, "{eviction:?}, {requests_per_s}/s, {keys} keys: {worst} %");
    }
}
