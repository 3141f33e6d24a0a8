//! A stream of datagrams of one request each, and where each belongs.

use micanite_wire::hash::KeyHash;
use micanite_wire::native::{Header, Opcode, PAYLOAD_BYTES, Request, RequestWriter};
use micanite_workload::Keys;

use crate::generator::packets::KEY_BYTES;

/// Datagrams of one request each, made before the clock runs.
#[derive(Default)]
pub(super) struct Stream {
    bytes: Vec<u8>,
    /// End of each datagram.
    ends: Vec<u32>,
    pub partitions: Vec<u16>,
    pub writes: Vec<bool>,
}

impl Stream {
    /// Returns the datagram of a place.
    #[inline]
    pub fn datagram(&self, place: usize) -> &[u8] {
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start as usize..self.ends[place] as usize]
    }

    /// Adds a datagram; `value` is of a request that stores one.
    pub fn push(
        &mut self,
        cookie: u64,
        (key, hash): (&[u8], KeyHash),
        (partition, is_set): (usize, bool),
        value: &[u8],
    ) {
        let start = self.bytes.len();
        self.bytes.resize(start + PAYLOAD_BYTES, 0);
        let mut writer = RequestWriter::new(&mut self.bytes[start..]);
        let pushed = writer.push(&Request {
            opcode: if is_set { Opcode::Set } else { Opcode::Get },
            wants_cas: false,
            wants_entry: false,
            hash: hash.0,
            flags: 0,
            expiry_s: 0,
            argument: 0,
            id: 0,
            key,
            value,
        });
        pushed.expect("one request fits a datagram");
        let header = Header { cookie, partition: partition as u16, client: 1, ..Header::REQUESTS };
        let bytes = writer.finish(&header);
        self.bytes.truncate(start + bytes);
        self.ends.push(self.bytes.len() as u32);
        self.partitions.push(partition as u16);
        self.writes.push(is_set);
    }
}

/// Key of an item.
pub(super) fn key(item: u64) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    Keys::new(KEY_BYTES).write(item, &mut key);
    key
}
