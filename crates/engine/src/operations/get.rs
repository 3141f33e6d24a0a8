//! get, gets by the writer of the partition: nothing changes meanwhile, so
//! nothing is validated.

use crate::request::{Outcome, ReplySink, Request, ValueMeta};
use crate::writer::{Found, Writer};

/// A value of this length or more is copied by `memcpy`, a shorter one word by word.
#[cfg(not(any(loom, miri)))]
const LONG_VALUE_BYTES: usize = 256;

impl Writer<'_> {
    /// Returns whether the sink had room for the value; if not, nothing has happened.
    #[inline]
    pub fn get<S: ReplySink>(
        &self,
        (index, request): (usize, &Request<'_>),
        cas: bool,
        sink: &mut S,
    ) -> bool {
        let Some(found) = self.find(request.hash, request.key) else {
            sink.finish(index, Outcome::NotFound);
            return true;
        };
        let value_bytes = found.value_bytes();
        let cas = if cas {
            self.give_cas(request.hash, &found)
        } else {
            0
        };
        let meta = ValueMeta {
            flags: found.flags,
            cas,
            value_bytes,
        };
        let Some(target) = sink.reserve(index, meta) else {
            return false;
        };
        self.copy_value(&found, &mut target[..value_bytes]);
        if self.is_due_to_move(&found) {
            self.reinsert(request.hash, request.key);
        } else {
            self.count_request(&found);
        }
        sink.finish(index, Outcome::Hit);
        true
    }

    #[inline]
    fn copy_value(&self, found: &Found, target: &mut [u8]) {
        #[cfg(not(any(loom, miri)))]
        if target.len() >= LONG_VALUE_BYTES {
            // SAFETY: only the writer writes, and this writer does not while the slice lives.
            #[expect(unsafe_code, reason = "long values are copied by memcpy")]
            let value = unsafe { self.partition.region.bytes(found.value_at(), target.len()) };
            target.copy_from_slice(value);
            return;
        }
        self.partition.region.copy_out(found.value_at(), target);
    }
}
