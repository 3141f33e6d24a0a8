//! touch.

use micanite_memory::sync::Ordering::Relaxed;

use crate::log::item::pack_meta;
use crate::request::{Expiry, Outcome, Request};
use crate::writer::{Found, Writer};

impl Writer<'_> {
    pub fn touch(&self, request: &Request<'_>, expiry: Expiry, now_s: u32) -> Outcome {
        match self.find(request.hash, request.key, now_s) {
            Some(found) => self.set_expiry(request, &found, expiry),
            None => Outcome::NotFound,
        }
    }

    /// The CAS value stays, as in memcached. An item that was stored without an expiry has no
    /// room for one and moves to the tail.
    pub(crate) fn set_expiry(
        &self,
        request: &Request<'_>,
        found: &Found,
        expiry: Expiry,
    ) -> Outcome {
        if found.header.has_meta() {
            let meta = pack_meta(expiry.0, found.flags);
            let word = self.partition.log.word(found.position + 1);
            self.partition
                .bucket(request.hash)
                .write(|| word.store(meta, Relaxed));
            self.note_expiry(expiry);
        } else if expiry != Expiry::NEVER
            && self
                .relocate(request.hash, request.key, found, expiry)
                .is_err()
        {
            return Outcome::OutOfMemory;
        }
        Outcome::Touched
    }
}
