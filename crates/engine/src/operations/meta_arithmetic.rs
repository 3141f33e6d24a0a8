//! increment and decrement: plain, and with the options of meta commands and of the binary protocol.

use crate::log::item::{Expiry, State};
use crate::operations::meta::{ItemMeta, MetaArithmetic};
use crate::operations::meta_store::Described;
use crate::operations::number::{NUMBER_BYTES_MAX, format, parse};
use crate::operations::request::{HashedRequest, Outcome};
use crate::writer::{Found, NewItem, Part, Refusal, Writer};

impl Writer<'_> {
    pub fn meta_arithmetic(&self, request: &HashedRequest<'_>, by: &MetaArithmetic) -> Described {
        let Some(found) = self.find(request.hash, request.key) else {
            return match by.vivify {
                Some(expiry) => self.first_number(request, by, expiry),
                None => (Outcome::NotFound, None),
            };
        };
        let value_bytes = found.value_bytes();
        if value_bytes > 0 && by.compare != 0 && by.compare != self.cas_of(&found) {
            return (Outcome::Exists, None);
        }
        let mut buffer = [b' '; NUMBER_BYTES_MAX];
        let Some(value) = buffer.get_mut(..value_bytes).filter(|value| !value.is_empty()) else {
            return (Outcome::NotANumber, None);
        };
        self.partition.region.copy_out(found.value_at(), value);
        let Some(number) = parse(value) else {
            return (Outcome::NotANumber, None);
        };
        let number =
            if by.decrement { number.saturating_sub(by.delta) } else { number.wrapping_add(by.delta) };
        let digits = format(number, &mut buffer);
        let value = &buffer[..digits.max(value_bytes)];
        self.write_number(request, by, &found, (number, value))
    }

    pub(super) fn write_number(
        &self,
        request: &HashedRequest<'_>,
        by: &MetaArithmetic,
        found: &Found,
        (number, value): (u64, &[u8]),
    ) -> Described {
        let expiry = by.touch.unwrap_or(found.expiry);
        let plain = !by.cas && by.new_cas == 0 && !found.header.has_state();
        if plain {
            let meta = (found.flags, expiry);
            let outcome = match self.write_value(request, Some(found), value, meta) {
                Outcome::Stored => Outcome::Number(number),
                refused => refused,
            };
            let item = ItemMeta {
                flags: found.flags,
                value_bytes: value.len(),
                expiry_before: found.expiry,
                expiry,
                ..ItemMeta::default()
            };
            return (outcome, Some(item));
        }
        // A number of the same length changes nothing else of the item but its CAS value.
        let same = value.len() == found.value_bytes();
        let state = State {
            cas: by.new_cas,
            ..if same { self.state_of(found) } else { self.fresh_state(Some(found)).unwrap_or_default() }
        };
        let item = NewItem {
            expiry,
            state: (state != State::default()).then_some(state),
            cas: None,
            gives_cas: by.cas || by.new_cas != 0,
            fetched: same && found.header.is_fetched(),
            value: [Part::Bytes(value), Part::NONE],
            ..self.copy_of(request.key, found)
        };
        self.number_stored(self.insert_described(request.hash, &item, Some(found)), number)
    }

    fn first_number(&self, request: &HashedRequest<'_>, by: &MetaArithmetic, expiry: Expiry) -> Described {
        let number = by.initial;
        let mut buffer = [b' '; NUMBER_BYTES_MAX];
        let digits = format(number, &mut buffer);
        let follows = self.partition.follows_accesses();
        let state =
            State { access_s: if follows { self.now_s } else { 0 }, cas: by.new_cas, ..State::default() };
        let item = NewItem {
            state: (state != State::default()).then_some(state),
            gives_cas: by.cas || by.new_cas != 0,
            ..NewItem::of(request.key, &buffer[..digits], (0, expiry))
        };
        self.number_stored(self.insert_described(request.hash, &item, None), number)
    }

    fn number_stored(&self, stored: Result<ItemMeta, Refusal>, number: u64) -> Described {
        match stored {
            Ok(item) => (Outcome::Number(number), Some(item)),
            Err(refusal) => (refusal.into(), None),
        }
    }
}
