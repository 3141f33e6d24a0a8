//! The text protocol: classic and meta commands become requests of a batch.

mod meta;
mod operator;
mod reply;
mod unbatched;

pub(super) use operator::{Classes, number, split};
pub(super) use unbatched::{Unbatched, delete, flush_all, report};

use arrayvec::ArrayVec;
use micanite_engine::{BATCH_REQUESTS_MAX, Condition, Expiry, Operation, Outcome, Request, ValueMeta};
use micanite_wire::memcache::text::{Command, Keys, Parser, Step, StoreVerb, expiry};

use super::batch::{self, Codec, Sink};
use super::{Context, Kind};
use crate::limits::{INPUT_BYTES, SHORT_REPLY_BYTES_MAX};
use meta::MetaForm;

type Batch<'i> = batch::Batch<'i, Text<'i>>;
type Stop<'i> = batch::Stop<Unbatched<'i>>;

/// State of the text protocol from one input to the next.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TextState {
    parser: Parser,
    /// Answered keys of the get at the start of the input.
    keys_done: u32,
}

/// Form of a reply in the text protocol.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// The reply to a key of a get. `END` follows the last one.
    Get { is_last: bool },
    /// The reply to another classic command.
    Line { noreply: bool },
    /// The reply to a meta command, by the number of its [`MetaForm`] in the batch.
    Meta { number: u8 },
}

/// A get line whose keys are being added.
#[derive(Debug)]
struct GetLine<'i> {
    keys: Keys<'i>,
    next: Option<&'i [u8]>,
    index: u32,
    operation: Operation<'i>,
    kind: Kind,
    bytes: usize,
}

/// The codec of the text protocol.
pub(super) struct Text<'i> {
    state: TextState,
    /// The parser at the start of the input.
    parser_before: Parser,
    /// The input cannot become longer before some of it is consumed.
    full: bool,
    get: Option<GetLine<'i>>,
    /// Forms of the replies to the batch's meta commands.
    meta_forms: ArrayVec<MetaForm<'i>, BATCH_REQUESTS_MAX>,
}

impl<'i> Codec<'i> for Text<'i> {
    type Form = Form;
    type Unbatched = Unbatched<'i>;
    const SHORT_REPLY_BYTES_MAX: usize = SHORT_REPLY_BYTES_MAX;

    #[inline]
    fn begin(&mut self, batch: &mut Batch<'i>, context: &Context<'_>) {
        self.meta_forms.clear();
        if self.get.is_some() {
            self.push_keys(batch, context);
        }
    }

    #[inline]
    fn parse(&mut self, batch: &mut Batch<'i>, context: &Context<'_>) -> Option<Stop<'i>> {
        let full = self.full && batch.at == 0;
        match self.state.parser.step(&batch.input[batch.at..], full) {
            Step::Incomplete => Some(Stop::Incomplete),
            Step::Command { command, line_bytes } => self.add(command, line_bytes, batch, context),
            Step::Refused { reply, line_bytes, swallow_bytes, close } => {
                let request = Unbatched::Refused { reply, swallow_bytes, close };
                Some(Stop::Unbatched { request, bytes: line_bytes })
            }
        }
    }

    fn rewind(&mut self, at: usize, key_index: u32) {
        let parser = if at == 0 { self.parser_before } else { Parser::default() };
        self.state = TextState { parser, keys_done: key_index };
    }

    #[inline]
    fn begin_value(sink: &mut Sink<'_, 'i, '_, Self>, index: usize, form: &Form, meta: ValueMeta) -> bool {
        sink.begin_value(index, form, meta)
    }

    #[inline]
    fn finish(sink: &mut Sink<'_, 'i, '_, Self>, index: usize, form: &Form, outcome: Outcome) {
        sink.finish_text(index, form, outcome);
    }
}

impl<'i> Text<'i> {
    pub fn new(state: TextState, full: bool) -> Self {
        Self { state, parser_before: state.parser, full, get: None, meta_forms: ArrayVec::new() }
    }

    /// Returns the state for the next input.
    pub fn state(&self) -> TextState {
        self.state
    }

    /// Keeps the form of a meta command's reply.
    #[inline]
    fn keep(&mut self, form: MetaForm<'i>) -> Form {
        let number = self.meta_forms.len() as u8;
        self.meta_forms.push(form);
        Form::Meta { number }
    }

    /// Adds a command whose line takes `bytes`.
    #[inline]
    fn add(
        &mut self,
        command: Command<'i>,
        bytes: usize,
        batch: &mut Batch<'i>,
        context: &Context<'_>,
    ) -> Option<Stop<'i>> {
        match command {
            Command::Get { keys, cas } => {
                return self.begin_get(keys, (Operation::Get { cas }, Kind::Get), bytes, batch, context);
            }
            Command::GetAndTouch { exptime, keys, cas } => {
                let expiry = Expiry(expiry(exptime, context.now_s));
                let operation = Operation::GetAndTouch { expiry, cas };
                return self.begin_get(keys, (operation, Kind::GetAndTouch), bytes, batch, context);
            }
            Command::Store { .. } => return add_store(command, bytes, batch, context),
            Command::Delete { key, noreply } => {
                push(key, (Operation::Delete, Kind::Delete), noreply, bytes, batch, context);
            }
            Command::Arithmetic { key, delta, decrement, noreply } => {
                let operation = if decrement {
                    (Operation::Decrement { delta }, Kind::Decrement)
                } else {
                    (Operation::Increment { delta }, Kind::Increment)
                };
                push(key, operation, noreply, bytes, batch, context);
            }
            Command::Touch { key, exptime, noreply } => {
                let expiry = Expiry(expiry(exptime, context.now_s));
                push(key, (Operation::Touch { expiry }, Kind::Touch), noreply, bytes, batch, context);
            }
            Command::Meta(line) => return meta::add(self, line, bytes, batch, context),
            other => return Some(Stop::Unbatched { request: Unbatched::Command(other), bytes }),
        }
        None
    }

    /// Adds keys of a get line, from the first that was not answered.
    #[inline]
    fn begin_get(
        &mut self,
        mut keys: Keys<'i>,
        (operation, kind): (Operation<'i>, Kind),
        bytes: usize,
        batch: &mut Batch<'i>,
        context: &Context<'_>,
    ) -> Option<Stop<'i>> {
        let index = std::mem::take(&mut self.state.keys_done);
        match keys.nth(index as usize) {
            Some(key) => {
                self.get = Some(GetLine { keys, next: Some(key), index, operation, kind, bytes });
                self.push_keys(batch, context);
                None
            }
            None if keys.is_last() => Some(Stop::Unbatched { request: Unbatched::EndOfGet, bytes }),
            None => {
                batch.at += bytes;
                None
            }
        }
    }

    /// Adds keys of the current get line, until it ends or the batch is full.
    #[inline]
    fn push_keys(&mut self, batch: &mut Batch<'i>, context: &Context<'_>) {
        let Some(get) = &mut self.get else { return };
        while let Some(key) = get.next {
            if batch.is_full() {
                return;
            }
            get.next = get.keys.next();
            let request = Request { hash: context.hash(key), key, operation: get.operation };
            let is_last = get.next.is_none() && get.keys.is_last();
            batch.push(request, get.index, get.kind, Form::Get { is_last });
            get.index += 1;
        }
        batch.at += get.bytes;
        self.get = None;
    }
}

/// Adds a command of one request that takes `bytes` of the input.
#[inline]
fn push<'i>(
    key: &'i [u8],
    (operation, kind): (Operation<'i>, Kind),
    noreply: bool,
    bytes: usize,
    batch: &mut Batch<'i>,
    context: &Context<'_>,
) {
    let request = Request { hash: context.hash(key), key, operation };
    batch.push(request, 0, kind, Form::Line { noreply });
    batch.at += bytes;
}

/// Adds a store, if its body has come.
#[inline]
fn add_store<'i>(
    command: Command<'i>,
    line_bytes: usize,
    batch: &mut Batch<'i>,
    context: &Context<'_>,
) -> Option<Stop<'i>> {
    let Command::Store { verb, key, flags, exptime, value_bytes, noreply } = command else {
        return None;
    };
    if value_bytes > context.worker.cache().value_bytes_max() {
        let request = Unbatched::TooLarge { verb, key, value_bytes, noreply };
        return Some(Stop::Unbatched { request, bytes: line_bytes });
    }
    let bytes = line_bytes + value_bytes + 2;
    let Some(body) = batch.input.get(batch.at + line_bytes..batch.at + bytes) else {
        return Some(if bytes > INPUT_BYTES { Stop::Long { bytes } } else { Stop::BodyIncomplete });
    };
    let (value, line_end) = body.split_at(value_bytes);
    if line_end != b"\r\n" {
        return Some(Stop::Unbatched { request: Unbatched::BadChunk { noreply }, bytes });
    }
    let expiry = Expiry(expiry(exptime, context.now_s));
    let operation = store_operation(verb, value, flags, expiry);
    push(key, (operation, store_kind(verb)), noreply, bytes, batch, context);
    None
}

/// Returns the engine's operation for a storage command.
#[inline]
pub(super) fn store_operation(verb: StoreVerb, value: &[u8], flags: u32, expiry: Expiry) -> Operation<'_> {
    let condition = match verb {
        StoreVerb::Set => Condition::Always,
        StoreVerb::Add => Condition::Absent,
        StoreVerb::Replace => Condition::Present,
        StoreVerb::Cas(cas) => Condition::Unchanged(cas),
        StoreVerb::Append => return Operation::Append { value },
        StoreVerb::Prepend => return Operation::Prepend { value },
    };
    Operation::Store { condition, value, flags, expiry }
}

#[inline]
pub(super) const fn store_kind(verb: StoreVerb) -> Kind {
    match verb {
        StoreVerb::Cas(_) => Kind::Cas,
        _ => Kind::Store,
    }
}
