//! Meta commands that are batches of one: their key is base64, or they are `me`.

use std::io::Write;

use micanite_engine::{ItemMeta, Outcome, ReplySink, Request, ValueMeta};
use micanite_wire::memcache::text::meta::base64::{self, DECODED_BYTES_MAX, ENCODED_BYTES_MAX};
use micanite_wire::memcache::text::meta::{MetaFlags, MetaLine, MetaVerb};

use super::super::{Text, TextState};
use super::operation::operation;
use super::{META_REPLY_BYTES_MAX, MetaForm};
use crate::output::Output;
use crate::session::batch::{Pending, execute};
use crate::session::{Context, Status};

const MISS: &[u8] = b"EN\r\n";

/// A complete command.
#[derive(Clone, Copy, Debug)]
pub(in crate::session) struct SingleMeta<'i> {
    pub line: MetaLine<'i>,
    pub flags: MetaFlags<'i>,
    /// The value of an ms.
    pub value: &'i [u8],
}

impl SingleMeta<'_> {
    /// Executes the command and writes its reply, or returns why it has to come again.
    pub fn execute(&self, output: &mut Output<'_>, context: &mut Context<'_>) -> Result<(), Status> {
        let mut decoded = [0; DECODED_BYTES_MAX];
        let key = match self.flags.base64 {
            false => Some(self.line.key),
            true => base64::decode(self.line.key, &mut decoded),
        };
        match key {
            // Only for `me` is base64 unchecked.
            None => output.push(MISS),
            Some(key) if self.line.verb == MetaVerb::Debug => debug(key, &self.flags, output, context),
            Some(key) => return self.run(key, output, context),
        }
        Ok(())
    }

    fn run(&self, key: &[u8], output: &mut Output<'_>, context: &mut Context<'_>) -> Result<(), Status> {
        let follows = context.worker.cache().follows_accesses();
        let (operation, kind) = operation(self.line.verb, &self.flags, self.value, context.now_s, follows);
        let requests = [Request { hash: context.hash(key), key, operation }];
        let mut codec = Text::new(TextState::default(), false);
        let form = codec.keep(MetaForm::of(&self.flags));
        let pending = [Pending { at: 0, key_index: 0, kind, form }];
        execute(&codec, &requests, &pending, META_REPLY_BYTES_MAX, output, context)
            .map_err(|unfinished| unfinished.status)
    }
}

/// Answers `me` with the metadata of an item.
fn debug(key: &[u8], flags: &MetaFlags<'_>, output: &mut Output<'_>, context: &mut Context<'_>) {
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
    // -1 means never, or unknown.
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
        // It fits: the caller has checked for more room.
        written.map_or(0, |()| all - rest.len())
    });
}

/// Keeps the metadata of an item that was found.
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
