//! delete.

use crate::operations::request::{HashedRequest, Outcome};
use crate::writer::Writer;

impl Writer<'_> {
    #[inline]
    pub fn delete(&self, request: &HashedRequest<'_>) -> Outcome {
        match self.find_any(request.hash, request.key) {
            Some(found) => {
                self.remove(request.hash, &found);
                Outcome::Deleted
            }
            None => Outcome::NotFound,
        }
    }
}
