//! Each rule of acceptance, broken alone: all others hold, so the reader refuses by this rule only.

use micanite_wire::hash::KeyHash;

use super::support::{INCARNATION, LEASE_NS};
use crate::Entry;
use crate::layout::{CHECKED_BYTES_MAX, HEADER_BYTES, Header, Record};
use crate::reader::{Accepted, Read, Refusal, Wanted, accept};

const KEY: &[u8] = b"a key";
const HASH: u64 = 0x0123_4567_89ab_cdef;
const VERSION: u64 = 0xfeed_face_0bad_cafe;
const VOID: u64 = 77;
const EXPIRY_S: u32 = 1000;
const FLUSH_S: u64 = 2000;
const SECOND: u64 = 999;

/// Read of a valid chunk, and what is wanted from it.
#[derive(Clone)]
struct Case {
    entry: Entry,
    key: Vec<u8>,
    hash: u64,
    incarnation: u64,
    second_max: u64,
    record: Record,
    chunk: Vec<u8>,
    second_header: Option<Vec<u8>>,
    lasted_ns: u64,
}

/// Value, flags and expiry of an accepted read.
type Judged = (Vec<u8>, u32, u32);

fn header(value: &[u8]) -> Header {
    Header {
        version: VERSION,
        incarnation: INCARNATION,
        void: VOID,
        hash: HASH,
        expiry_s: EXPIRY_S,
        flags: 5,
        key_bytes: KEY.len() as u32,
        value_bytes: value.len() as u32,
    }
}

fn encode(header: &Header, key: &[u8], value: &[u8]) -> Vec<u8> {
    let words = header.words().into_iter().chain([header.checksum(key, value)]);
    words.flat_map(u64::to_le_bytes).chain([key, value].concat()).collect()
}

impl Case {
    fn of(value: &[u8]) -> Self {
        Self::of_header(&header(value), value)
    }

    /// Encodes a chunk with the checksum that belongs to this header.
    fn of_header(header: &Header, value: &[u8]) -> Self {
        let chunk = encode(header, KEY, value);
        Self {
            entry: Entry { offset: 4096, bytes: chunk.len() as u32, version: VERSION },
            key: KEY.to_vec(),
            hash: HASH,
            incarnation: INCARNATION,
            second_max: SECOND,
            record: Record { incarnation: INCARNATION, void: VOID, flush_s: FLUSH_S },
            second_header: Some(chunk[..HEADER_BYTES].to_vec()),
            chunk,
            lasted_ns: LEASE_NS,
        }
    }

    fn judge(&self) -> Result<Judged, Refusal> {
        let record: Vec<u8> = self.record.words().into_iter().flat_map(u64::to_le_bytes).collect();
        let wanted = Wanted {
            entry: self.entry,
            key: &self.key,
            hash: KeyHash(self.hash),
            incarnation: self.incarnation,
            second_max: self.second_max,
            lease_ns: LEASE_NS,
        };
        let second_header = self.second_header.as_deref();
        let lasted_ns = self.lasted_ns;
        let read = Read { record: &record, chunk: &self.chunk, second_header, lasted_ns };
        let Accepted { value, flags, expiry_s } = accept(&wanted, &read)?;
        Ok((value.to_vec(), flags, expiry_s))
    }

    #[track_caller]
    fn check_refused(self, refusal: Refusal) {
        assert_eq!(self.judge(), Err(refusal));
    }
}

fn short() -> Case {
    Case::of(b"value")
}

fn long() -> Case {
    Case::of(&vec![7; CHECKED_BYTES_MAX])
}

#[test]
fn a_read_that_keeps_all_rules_is_accepted() {
    for value in [&b""[..], b"value", &[7; CHECKED_BYTES_MAX - HEADER_BYTES - KEY.len()]] {
        let case = Case { second_header: None, ..Case::of(value) };
        assert_eq!(case.judge(), Ok((value.to_vec(), 5, EXPIRY_S)));
    }
    let case = long();
    assert_eq!(case.judge().map(|(value, ..)| value.len()), Ok(CHECKED_BYTES_MAX));
}

#[test]
fn bytes_behind_the_item_are_ignored() {
    let mut case = short();
    case.chunk.extend([1; 64]);
    assert!(case.judge().is_ok());
}

/// The checksum is that of the version in the chunk.
#[test]
fn the_version_of_another_write_is_refused() {
    let mut case = short();
    case.entry.version = VERSION + 1;
    case.check_refused(Refusal::Version);
}

/// A forged entry asks for dead chunks.
#[test]
fn version_0_is_refused_though_the_entry_has_it() {
    let mut case = Case::of_header(&Header { version: 0, ..header(b"value") }, b"value");
    case.entry.version = 0;
    case.check_refused(Refusal::Version);
}

#[test]
fn a_chunk_of_another_incarnation_is_refused() {
    let header = Header { incarnation: 1, ..header(b"value") };
    Case::of_header(&header, b"value").check_refused(Refusal::Incarnation);
}

#[test]
fn a_record_of_another_incarnation_is_refused() {
    let mut case = short();
    case.record.incarnation = 1;
    case.check_refused(Refusal::Incarnation);
}

#[test]
fn a_chunk_from_before_the_void_count_was_raised_is_refused() {
    let mut case = short();
    case.record.void += 1;
    case.check_refused(Refusal::Void);
}

#[test]
fn an_entry_of_another_length_is_refused() {
    let mut case = short();
    case.chunk.extend([0; 64]);
    case.entry.bytes += 1;
    case.check_refused(Refusal::Lengths);
    let mut case = short();
    case.entry.bytes -= 1;
    case.check_refused(Refusal::Lengths);
}

/// The chunk begins with the wanted key, and the checksum is right for its own split of key and value.
#[test]
fn a_longer_key_with_the_same_beginning_is_refused() {
    let header = Header { key_bytes: KEY.len() as u32 + 5, value_bytes: 0, ..header(b"value") };
    let mut case = short();
    case.chunk = encode(&header, &[KEY, b"value"].concat(), b"");
    case.check_refused(Refusal::Lengths);
}

#[test]
fn bytes_that_are_missing_are_refused() {
    let whole = short();
    for bytes in 0..whole.chunk.len() {
        let mut case = whole.clone();
        case.chunk.truncate(bytes);
        case.check_refused(Refusal::Lengths);
    }
    for bytes in 0..HEADER_BYTES {
        let mut case = whole.clone();
        case.entry.bytes = bytes as u32;
        case.check_refused(Refusal::Lengths);
    }
}

#[test]
fn a_record_that_is_missing_is_refused() {
    let case = short();
    let wanted = Wanted {
        entry: case.entry,
        key: KEY,
        hash: KeyHash(HASH),
        incarnation: INCARNATION,
        second_max: SECOND,
        lease_ns: LEASE_NS,
    };
    let read = Read { record: &[0; 23], chunk: &case.chunk, second_header: None, lasted_ns: 0 };
    assert_eq!(accept(&wanted, &read), Err(Refusal::Lengths));
}

#[test]
fn another_key_of_the_same_hash_is_refused() {
    let mut case = short();
    case.key = b"a kez".to_vec();
    case.check_refused(Refusal::Key);
}

#[test]
fn another_hash_of_the_same_key_is_refused() {
    let mut case = short();
    case.hash ^= 1;
    case.check_refused(Refusal::Key);
}

#[test]
fn an_item_is_refused_from_its_last_second_on() {
    let mut case = short();
    case.second_max = u64::from(EXPIRY_S);
    case.check_refused(Refusal::Expired);
}

#[test]
fn an_item_without_expiry_is_refused_from_a_flush_on_only() {
    let mut case = Case::of_header(&Header { expiry_s: 0, ..header(b"value") }, b"value");
    case.second_max = FLUSH_S - 1;
    assert!(case.judge().is_ok());
    case.second_max = FLUSH_S;
    case.clone().check_refused(Refusal::Flushed);
    case.record.flush_s = 0;
    case.second_max = u64::MAX;
    assert!(case.judge().is_ok());
}

/// Bytes that other rules compare are refused by those.
#[test]
fn a_change_of_any_byte_is_refused() {
    let whole = short();
    for at in 0..whole.chunk.len() {
        let mut case = whole.clone();
        case.chunk[at] ^= 0x20;
        let refusal = case.judge().expect_err("a byte was changed");
        // Expiry (moved far ahead or into the past), flags, the checksum itself, the value.
        if (36..40).contains(&at) || (48..56).contains(&at) || at >= HEADER_BYTES + KEY.len() {
            assert_eq!(refusal, Refusal::Checksum, "byte {at}");
        }
    }
}

#[test]
fn a_short_item_of_a_read_beyond_the_lease_is_refused() {
    let mut case = short();
    case.lasted_ns = LEASE_NS + 1;
    case.check_refused(Refusal::Slow);
}

#[test]
fn a_long_item_needs_no_lease() {
    let mut case = long();
    case.lasted_ns = u64::MAX;
    assert!(case.judge().is_ok());
}

#[test]
fn a_long_item_without_a_second_header_is_refused() {
    Case { second_header: None, ..long() }.check_refused(Refusal::SecondHeader);
    Case { second_header: Some(Vec::new()), ..long() }.check_refused(Refusal::SecondHeader);
}

#[test]
fn a_long_item_with_another_second_header_is_refused() {
    for at in 0..HEADER_BYTES {
        let mut case = long();
        case.second_header.as_mut().unwrap()[at] ^= 1;
        case.check_refused(Refusal::SecondHeader);
    }
}

/// The checksum of a long item covers header and key: two headers that are mixtures are refused.
#[test]
fn a_long_item_with_a_torn_header_is_refused() {
    let mut case = long();
    case.chunk[36] ^= 1;
    case.second_header = Some(case.chunk[..HEADER_BYTES].to_vec());
    case.check_refused(Refusal::Checksum);
}

#[test]
fn only_refusals_that_may_pass_are_tried_again() {
    use Refusal::*;
    let all = [Version, Incarnation, Void, Lengths, Key, Expired, Flushed, Checksum, Slow, SecondHeader];
    let again: Vec<_> = all.into_iter().filter(|refusal| refusal.may_retry()).collect();
    assert_eq!(again, [Lengths, Key, Checksum, Slow, SecondHeader]);
}
