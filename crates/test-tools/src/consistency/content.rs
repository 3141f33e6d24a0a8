//! Bytes of an operation: all of them follow from the number of the key and that of the operation, so that
//! whoever reads a value knows what every byte of it should be.

use crate::Result;

/// Bits of the first word that are the number of the operation; the others belong to the key.
const SEQUENCE_BITS: u32 = 40;
/// The longest value whose reply is one datagram, whatever the key.
const SHORT_BYTES_MAX: u64 = 1300;
const LONG_BYTES_MAX: u64 = 4000;
/// Operations in a row that write the same number of bytes, which an item in place takes.
const RUN: u64 = 4;

/// One operation of a key's writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Set {
        bytes: usize,
        flags: u32,
    },
    /// Like a set, with an expiry, which stands in the second word.
    SetExpiring {
        bytes: usize,
        flags: u32,
    },
    /// Removes the expiry.
    Touch,
    Delete,
}

/// Spreads the bits of a word (the finaliser of splitmix64).
const fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

const fn seed(key: u32, sequence: u64) -> u64 {
    mix(sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ mix(key as u64 + 1))
}

/// Operation `sequence` of a key; they count from one.
pub(super) fn operation(key: u32, sequence: u64) -> Operation {
    let own = seed(key, sequence);
    let of_run = seed(key, (sequence / RUN) | (1 << 62));
    let (kind, span) = (own % 32, of_run >> 8);
    let flags = if of_run & 1 == 0 { 0 } else { own as u32 >> 3 };
    let bytes = match of_run % 64 {
        0 => SHORT_BYTES_MAX + 1 + span % (LONG_BYTES_MAX - SHORT_BYTES_MAX),
        1..20 => 8,
        20..50 => 16 + span % 120,
        _ => 16 + span % (SHORT_BYTES_MAX - 15),
    } as usize;
    match kind {
        0 => Operation::Delete,
        1 => Operation::Touch,
        2 => Operation::SetExpiring { bytes: bytes.max(16), flags },
        _ => Operation::Set { bytes, flags },
    }
}

/// Content after the last operations up to `sequence` left there, touches aside.
pub(super) fn last_write(key: u32, mut sequence: u64) -> u64 {
    while sequence > 0 && operation(key, sequence) == Operation::Touch {
        sequence -= 1;
    }
    sequence
}

fn first_word(key: u32, sequence: u64) -> u64 {
    sequence | (seed(key, sequence) << SEQUENCE_BITS)
}

/// Word `place` of a value, from the second on.
fn word(seed: u64, place: usize) -> u64 {
    (seed ^ place as u64).wrapping_mul(0x2545_f491_4f6c_dd1d) ^ seed.rotate_left(place as u32 % 64)
}

/// Appends the value that an operation writes.
pub(super) fn push_value(into: &mut Vec<u8>, key: u32, sequence: u64, bytes: usize, expiry_s: Option<u32>) {
    let (start, seed) = (into.len(), seed(key, sequence));
    into.extend(first_word(key, sequence).to_le_bytes());
    for place in 1..bytes.div_ceil(8) {
        let word = match expiry_s {
            Some(second) if place == 1 => u64::from(second),
            _ => word(seed, place),
        };
        into.extend(word.to_le_bytes());
    }
    into.truncate(start + bytes);
}

/// The operation that wrote a value, and when the value expires. An error unless every byte is as that
/// operation wrote it.
pub(super) fn parse(key: u32, value: &[u8], flags: u32) -> Result<(u64, Option<u32>)> {
    let (first, rest) = value.split_first_chunk::<8>().ok_or("a value of fewer than 8 bytes")?;
    let first = u64::from_le_bytes(*first);
    let sequence = first & ((1 << SEQUENCE_BITS) - 1);
    if first != first_word(key, sequence) {
        return Err("the first word is of no operation of this key".into());
    }
    let (bytes, expected, expires) = match operation(key, sequence) {
        Operation::Set { bytes, flags } => (bytes, flags, false),
        Operation::SetExpiring { bytes, flags } => (bytes, flags, true),
        other => return Err(format!("operation {sequence} wrote no value: {other:?}").into()),
    };
    if (value.len(), flags) != (bytes, expected) {
        return Err(format!(
            "{} bytes, flags {flags}; operation {sequence} wrote {bytes} bytes, flags {expected}",
            value.len()
        )
        .into());
    }
    let seed = seed(key, sequence);
    let mut expiry_s = None;
    for (place, found) in (1..).zip(rest.chunks(8)) {
        if expires && place == 1 {
            let second = found.try_into().map(u64::from_le_bytes)?;
            expiry_s =
                Some(u32::try_from(second).map_err(|_| format!("operation {sequence}: expiry {second}"))?);
        } else if *found != word(seed, place).to_le_bytes()[..found.len()] {
            return Err(
                format!("word {place} of {} bytes is not that of operation {sequence}", value.len()).into()
            );
        }
    }
    Ok((sequence, expiry_s))
}
