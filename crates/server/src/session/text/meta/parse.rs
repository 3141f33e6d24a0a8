//! Adds meta commands to a batch.

use micanite_engine::Request;
use micanite_wire::memcache::text::meta::{MetaLine, MetaVerb};

use super::super::unbatched::Unbatched;
use super::super::{Batch, Stop, Text};
use super::operation::operation;
use super::{META_REPLY_BYTES_MAX, MetaForm, SingleMeta};
use crate::limits::INPUT_BYTES;
use crate::session::Context;

/// Adds a meta command, if it is complete and its key is not encoded.
#[inline]
pub(in crate::session) fn add<'i>(
    codec: &mut Text<'i>,
    line: MetaLine<'i>,
    line_bytes: usize,
    batch: &mut Batch<'i>,
    context: &Context<'_>,
) -> Option<Stop<'i>> {
    let unbatched = |request, bytes| Some(Stop::Unbatched { request, bytes });
    let value_bytes = match line.verb {
        MetaVerb::Store { value_bytes } => Some(value_bytes),
        _ => None,
    };
    let body_bytes = value_bytes.map_or(0, |bytes| bytes + 2);
    let flags = match line.flags() {
        Ok(flags) => flags,
        Err(misuse) => {
            let skipped = if misuse.skips_value { body_bytes } else { 0 };
            let refused =
                Unbatched::Refused { reply: misuse.reply, swallow_bytes: skipped as u64, close: false };
            return unbatched(refused, line_bytes);
        }
    };
    if value_bytes.is_some_and(|bytes| bytes > context.worker.cache().value_bytes_max()) {
        let too_large = Unbatched::MetaTooLarge { key: line.key, base64: flags.base64, body_bytes };
        return unbatched(too_large, line_bytes);
    }
    let bytes = line_bytes + body_bytes;
    let Some(all) = batch.input.get(batch.at..batch.at + bytes) else {
        return Some(if bytes > INPUT_BYTES { Stop::Long { bytes } } else { Stop::BodyIncomplete });
    };
    let mut value = &all[line_bytes..];
    if value_bytes.is_some() {
        match value.strip_suffix(b"\r\n") {
            Some(stripped) => value = stripped,
            None => return unbatched(Unbatched::BadChunk { noreply: false }, bytes),
        }
    }
    if flags.base64 || line.verb == MetaVerb::Debug {
        return unbatched(Unbatched::Meta(SingleMeta { line, flags, value }), bytes);
    }
    let follows = context.worker.cache().follows_accesses();
    let (operation, kind) = operation(line.verb, &flags, value, context.now_s, follows);
    let request = Request { hash: context.hash(line.key), key: line.key, operation };
    batch.short_reply_bytes = META_REPLY_BYTES_MAX;
    batch.push(request, 0, kind, codec.keep(MetaForm::of(&flags)));
    batch.at += bytes;
    None
}
