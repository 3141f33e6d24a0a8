//! Meta commands on their way into a batch.

use micanite_wire::memcache::text::Parser;
use micanite_wire::memcache::text::meta::{MetaLine, MetaVerb};

use super::super::Context;
use super::super::answer::Aside;
use super::super::gather::{Gather, Stop};
use super::Alone;
use super::operation::operation;
use crate::limits::INPUT_BYTES;

impl<'i> Gather<'i> {
    /// Adds a meta command, if it is complete and has its key at hand.
    #[inline]
    pub(in super::super) fn meta(
        &mut self,
        line: MetaLine<'i>,
        line_bytes: usize,
        parser_before: Parser,
        context: &Context<'_>,
    ) -> Option<Stop<'i>> {
        let aside = |aside, bytes| Some(Stop::Aside { aside, bytes, parser_before });
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
                    Aside::Refused { reply: misuse.reply, swallow_bytes: skipped as u64, close: false };
                return aside(refused, line_bytes);
            }
        };
        if value_bytes.is_some_and(|bytes| bytes > context.worker.cache().value_bytes_max()) {
            let too_large = Aside::MetaTooLarge { key: line.key, base64: flags.base64, body_bytes };
            return aside(too_large, line_bytes);
        }
        let bytes = line_bytes + body_bytes;
        let Some(all) = self.input.get(self.at..self.at + bytes) else {
            return Some(if bytes > INPUT_BYTES { Stop::Body { bytes } } else { Stop::BodyIncomplete });
        };
        let (line_text, body) = all.split_at(line_bytes);
        let mut value = body;
        if value_bytes.is_some() {
            match body.strip_suffix(b"\r\n") {
                Some(stripped) => value = stripped,
                None => return aside(Aside::BadChunk { noreply: false }, bytes),
            }
        }
        if flags.base64 || line.verb == MetaVerb::Debug {
            let alone = Alone { line: line_text, value };
            return aside(Aside::Meta(alone), bytes);
        }
        let follows = context.worker.cache().follows_accesses();
        let (operation, kind) = operation(line.verb, &flags, value, context.now_s, follows);
        self.has_meta = true;
        let stop = self.push(line.key, operation, (kind, flags.quiet), bytes, context);
        if let Some(pending) = self.pending.last_mut() {
            pending.meta = true;
        }
        stop
    }
}
