//! Replies to GETs, checked against what was asked.

use micanite_wire::native::{Header, Kind as NativeKind, Replies, Status};
use micanite_workload::Values;

use super::requests::{Entry, FRAME_BYTES, Ring};
use crate::generator::frames::HEADER_BYTES;
use crate::generator::packets::Protocol;

/// A datagram for us, before it is known which request it answers.
#[derive(Clone, Copy, Debug)]
pub(in crate::kernel) struct Reply<'a> {
    pub number: u16,
    /// Datagrams of this answer, of which this is one.
    pub datagrams: u16,
    sequence: u16,
    payload: &'a [u8],
}

impl<'a> Reply<'a> {
    #[inline]
    pub fn read(payload: &'a [u8], protocol: Protocol) -> Option<Self> {
        let be = |at: usize| u16::from_be_bytes([payload[at], payload[at + 1]]);
        match protocol {
            Protocol::Memcached if payload.len() >= FRAME_BYTES => {
                Some(Self { number: be(0), sequence: be(2), datagrams: be(4), payload })
            }
            Protocol::Native if payload.len() >= Header::BYTES => Some(Self {
                number: u16::from_le_bytes([payload[16], payload[17]]),
                sequence: 0,
                datagrams: 1,
                payload,
            }),
            _ => None,
        }
    }

    /// Checks the answer to a request: `Some(true)` with its value, `Some(false)` that there is
    /// none, `None` something else. `closely`: the value's bytes are compared, too.
    #[inline]
    pub fn check(&self, ring: &Ring, entry: &Entry, closely: bool) -> Option<bool> {
        match ring.protocol {
            Protocol::Memcached => self.check_text(ring.key(entry), entry, closely),
            Protocol::Native => self.check_native(entry, closely),
        }
    }

    /// Tells whether it is the request itself, sent back.
    #[inline]
    pub fn is_echo(&self, ring: &Ring, entry: &Entry) -> bool {
        ring.bytes(entry).get(HEADER_BYTES..) == Some(self.payload)
    }

    fn check_text(&self, key: &[u8], entry: &Entry, closely: bool) -> Option<bool> {
        if self.sequence > 0 {
            return (self.sequence < self.datagrams).then_some(true);
        }
        let text = &self.payload[FRAME_BYTES..];
        if text == b"END\r\n" {
            return Some(false);
        }
        let rest = text.strip_prefix(b"VALUE ")?.strip_prefix(key)?;
        let rest = rest.strip_prefix(b" 0 ")?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let mut value_bytes = 0;
        for digit in &rest[..digits.min(8)] {
            value_bytes = value_bytes * 10 + usize::from(digit - b'0');
        }
        let rest = rest[digits..].strip_prefix(b"\r\n")?;
        if value_bytes != entry.value_bytes as usize {
            return None;
        }
        if self.datagrams > 1 {
            return Some(true);
        }
        let (value, end) = rest.split_at_checked(value_bytes)?;
        let is_value = !closely || Values::new(value_bytes).verify(entry.item, value);
        (end == b"\r\nEND\r\n" && is_value).then_some(true)
    }

    fn check_native(&self, entry: &Entry, closely: bool) -> Option<bool> {
        let header = Header::read(self.payload).ok()?;
        if header.kind != NativeKind::Replies {
            return None;
        }
        let mut replies = Replies::new(self.payload, header.count).ok()?;
        let reply = replies.next()?.ok()?;
        match reply.status {
            // A value that is too long for any datagram counts as a miss, too.
            Status::NotFound | Status::UseStream => Some(false),
            Status::Ok => {
                let values = Values::new(entry.value_bytes as usize);
                let is_value = match closely {
                    true => values.verify(entry.item, reply.value),
                    false => reply.value.len() == values.value_bytes(),
                };
                is_value.then_some(true)
            }
            _ => None,
        }
    }
}
