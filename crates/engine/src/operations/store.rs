//! set, add, replace, cas.

use crate::request::{Condition, Expiry, Outcome, Request};
use crate::writer::Writer;

impl Writer<'_> {
    #[inline]
    pub fn store(
        &self,
        request: &Request<'_>,
        condition: Condition,
        value: &[u8],
        (flags, expiry): (u32, Expiry),
        now_s: u32,
    ) -> Outcome {
        let found = self.find(request.hash, request.key, now_s);
        match (condition, &found) {
            (Condition::Always, _) | (Condition::Absent, None) | (Condition::Present, Some(_)) => {}
            (Condition::Absent, Some(_)) | (Condition::Present, None) => {
                return Outcome::NotStored;
            }
            (Condition::Unchanged(_), None) => return Outcome::NotFound,
            (Condition::Unchanged(cas), Some(found)) => {
                if self.cas_of(found) != cas {
                    return Outcome::Exists;
                }
            }
        }
        self.write_value(request, found.as_ref(), value, (flags, expiry))
    }
}
