//! Keys, and which numbers of writes a read may find.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use micanite_workload::{Keys as Names, Values};

const KEY_BYTES: usize = 24;

/// Numbers of one key's writes.
#[derive(Debug, Default)]
struct Key {
    /// The last write that has begun.
    begun: AtomicU32,
    /// The last acknowledged write.
    acknowledged: AtomicU32,
    /// The last write that a flush has ended.
    flushed: AtomicU32,
    /// Writes without an answer, which may take effect at any later time.
    unknown: Mutex<Vec<u32>>,
}

/// All keys, with their values.
pub(super) struct Keys {
    names: Names,
    keys: Vec<Key>,
}

impl Keys {
    pub fn new(keys: u32) -> Self {
        Self { names: Names::new(KEY_BYTES), keys: (0..keys).map(|_| Key::default()).collect() }
    }

    pub const fn len(&self) -> u32 {
        self.keys.len() as u32
    }

    pub fn name(&self, key: u32) -> Vec<u8> {
        let mut name = Vec::new();
        self.names.push(u64::from(key), &mut name);
        name
    }

    /// Values of a key: of lengths on both sides of a page and of the limit of checksums.
    fn values(key: u32) -> Values {
        Values::new(match key % 16 {
            0 => 40_000,
            1 => 4_096,
            other => 16 + other as usize * 60,
        })
    }

    /// Begins a write; returns its number.
    pub fn begin(&self, key: u32) -> u32 {
        self.keys[key as usize].begun.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub fn value(key: u32, number: u32) -> Vec<u8> {
        let mut value = Vec::new();
        Self::values(key).push(u64::from(key), number, &mut value);
        value
    }

    /// A write was acknowledged: nothing older may be found by what begins now.
    pub fn acknowledge(&self, key: u32, number: u32) {
        self.keys[key as usize].acknowledged.fetch_max(number, Ordering::SeqCst);
    }

    /// Nobody knows whether a write has happened, or will.
    pub fn leave_unknown(&self, key: u32, number: u32) {
        if let Ok(mut unknown) = self.keys[key as usize].unknown.lock() {
            unknown.push(number);
        }
    }

    /// The oldest number that a read which begins now may find.
    pub fn oldest(&self, key: u32) -> u32 {
        let key = &self.keys[key as usize];
        let flushed = match key.flushed.load(Ordering::SeqCst) {
            0 => 0,
            flushed => flushed + 1,
        };
        flushed.max(key.acknowledged.load(Ordering::SeqCst))
    }

    /// The last acknowledged writes of all keys, before a flush. Those that are under way may follow it.
    pub fn acknowledged(&self) -> Vec<u32> {
        self.keys.iter().map(|key| key.acknowledged.load(Ordering::SeqCst)).collect()
    }

    /// A flush has ended what was acknowledged before it.
    pub fn flushed(&self, acknowledged: &[u32]) {
        for (key, number) in self.keys.iter().zip(acknowledged) {
            key.flushed.fetch_max(*number, Ordering::SeqCst);
        }
    }

    /// Judges a value that a read has found; the number of its write.
    ///
    /// # Errors
    /// A sentence on what is wrong.
    pub fn judge(&self, key: u32, value: &[u8], oldest: u32) -> Result<u32, String> {
        if !Self::values(key).verify(u64::from(key), value) {
            return Err(format!("key {key}: {} bytes that nobody wrote", value.len()));
        }
        let number = value.first_chunk().map_or(0, |first| u32::from_le_bytes(*first));
        let begun = self.keys[key as usize].begun.load(Ordering::SeqCst);
        let is_unknown = || {
            let unknown = self.keys[key as usize].unknown.lock();
            unknown.is_ok_and(|unknown| unknown.contains(&number))
        };
        if number > begun {
            return Err(format!("key {key}: write {number}, of which only {begun} have begun"));
        }
        if number < oldest && !is_unknown() {
            return Err(format!("key {key}: write {number}, although {oldest} was acknowledged before"));
        }
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that are mixed, foreign, old, or not written yet are wrong; an unanswered write is not.
    #[test]
    fn wrong_values_are_found() {
        let keys = Keys::new(32);
        let first = keys.begin(5);
        keys.acknowledge(5, first);
        let second = keys.begin(5);
        let (old, new) = (Keys::value(5, first), Keys::value(5, second));
        assert_eq!(keys.judge(5, &new, first), Ok(second));
        assert_eq!(keys.judge(5, &old, first), Ok(first));
        keys.acknowledge(5, second);
        assert!(keys.judge(5, &old, keys.oldest(5)).unwrap_err().contains("acknowledged before"));
        let mixed = [&old[..32], &new[32..]].concat();
        assert!(keys.judge(5, &mixed, 0).unwrap_err().contains("nobody wrote"));
        assert!(keys.judge(6, &new, 0).is_err());
        assert!(keys.judge(5, &Keys::value(5, 9), 0).unwrap_err().contains("have begun"));
        keys.leave_unknown(5, first);
        assert_eq!(keys.judge(5, &old, keys.oldest(5)), Ok(first));
    }

    /// After a flush only later writes may be found.
    #[test]
    fn a_flush_ends_what_was_acknowledged() {
        let keys = Keys::new(32);
        let number = keys.begin(7);
        keys.acknowledge(7, number);
        let before = keys.acknowledged();
        let later = keys.begin(7);
        keys.flushed(&before);
        assert!(keys.judge(7, &Keys::value(7, number), keys.oldest(7)).is_err());
        assert_eq!(keys.judge(7, &Keys::value(7, later), keys.oldest(7)), Ok(later));
        assert_eq!(keys.oldest(8), 0);
        // A second flush ends no write that is under way, and none that has not begun.
        keys.flushed(&keys.acknowledged());
        assert_eq!(keys.judge(7, &Keys::value(7, later), keys.oldest(7)), Ok(later));
        keys.acknowledge(7, later);
        keys.flushed(&keys.acknowledged());
        assert_eq!(keys.begin(7), keys.oldest(7));
    }
}
