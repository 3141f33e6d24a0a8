//! `stats cachedump CLASS LIMIT`: some items, with their lengths and expiries.

use std::io::Write;

use micanite_engine::{ItemInfo, KEY_BYTES_MAX, Visit, Visitor, WALK_PART_ITEMS_MIN};

use super::super::text::number;
use super::{Answered, LongReply, Walk};
use crate::limits::STATS_REPLY_BYTES_MAX;
use crate::output::{Output, is_word};
use micanite_wire::memcache::text::reply;

/// The longest line: a key, and two numbers.
const LINE_BYTES_MAX: usize = KEY_BYTES_MAX + 64;
/// The class of all items.
const CLASS: u64 = 1;
/// memcached has no class from this one on.
const CLASSES_END: u64 = 64;

// An empty output has room for the items that a walk visits together, and for the line after them.
const _: () = assert!(STATS_REPLY_BYTES_MAX > WALK_PART_ITEMS_MIN * LINE_BYTES_MAX + 16);

/// Parses class and limit; 0 is no limit. Further words are ignored.
pub(super) fn begin<'a>(
    mut words: impl Iterator<Item = &'a [u8]>,
    is_allowed: bool,
    output: &mut Output<'_>,
) -> Result<LongReply, Answered> {
    let (class, limit) = (words.next(), words.next());
    let refusal: &[u8] = match (class.map(number), limit.map(number)) {
        _ if !is_allowed => b"CLIENT_ERROR stats cachedump not allowed\r\n",
        (None, _) | (_, None) => b"CLIENT_ERROR bad command line\r\n",
        (Some(None), _) | (_, Some(None)) => b"CLIENT_ERROR bad command line format\r\n",
        (Some(Some(CLASSES_END..)), _) => b"CLIENT_ERROR Illegal slab id\r\n",
        (Some(Some(CLASS)), Some(Some(limit))) => {
            return Ok(LongReply::CacheDump {
                walk: Walk::default(),
                left: if limit == 0 { u64::MAX } else { limit },
            });
        }
        _ => reply::END,
    };
    output.push(refusal);
    Err(Answered::Done)
}

/// Writes the lines of a walk.
pub(super) struct CacheDump<'d, 'o> {
    output: &'d mut Output<'o>,
    /// Number of items left.
    left: &'d mut u64,
    kept: (usize, u64),
}

impl<'d, 'o> CacheDump<'d, 'o> {
    pub fn new(left: &'d mut u64, output: &'d mut Output<'o>) -> Self {
        let kept = (output.filled(), *left);
        Self { output, left, kept }
    }
}

impl Visitor for CacheDump<'_, '_> {
    fn item(&mut self, item: &ItemInfo<'_>) -> Visit {
        // The last line has to fit, too.
        if self.output.room() < LINE_BYTES_MAX + 8 {
            return Visit::Full;
        }
        // The rest of a bucket is visited without being shown, so that the walk advances. A key of any bytes
        // could look like a line.
        if *self.left == 0 || !is_word(item.key) {
            return Visit::Next;
        }
        *self.left -= 1;
        self.output.push(b"ITEM ");
        self.output.push(item.key);
        self.output.push_with(|out| {
            let room = out.len();
            let mut rest = out;
            // The room was checked above; nothing else can fail.
            let _ = write!(rest, " [{} b; {} s]\r\n", item.value_bytes, item.expiry.0);
            room - rest.len()
        });
        Visit::Next
    }

    fn take_back(&mut self) {
        self.output.truncate(self.kept.0);
        *self.left = self.kept.1;
    }

    fn keep(&mut self) {
        self.kept = (self.output.filled(), *self.left);
    }
}
