//! Recordings: what a server writes that records a sample of its requests.
//!
//! Little endian throughout. A header of 32 bytes, then records of 24 bytes in the order of time:
//!
//! | bytes of the header | what |
//! |---|---|
//! | 0..8 | [`MAGIC`] |
//! | 8..16 | when the recording began, milliseconds since 1970; 0 if nobody knows |
//! | 16..24 | which fraction of all keys is recorded: (this + 1) / 2^64 |
//! | 24..32 | number of the keys' hash, equal where recordings may be joined; 0 if it is not known |
//!
//! | bytes of a record | what |
//! |---|---|
//! | 0..8 | number of the key: a hash with a secret |
//! | 8..12 | milliseconds since the recording began |
//! | 12..16 | length of the value that was sent to be stored, or found; 2^32 - 1 where it is not known |
//! | 16..20 | seconds until what was stored expires, 0 for never; 2^32 - 1 where nothing was said |
//! | 20..22 | number of the key's prefix; 0 if it has none |
//! | 22 | length of the key |
//! | 23 | [`Operation`] in the lower five bits, [`Outcome`] in the others |
//!
//! Two operations are none, and further records of 24 bytes belong to them:
//!
//! - **31** names a prefix: its number in bytes 20..22, its length (at most 255) in byte 22, and the text in
//!   as many further records as it needs, filled up with zeros. It comes before the first record that has
//!   that number.
//! - **30** tells what the server was asked for since the recording began, recorded or not ([`Seen`]): the
//!   time in bytes 8..12, why it ended in byte 22 ([`End`]; 0 if it goes on), and in two further records six
//!   numbers of 64 bits: requests, reads, reads that found their item, recorded requests that were lost,
//!   recorded requests whose prefix got no number, 0. It comes every few seconds and at the end.
//!
//! A recording may end within a record, and without its last count: the server was killed.

mod operation;
mod record;
mod seen;
mod writer;

pub use operation::{Operation, Outcome};
pub use record::Record;
pub use seen::{End, Seen};
pub use writer::RecordingWriter;

/// The first bytes of a recording.
pub const MAGIC: [u8; 8] = *b"MICAREC1";
/// Bytes of the header.
pub const HEADER_BYTES: usize = 32;
/// Bytes of a record.
pub const RECORD_BYTES: usize = 24;
/// The longest prefix that has a name of its own; of a longer one the first bytes.
pub const PREFIX_BYTES_MAX: usize = u8::MAX as usize;
/// The operation of a record that names a prefix.
pub const NAMES_PREFIX: u8 = 31;
/// The operation of a record that tells what was seen.
pub const TELLS_SEEN: u8 = 30;
