//! Body of the fuzz target: bytes that a hostile server, or a torn read, may bring.

use micanite_wire::hash::KeyHash;

use crate::layout::{HEADER_BYTES, Header, RECORD_BYTES, Record};
use crate::reader::{Read, Wanted, accept};
use crate::{Entry, Geometry};

/// Bytes of the input before those of the read: those of the entry, whose length is the byte before.
const ENTRY_BYTES: usize = 20;

/// Reads an input as constants of an area, and as `{entry, key length, record, chunk, second header}`.
///
/// An accepted value is one that was checked: a change of any byte of it is refused.
pub fn chunks(data: &[u8]) {
    if let Some(geometry) = Geometry::decode(data) {
        assert_eq!(
            Geometry::new(geometry.partitions().ilog2(), geometry.page_bytes(), geometry.bytes()),
            Some(geometry)
        );
    }
    let (Some(entry), Some(rest)) = (data.first_chunk::<ENTRY_BYTES>(), data.get(ENTRY_BYTES..)) else {
        return;
    };
    let entry = entry_of(entry);
    let Some((&key_bytes, rest)) = rest.split_first() else {
        return;
    };
    let (record, chunk) = rest.split_at(rest.len().min(RECORD_BYTES));
    let key = chunk.get(HEADER_BYTES..HEADER_BYTES + usize::from(key_bytes)).unwrap_or_default();
    check(entry, key, record, chunk);
    // As a server writes it, so that mutations of the checksum do not hide the rest.
    if let Some(valid) = valid(chunk, key.len()) {
        let (header, _) = Header::decode(&valid).expect("valid has a header");
        let entry = Entry { bytes: valid.len() as u32, version: header.version, ..entry };
        check(entry, key, record, &valid);
    }
}

fn entry_of(bytes: &[u8; ENTRY_BYTES]) -> Entry {
    let [offset, version] =
        [0, 12].map(|at| u64::from_le_bytes(*bytes[at..].first_chunk().expect("in bounds")));
    let length = u32::from_le_bytes(*bytes[8..].first_chunk().expect("in bounds"));
    Entry { offset, bytes: length, version }
}

/// Returns the chunk with lengths that fit it and the right checksum.
fn valid(chunk: &[u8], key_bytes: usize) -> Option<Vec<u8>> {
    let (mut header, _) = Header::decode(chunk)?;
    header.key_bytes = key_bytes as u32;
    header.value_bytes = (chunk.len() - HEADER_BYTES - key_bytes) as u32;
    let (key, value) = chunk[HEADER_BYTES..].split_at(key_bytes);
    let checksum = header.checksum(key, value);
    let words = header.words().into_iter().chain([checksum]);
    Some(words.flat_map(u64::to_le_bytes).chain(chunk[HEADER_BYTES..].iter().copied()).collect())
}

fn check(entry: Entry, key: &[u8], record: &[u8], chunk: &[u8]) {
    let header = Header::decode(chunk).map(|(header, _)| header);
    let known = Record::decode(record);
    let hash = KeyHash(header.map_or(0, |header| header.hash));
    let incarnation = known.map_or(0, |record| record.incarnation);
    for second_max in [0, u64::from(u32::MAX)] {
        let wanted = Wanted { entry, key, hash, incarnation, second_max, lease_ns: 1 };
        for second_header in [None, chunk.get(..HEADER_BYTES)] {
            let read = Read { record, chunk, second_header, lasted_ns: 1 };
            let Ok(accepted) = accept(&wanted, &read) else {
                continue;
            };
            assert_eq!(accepted.value.len() + key.len() + HEADER_BYTES, entry.bytes as usize);
            assert_eq!(accepted.value, &chunk[HEADER_BYTES + key.len()..entry.bytes as usize]);
            assert!(header.is_some_and(|header| header.version == entry.version && header.version != 0));
            assert!(known.is_some_and(|record| Some(record.void) == header.map(|header| header.void)));
            if !entry.needs_second_header() {
                check_each_byte(&wanted, &read);
            }
        }
    }
}

/// Checks that the accepted read is refused with a change of a byte, at 16 places.
fn check_each_byte(wanted: &Wanted<'_>, read: &Read<'_>) {
    let bytes = wanted.entry.bytes as usize;
    for at in (0..bytes).step_by(bytes.div_ceil(16)) {
        let mut chunk = read.chunk.to_vec();
        chunk[at] ^= 0x10;
        assert!(accept(wanted, &Read { chunk: &chunk, ..*read }).is_err(), "a change at {at}");
    }
}
