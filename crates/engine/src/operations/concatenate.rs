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
    ) -> Outcome {
        let Some(found) = self.find(request.hash, request.key) else {
            return Outcome::NotStored;
        };
        if found.value_bytes() + more.len() > value_bytes_max {
            return Outcome::TooLarge;
        }
        let value = match side {
            Side::Before => [Part::Bytes(more), Part::Old],
            Side::After => [Part::Old, Part::Bytes(more)],
        };
        let item = NewItem {
            key: request.key,
            flags: found.flags,
            expiry: found.expiry,
            cas: None,
            frequency: found.header.frequency(),
            log: None,
            value,
        };
        match self.append_new(request.hash, &item, Some(&found)) {
            Outcome::NotFound => Outcome::NotStored, // it has just been evicted
            outcome => outcome,
        }
    }
}
