//! Values: every byte follows from the key, the number of the write and the length.

use micanite_workload::Random;

use super::operation::ValueId;

pub(super) const VALUE_BYTES_MIN: usize = 16;

/// Spreads the bits of a word (the finaliser of splitmix64).
const fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

fn word(key: u32, id: ValueId, bytes: usize, place: usize) -> [u8; 8] {
    let place = place as u64;
    match place {
        0 => id,
        1 => bytes as u64 | u64::from(key) << 32,
        _ => mix(id ^ place << 40) ^ mix(u64::from(key) + place),
    }
    .to_le_bytes()
}

/// Flags that are stored with a value.
pub(super) fn flags(id: ValueId) -> u32 {
    mix(id) as u32 & 0xffff
}

/// Draws a length: most values are short.
pub(super) fn draw_bytes(random: &mut Random, bytes_max: usize) -> usize {
    let short_max = bytes_max.min(256);
    let most = if random.below(4) == 0 { bytes_max } else { short_max };
    VALUE_BYTES_MIN + random.below((most.max(VALUE_BYTES_MIN) - VALUE_BYTES_MIN + 1) as u64) as usize
}

/// Writes a value.
pub(super) fn fill(value: &mut Vec<u8>, key: u32, id: ValueId, bytes: usize) {
    value.clear();
    for place in 0..bytes.div_ceil(8) {
        value.extend(word(key, id, bytes, place));
    }
    value.truncate(bytes);
}

/// Returns the number of the write that stored the value. An error unless every byte is right.
pub(super) fn parse(key: u32, value: &[u8], found_flags: u32) -> Result<ValueId, String> {
    let id = match value.first_chunk::<8>() {
        Some(first) if value.len() >= VALUE_BYTES_MIN => u64::from_le_bytes(*first),
        _ => return Err(format!("a value of {} bytes", value.len())),
    };
    for (place, found) in value.chunks(8).enumerate() {
        if *found != word(key, id, value.len(), place)[..found.len()] {
            return Err(format!("word {place} of a value of {} bytes is not {id:#x}'s", value.len()));
        }
    }
    match flags(id) == found_flags {
        true => Ok(id),
        false => Err(format!("the flags {found_flags:#x} are not {id:#x}'s")),
    }
}
