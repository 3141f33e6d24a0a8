//! `lru_crawler metadump` and `mgdump`: a line for every item.

use std::io::Write;

use micanite_engine::{ItemInfo, KEY_BYTES_MAX, Visit, Visitor, WALK_PART_ITEMS_MIN};

use micanite_wire::memcache::text::meta::base64;

use crate::limits::STATS_REPLY_BYTES_MAX;
use crate::output::{Output, encode_key, is_word};

/// Kinds of dumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) enum Keys {
    /// `metadump`.
    WithMeta,
    /// `mgdump`.
    Only,
}

impl Keys {
    /// Returns the last line.
    pub const fn end(self) -> &'static [u8] {
        match self {
            Self::WithMeta => b"END\r\n",
            Self::Only => b"EN\r\n",
        }
    }
}

/// The longest line: an encoded key, and numbers with their names.
const LINE_BYTES_MAX: usize = 3 * KEY_BYTES_MAX + 160;

// An empty output has room for the items that a walk visits together, and for the lines around them.
const _: () = assert!(STATS_REPLY_BYTES_MAX > WALK_PART_ITEMS_MIN * LINE_BYTES_MAX + 16);

/// Writes the lines of a walk.
pub(super) struct Dump<'d, 'o> {
    keys: Keys,
    output: &'d mut Output<'o>,
    kept: usize,
}

impl<'d, 'o> Dump<'d, 'o> {
    pub fn new(keys: Keys, output: &'d mut Output<'o>) -> Self {
        let kept = output.filled();
        Self { keys, output, kept }
    }
}

impl Visitor for Dump<'_, '_> {
    fn item(&mut self, item: &ItemInfo<'_>) -> Visit {
        // The last line has to fit, too.
        if self.output.room() < LINE_BYTES_MAX + 8 {
            return Visit::Full;
        }
        match self.keys {
            Keys::Only => {
                self.output.push(b"mg ");
                if is_word(item.key) {
                    self.output.push(item.key);
                } else {
                    self.output.push_with(|out| base64::encode(item.key, out));
                    self.output.push(b" b");
                }
                self.output.push(b"\r\n");
            }
            Keys::WithMeta => self.output.push_with(|out| line(out, item)),
        }
        Visit::Next
    }

    fn take_back(&mut self) {
        self.output.truncate(self.kept);
    }

    fn keep(&mut self) {
        self.kept = self.output.filled();
    }
}

/// Writes the line of an item. Returns its length. `la` is there only if the last access is known.
fn line(out: &mut [u8], item: &ItemInfo<'_>) -> usize {
    let mut at = 4;
    out[..at].copy_from_slice(b"key=");
    at += encode_key(item.key, &mut out[at..]);
    let mut rest = &mut out[at..];
    let room = rest.len();
    let expiry = match item.expiry.0 {
        0 => -1,
        at_s => i64::from(at_s),
    };
    let fetched = if item.fetched { "yes" } else { "no" };
    // The caller has checked the room; nothing else can fail.
    let _ = write!(rest, " exp={expiry}");
    if item.access_s != 0 {
        let _ = write!(rest, " la={}", item.access_s);
    }
    let _ =
        writeln!(rest, " cas={} fetch={fetched} cls=1 size={} flags={} ", item.cas, item.bytes, item.flags);
    at + room - rest.len()
}
