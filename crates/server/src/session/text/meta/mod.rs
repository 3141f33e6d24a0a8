//! Meta commands, in the same batches as classic commands.
//!
//! A batch has no place for a decoded key: a command with a key in base64 is a batch of one
//! ([`SingleMeta`]), and so is `me`.

mod operation;
mod parse;
mod reply;
mod single;

pub(super) use parse::add;
pub(super) use reply::MetaForm;
pub(super) use single::SingleMeta;

use micanite_wire::memcache::text::meta::reply::LINE_BYTES_MAX;

/// Longest reply to a meta command, without its value. A number may follow its line.
pub(super) const META_REPLY_BYTES_MAX: usize = LINE_BYTES_MAX + 24;

// An empty output has room for a value that fits a block of input, and for all replies of its batch.
const _: () = assert!(
    crate::limits::OUTPUT_BYTES
        > crate::limits::INPUT_BYTES + micanite_engine::BATCH_REQUESTS_MAX * META_REPLY_BYTES_MAX
);
