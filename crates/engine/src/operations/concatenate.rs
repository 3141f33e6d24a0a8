//! append, prepend.

use crate::request::{Outcome, Request};
use crate::writer::{NewItem, Part, Writer};

/// Which side the new bytes go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Before,
    After,
}

impl Writer<'_> {
    /// Flags and expiry stay; the CAS value changes.
    pub fn concatenate(
        &self,
        request: &Request<'_>,
        side: Side,
        more: &[u8],
        value_bytes_max: usize,
        now_s: u32,
    ) -> Outcome {
        let Some(found) = self.find(request.hash, request.key, now_s) else {
            return Outcome::NotStored;
        };
        if found.value_bytes() + more.len() > value_bytes_max {
            return Outcome::TooLarge;
        }
        let old = Part::Log {
            first_byte: found.value_at(),
            bytes: found.value_bytes(),
        };
        let value = match side {
            Side::Before => [Part::Bytes(more), old],
            Side::After => [old, Part::Bytes(more)],
        };
        let (flags, expiry) = (found.flags, found.expiry);
        let item = NewItem {
            key: request.key,
            flags,
            expiry,
            cas: None,
            value,
        };
        self.append_new(request.hash, &item, Some(&found))
    }
}
