//! One request.

use super::{Operation, Outcome, RECORD_BYTES};

const NONE: u32 = u32::MAX;

/// A request as it is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    pub key_hash: u64,
    /// Milliseconds since the recording began.
    pub time_ms: u32,
    /// Length of the value that was sent to be stored, or found.
    pub value_bytes: Option<u32>,
    /// Seconds until what was stored expires, 0 for never.
    pub expiry_s: Option<u32>,
    /// Number of the key's prefix, 0 if it has none.
    pub prefix: u16,
    pub key_bytes: u8,
    pub operation: Operation,
    /// Answer of the server.
    pub outcome: Outcome,
}

impl Record {
    pub fn to_bytes(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[..8].copy_from_slice(&self.key_hash.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.time_ms.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.value_bytes.unwrap_or(NONE).to_le_bytes());
        bytes[16..20].copy_from_slice(&self.expiry_s.unwrap_or(NONE).to_le_bytes());
        bytes[20..22].copy_from_slice(&self.prefix.to_le_bytes());
        bytes[22] = self.key_bytes;
        bytes[23] = self.operation as u8 | (self.outcome as u8) << 5;
        bytes
    }

    /// The request of the bytes; nothing if they are none.
    pub fn from_bytes(bytes: &[u8; RECORD_BYTES]) -> Option<Self> {
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let some = |value: u32| (value != NONE).then_some(value);
        Some(Self {
            key_hash: u64::from(u32_at(0)) | u64::from(u32_at(4)) << 32,
            time_ms: u32_at(8),
            value_bytes: some(u32_at(12)),
            expiry_s: some(u32_at(16)),
            prefix: u16::from_le_bytes([bytes[20], bytes[21]]),
            key_bytes: bytes[22],
            operation: *Operation::ALL.get(usize::from(bytes[23] & 31))?,
            outcome: match bytes[23] >> 5 {
                0 => Outcome::Unknown,
                1 => Outcome::Hit,
                2 => Outcome::Miss,
                _ => return None,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back() {
        for operation in Operation::ALL {
            let record = Record {
                key_hash: u64::MAX,
                time_ms: 7,
                value_bytes: None,
                expiry_s: Some(0),
                prefix: 3,
                key_bytes: 20,
                operation,
                outcome: Outcome::Miss,
            };
            assert_eq!(Record::from_bytes(&record.to_bytes()), Some(record));
        }
        assert_eq!(Record::from_bytes(&[0xff; RECORD_BYTES]), None);
    }
}
