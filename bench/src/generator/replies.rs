//! Replies to packets: which datagram they answer, and how many requests succeeded.

use micanite_wire::native::{Kind, Replies, Status};

use super::packets::{KEY_BYTES, Protocol, VALUE_BYTES};

/// Place of the kind in a header of the native protocol (docs/protocol.md).
pub(super) const KIND_AT: usize = 3;
/// Bytes of memcached's UDP frame header.
const FRAME_BYTES: usize = 8;

/// Understands the replies to some packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader {
    protocol: Protocol,
    pub batch: usize,
    /// Place of the number that the reply brings back.
    pub number_at: usize,
}

/// Result of a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub number: u16,
    pub succeeded: u64,
    /// No more replies belong to the datagram: memcached sends one for each key of a multi-get.
    pub is_last: bool,
}

impl Reader {
    pub fn new(protocol: Protocol, batch: usize) -> Self {
        Self {
            protocol,
            batch,
            number_at: match protocol {
                Protocol::Native => 16,
                Protocol::Memcached => 0,
            },
        }
    }

    /// Reads a reply. `echoed`: it is the request itself, sent back.
    #[inline]
    pub fn answer(&self, reply: &[u8], echoed: bool) -> Answer {
        let number = |at: usize| {
            let bytes = reply.get(at..at + 2);
            bytes.map_or(0, |bytes| u16::from_le_bytes([bytes[0], bytes[1]]))
        };
        match self.protocol {
            _ if echoed => {
                Answer { number: number(self.number_at), succeeded: self.batch as u64, is_last: true }
            }
            // A late page of the directory answers no request.
            Protocol::Native if reply.get(KIND_AT) != Some(&(Kind::Replies as u8)) => Answer::default(),
            Protocol::Native => {
                let count = number(6);
                let mut succeeded = 0;
                for reply in Replies::new(reply, count).into_iter().flatten() {
                    let is_ok = reply.is_ok_and(|reply| reply.status == Status::Ok);
                    succeeded += u64::from(is_ok);
                }
                Answer { number: number(16), succeeded, is_last: true }
            }
            Protocol::Memcached => {
                const LINE_BYTES: usize = "VALUE  0 8\r\n\r\n".len() + KEY_BYTES + VALUE_BYTES;
                let body = reply.get(FRAME_BYTES..).unwrap_or_default();
                let stored = body.starts_with(b"STORED");
                Answer {
                    number: number(0),
                    succeeded: if stored { 1 } else { (body.len() / LINE_BYTES) as u64 },
                    is_last: stored || body.ends_with(b"END\r\n"),
                }
            }
        }
    }
}
