//! touch.

use micanite_memory::sync::Ordering::Relaxed;

use crate::log::item::{Expiry, pack_meta};
use crate::operations::request::{HashedRequest, Outcome};
use crate::writer::{Found, Writer};

impl Writer<'_> {
    /// Touches an item, which counts as a request for it.
    pub fn touch_item(&self, request: &HashedRequest<'_>, expiry: Expiry) -> Outcome {
        let outcome = self.touch(request, expiry);
        if outcome == Outcome::Touched
            && let Some(found) = self.find(request.hash, request.key)
        {
            self.count_request(&found);
        }
        outcome
    }

    pub fn touch(&self, request: &HashedRequest<'_>, expiry: Expiry) -> Outcome {
        match self.find(request.hash, request.key) {
            Some(found) => self.set_expiry(request, &found, expiry),
            None => Outcome::NotFound,
        }
    }

    /// Replaces the expiry. The CAS value stays, as in memcached. An item that was stored without
    /// an expiry has no space for one and moves.
    pub(crate) fn set_expiry(&self, request: &HashedRequest<'_>, found: &Found, expiry: Expiry) -> Outcome {
        if found.header.has_meta() {
            let meta = pack_meta(expiry.0, found.flags);
            let word = self.partition.word(found.place.position + 1);
            self.kill_chunk(found.place.position);
            self.partition.bucket(request.hash).write(|| word.store(meta, Relaxed));
            self.note_expiry(expiry);
        } else if expiry != Expiry::NEVER
            && let Err(refusal) = self.relocate(request.hash, request.key, found, expiry)
        {
            return refusal.into();
        }
        Outcome::Touched
    }
}
