//! The mapped memory of a link, for threads: gets there wait for no request.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use micanite_engine::BATCH_REQUESTS_MAX;

use super::gets::has_key_length;
use super::link::LocalLink;
use super::reading::{Look, Reading};
use super::writes::Writes;

/// The memory that a link has handed over. The lock is held while keys are looked up, and never longer.
#[derive(Debug, Default)]
pub(crate) struct SharedReading {
    /// `None` after the server's end, until the link has attached anew.
    reading: Mutex<Option<Reading>>,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl SharedReading {
    fn lock(&self) -> MutexGuard<'_, Option<Reading>> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the memory over, if the link has attached during a call. If the link found no place for another
    /// client, the memory may have the place that is missing: it is let go for another attempt.
    pub(crate) fn follow(&self, link: &mut LocalLink) {
        if link.lacks_place() && self.replace(None) {
            link.attach_without_memory();
        }
        let taken = link.take_reading();
        if taken.is_some() {
            self.replace(taken);
        }
    }

    /// Replaces the memory; returns whether there was one. It is unmapped when no thread has to wait for it.
    fn replace(&self, by: Option<Reading>) -> bool {
        let before = std::mem::replace(&mut *self.lock(), by);
        before.is_some()
    }

    /// Lets the memory go.
    pub(crate) fn clear(&self) {
        self.replace(None);
    }

    /// Lets the memory go, unless somebody looks a key up.
    pub(crate) fn let_go(&self) {
        let taken = self.reading.try_lock().map(|mut reading| reading.take());
        drop(taken);
    }

    /// Returns the hash of a key, by which writes on their way are known; `None` without memory, where no get
    /// looks for one.
    #[cfg(feature = "async")]
    pub(crate) fn hash(&self, key: &[u8]) -> Option<u64> {
        self.lock().as_ref().map(|reading| reading.hash(key))
    }

    /// Looks a key up, whose value replaces the contents of the buffer. Returns the item's flags; `None`: the
    /// server has to be asked.
    #[inline]
    pub(crate) fn look(
        &self,
        key: &[u8],
        writes: Option<&Writes>,
        value: &mut Vec<u8>,
    ) -> Option<Option<u32>> {
        let mut guard = self.lock();
        let reading = guard.as_mut()?;
        let hash = reading.hash(key);
        if !has_key_length(key) || writes.is_some_and(|writes| writes.may_hold(hash)) {
            return None;
        }
        match reading.get(hash, key, value) {
            Look::Found { flags } => {
                self.hits.fetch_add(1, Ordering::Relaxed);
                Some(Some(flags))
            }
            Look::Missing => {
                self.misses.fetch_add(1, Ordering::Relaxed);
                Some(None)
            }
            Look::Ask => None,
            Look::Gone => {
                let gone = guard.take();
                drop(guard);
                drop(gone);
                None
            }
        }
    }

    /// Looks many keys up. `take` gets the number of each that the memory answers and, if there is an item,
    /// its value and flags. Returns the numbers of the others.
    pub(crate) fn look_many(
        &self,
        keys: &[&[u8]],
        mut take: impl FnMut(usize, Option<(&[u8], u32)>),
    ) -> Vec<usize> {
        let (mut asked, mut value) = (Vec::new(), Vec::new());
        for (part, first) in keys.chunks(BATCH_REQUESTS_MAX).zip((0..).step_by(BATCH_REQUESTS_MAX)) {
            let mut guard = self.lock();
            let Some(reading) = guard.as_mut().filter(|reading| reading.is_valid()) else {
                asked.extend(first..first + part.len());
                continue;
            };
            let hashed: Vec<_> = part.iter().map(|key| (reading.hash(key), *key)).collect();
            let (mut hits, mut misses) = (0, 0);
            reading.get_batch(&hashed, &mut value, |index, look, bytes| match look {
                Look::Found { flags } if has_key_length(part[index]) => {
                    hits += 1;
                    take(first + index, Some((bytes, flags)));
                }
                Look::Missing if has_key_length(part[index]) => {
                    misses += 1;
                    take(first + index, None);
                }
                _ => asked.push(first + index),
            });
            self.hits.fetch_add(hits, Ordering::Relaxed);
            self.misses.fetch_add(misses, Ordering::Relaxed);
        }
        asked
    }

    /// Returns the numbers of hits and of misses.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed))
    }
}

impl Drop for SharedReading {
    fn drop(&mut self) {
        leak_if_locked(&mut self.reading);
    }
}

/// Leaks what a thread has locked that did not follow its process into the child of a fork: it is in no known
/// state.
pub(crate) fn leak_if_locked<T: Default>(mutex: &mut Mutex<T>) {
    if matches!(mutex.try_lock(), Err(TryLockError::WouldBlock)) {
        std::mem::forget(std::mem::take(mutex));
    }
}
