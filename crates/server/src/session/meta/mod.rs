//! Meta commands: the same batches as classic commands, other words around them.
//!
//! A key in base64 has to be decoded somewhere, and a batch has no place for it: such a command,
//! and `me`, is a batch of its own ([`Alone`]).

mod alone;
mod gather;
mod operation;
mod sink;

pub(super) use alone::Alone;

use micanite_wire::memcache::text::meta::reply::LINE_BYTES_MAX;

/// The longest reply to a meta command, its value not included: a number may follow its line.
pub(super) const META_REPLY_BYTES_MAX: usize = LINE_BYTES_MAX + 24;

// An empty output has room for a value that fits a block of input, and for all replies beside it.
const _: () = assert!(
    crate::limits::OUTPUT_BYTES
        > crate::limits::INPUT_BYTES + micanite_engine::BATCH_REQUESTS_MAX * META_REPLY_BYTES_MAX
);
