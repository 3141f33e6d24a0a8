//! A meta command that is a batch of its own: its key is base64, or its value came in a buffer, or
//! it is `me`.

use std::io::Write;

use micanite_engine::{ItemMeta, Outcome, ReplySink, Request, ValueMeta};
use micanite_wire::memcache::text::meta::base64::{self, DECODED_BYTES_MAX, ENCODED_BYTES_MAX};
use micanite_wire::memcache::text::meta::{MetaFlags, MetaLine, MetaVerb};
use micanite_wire::memcache::text::{Command, Parser, Step};

use super::super::Context;
use super::super::gather::Pending;
use super::super::sink::{Around, Sink};
use super::META_REPLY_BYTES_MAX;
use super::operation::operation;
use crate::output::Output;

const MISS: &[u8] = b"EN\r\n";

/// A complete command.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Alone<'i> {
    /// Its line.
    pub line: &'i [u8],
    /// The value of an ms.
    pub value: &'i [u8],
}

impl Alone<'_> {
    /// Answers it; or says how large an empty output has to be.
    pub fn execute(&self, output: &mut Output<'_>, context: &mut Context<'_>) -> Result<(), usize> {
        // It was looked at before: it is a meta command, and its flags are right.
        let Step::Command { command: Command::Meta(line), .. } = Parser::default().step(self.line, false)
        else {
            return Ok(());
        };
        let Ok(flags) = line.flags() else {
            return Ok(());
        };
        let mut decoded = [0; DECODED_BYTES_MAX];
        let key = if flags.base64 {
            match base64::decode(line.key, &mut decoded) {
                Some(key) => key,
                // Only `me` comes here with a key that is none.
                None => {
                    output.push(MISS);
                    return Ok(());
                }
            }
        } else {
            line.key
        };
        if line.verb == MetaVerb::Debug {
            debug(key, &flags, output, context);
            return Ok(());
        }
        self.run((line, &flags), key, output, context)
    }

    fn run(
        &self,
        (line, flags): (MetaLine<'_>, &MetaFlags),
        key: &[u8],
        output: &mut Output<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), usize> {
        let follows = context.worker.cache().follows_accesses();
        let (operation, kind) = operation(line.verb, flags, self.value, context.now_s, follows);
        let requests = [Request { hash: context.hash(key), key, operation }];
        let pending =
            [Pending { at: 0, key_index: 0, kind, noreply: flags.quiet, ends_get: false, meta: true }];
        let around = Around {
            input: self.line,
            now_s: context.now_s,
            base64: flags.base64,
            short_bytes: META_REPLY_BYTES_MAX,
        };
        let mut sink = Sink::new(&requests, &pending, around, output, context.counters);
        match context.execute(&requests, &mut sink) {
            1 => Ok(()),
            _ => Err(sink.bytes_needed()),
        }
    }
}

/// me: what is known of an item.
fn debug(key: &[u8], flags: &MetaFlags, output: &mut Output<'_>, context: &mut Context<'_>) {
    let (operation, _) = operation(MetaVerb::Debug, flags, &[], context.now_s, false);
    let request = Request { hash: context.hash(key), key, operation };
    let mut sink = Described(None);
    context.execute(&[request], &mut sink);
    let Some(item) = sink.0 else {
        return output.push(MISS);
    };
    output.push(b"ME ");
    if flags.base64 {
        let mut text = [0; ENCODED_BYTES_MAX];
        let end = base64::encode(key, &mut text);
        output.push(&text[..end]);
    } else {
        output.push(key);
    }
    // Never, and not known, are -1.
    let since_now = |at_s: u32| i64::from(at_s) - i64::from(context.now_s);
    let exp = match item.expiry.0 {
        0 => -1,
        at_s => since_now(at_s),
    };
    let la = match item.access_s {
        0 => -1,
        at_s => -since_now(at_s),
    };
    let fetched = if item.fetched { "yes" } else { "no" };
    output.push_with(|out| {
        let all = out.len();
        let mut rest = out;
        let written = write!(
            rest,
            " exp={exp} la={la} cas={} fetch={fetched} cls=1 size={}\r\n",
            item.cas, item.item_bytes
        );
        // There is room: the caller has asked for more than that.
        written.map_or(0, |()| all - rest.len())
    });
}

/// Keeps what is said of an item that is there.
struct Described(Option<ItemMeta>);

impl ReplySink for Described {
    fn reserve(&mut self, _: usize, _: ValueMeta) -> Option<&mut [u8]> {
        None
    }
    fn rollback(&mut self, _: usize) {}
    fn describe(&mut self, _: usize, item: ItemMeta) {
        self.0 = Some(item);
    }
    fn finish(&mut self, _: usize, outcome: Outcome) {
        if outcome != Outcome::Hit {
            self.0 = None;
        }
    }
}
