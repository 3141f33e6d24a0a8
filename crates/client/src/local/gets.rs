//! Gets of a link: into buffers of the caller, from the memory where it answers.

use micanite_engine::{BATCH_REQUESTS_MAX, KEY_BYTES_MAX};

use super::link::LocalLink;
use super::reading::Look;
use crate::error::Error;
use crate::operation::{Operation, Outcome};

/// Times that a get attaches anew before it gives up.
const ATTEMPTS_MAX: u32 = 2;

impl LocalLink {
    /// Gets the value of a key into a buffer, whose contents it replaces. Returns the item's flags; `None` if
    /// there is no such item. Waits for this link's own writes of the key; a write whose stream was lost has
    /// no known outcome and is not waited for, even before [`Self::poll`] has told of it.
    ///
    /// # Errors
    /// Any [`Error`].
    #[inline]
    pub fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<Option<u32>, Error> {
        match self.look(key, value) {
            Look::Found { flags } => Ok(Some(flags)),
            Look::Missing => Ok(None),
            Look::Ask | Look::Gone => self.within_deadline(|link| link.ask(key, value)),
        }
    }

    /// Gets the value of a key like [`Self::get`], if the server's memory answers. `None`: the server has to
    /// be asked, which [`Self::get`] does.
    #[inline]
    pub fn get_in_memory(&mut self, key: &[u8], value: &mut Vec<u8>) -> Option<Option<u32>> {
        match self.look(key, value) {
            Look::Found { flags } => Some(Some(flags)),
            Look::Missing => Some(None),
            Look::Ask | Look::Gone => None,
        }
    }

    /// Gets the values of many keys, whose memory is prefetched in batches. `take` gets the number of each
    /// key and, if there is an item, its value and flags: those that the memory answers first.
    ///
    /// # Errors
    /// The first error of any get; `take` has had some results then.
    pub fn get_many(
        &mut self,
        keys: &[&[u8]],
        mut take: impl FnMut(usize, Option<(&[u8], u32)>),
    ) -> Result<(), Error> {
        let mut value = std::mem::take(&mut self.value);
        let mut parts = keys.chunks(BATCH_REQUESTS_MAX).zip((0..).step_by(BATCH_REQUESTS_MAX));
        let result = parts.try_for_each(|(part, first)| {
            let ask = self.get_part(part, &mut value, |index, found| take(first + index, found));
            for index in numbers(ask) {
                let flags = self.get(part[index], &mut value)?;
                take(first + index, flags.map(|flags| (&value[..], flags)));
            }
            Ok(())
        });
        self.keep_buffer(value);
        result
    }

    /// Gets the values of many keys as [`Self::get_many`] does. Each key has its own result. If the server
    /// does not answer for a key, it is not asked for the others, whose error is the same.
    pub fn get_each(
        &mut self,
        keys: &[&[u8]],
        mut take: impl FnMut(usize, Result<Option<(&[u8], u32)>, Error>),
    ) {
        let mut value = std::mem::take(&mut self.value);
        let mut lost: Option<Error> = None;
        for (part, first) in keys.chunks(BATCH_REQUESTS_MAX).zip((0..).step_by(BATCH_REQUESTS_MAX)) {
            let ask = self.get_part(part, &mut value, |index, found| take(first + index, Ok(found)));
            for index in numbers(ask) {
                let got = match &lost {
                    Some(error) if has_key_length(part[index]) => Err(error.clone()),
                    _ => self.get(part[index], &mut value),
                };
                if let Err(error) = &got
                    && !error.is_of_one_request()
                {
                    lost = Some(error.clone());
                }
                take(first + index, got.map(|flags| flags.map(|flags| (&value[..], flags))));
            }
        }
        self.keep_buffer(value);
    }

    /// Looks up to [`BATCH_REQUESTS_MAX`] keys up in the memory. Returns the others, one bit for each.
    fn get_part(
        &mut self,
        keys: &[&[u8]],
        value: &mut Vec<u8>,
        mut take: impl FnMut(usize, Option<(&[u8], u32)>),
    ) -> u64 {
        // Chunks are not empty.
        let mut ask = u64::MAX >> (64 - keys.len());
        if let Some(reading) = &mut self.reading {
            let mut hashed = [(0, &[][..]); BATCH_REQUESTS_MAX];
            for (place, key) in hashed.iter_mut().zip(keys) {
                *place = (reading.hash(key), *key);
            }
            let (writes, counters) = (&self.writes, &mut self.counters);
            // In the child of a fork another process owns what is written there.
            if reading.is_valid() {
                ask = 0;
                reading.get_batch(&hashed[..keys.len()], value, |index, look, bytes| match look {
                    _ if !has_key_length(keys[index]) || writes.may_hold(hashed[index].0) => {
                        ask |= 1 << index
                    }
                    Look::Found { flags } => {
                        counters.hits += 1;
                        take(index, Some((bytes, flags)));
                    }
                    Look::Missing => {
                        counters.misses += 1;
                        take(index, None);
                    }
                    Look::Ask | Look::Gone => ask |= 1 << index,
                });
            }
        }
        ask
    }

    /// Looks into the memory.
    #[inline]
    pub(super) fn look(&mut self, key: &[u8], value: &mut Vec<u8>) -> Look {
        let Some(reading) = &mut self.reading else {
            return Look::Ask;
        };
        let hash = reading.hash(key);
        if !has_key_length(key) || self.writes.may_hold(hash) {
            return Look::Ask;
        }
        let look = reading.get(hash, key, value);
        match look {
            Look::Found { .. } => self.counters.hits += 1,
            Look::Missing => self.counters.misses += 1,
            Look::Ask | Look::Gone => {}
        }
        look
    }

    /// Asks the server for a key, after a new attachment if there is none.
    #[cold]
    fn ask(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<Option<u32>, Error> {
        for _ in 0..ATTEMPTS_MAX {
            if self.ensure_attached()? {
                match self.look(key, value) {
                    Look::Found { flags } => return Ok(Some(flags)),
                    Look::Missing => return Ok(None),
                    Look::Ask => {}
                    Look::Gone => continue,
                }
            }
            match self.call(&Operation::get(key)) {
                Ok(answer) if answer.outcome == Outcome::Ok => {
                    *value = answer.value.bytes;
                    return Ok(Some(answer.value.flags));
                }
                Ok(_) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Err(self.unreachable())
    }
}

/// Returns the numbers of the bits that are set.
fn numbers(bits: u64) -> impl Iterator<Item = usize> {
    (0..64).filter(move |number| bits >> number & 1 == 1)
}

/// Returns whether a key has a length that keys have.
#[inline]
pub(crate) fn has_key_length(key: &[u8]) -> bool {
    (1..=KEY_BYTES_MAX).contains(&key.len())
}
