//! delete.

use crate::request::{Outcome, Request};
use crate::writer::Writer;

impl Writer<'_> {
    #[inline]
    pub fn delete(&self, request: &Request<'_>, now_s: u32) -> Outcome {
        match self.find(request.hash, request.key, now_s) {
            Some(found) => {
                self.remove(request.hash, &found);
                Outcome::Deleted
            }
            None => Outcome::NotFound,
        }
    }
}
