//! Stores whose value does not fit a block of input: it is read into a value buffer, behind its
//! key.

use micanite_engine::Request;
use micanite_wire::memcache::binary::{Command, Head, Step, Store, step};
use micanite_wire::memcache::text::StoreVerb;

use super::super::body::Body;
use super::super::gather::kind;
use super::gather::{Pending, Role, store_operation};
use super::sink::Sink;
use super::{Context, Progress, SHORT_REPLY_BYTES_MAX, Session, Status};
use crate::output::Output;

/// The header of a store whose value is on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LongStore {
    verb: StoreVerb,
    cas: u64,
    key_bytes: usize,
    flags: u32,
    exptime: u32,
    quiet: bool,
    head: Head,
}

impl Session {
    /// As [`Session::begin_body`].
    pub(in super::super) fn begin_body_binary(&mut self, input: &[u8], buffer: &mut [u8]) -> Body {
        let Step::Command { command: Command::Store(store), head, bytes } = step(input) else {
            panic!("the input of NeedBody begins with a store");
        };
        let (key, value) = buffer.split_at_mut(store.key.len());
        assert_eq!(value.len(), store.value_bytes);
        key.copy_from_slice(store.key);
        let body = &input[bytes..];
        let there = body.len().min(value.len());
        value[..there].copy_from_slice(&body[..there]);
        self.binary_store = Some(LongStore {
            verb: store.verb,
            cas: store.cas,
            key_bytes: store.key.len(),
            flags: store.flags,
            exptime: store.exptime,
            quiet: store.quiet,
            head,
        });
        Body { consumed: bytes + there, filled: store.key.len() + there }
    }

    /// As [`Session::end_body`].
    pub(in super::super) fn end_body_binary(
        &mut self,
        buffer: &[u8],
        output: &mut Output<'_>,
        context: &mut Context<'_>,
    ) -> Progress {
        let bytes = SHORT_REPLY_BYTES_MAX;
        let status = if output.room() < bytes {
            Status::NeedOutput { bytes }
        } else {
            let long = self.binary_store.take().expect("a store was begun");
            let (key, value) = buffer.split_at(long.key_bytes);
            let store = Store {
                verb: long.verb,
                cas: long.cas,
                key,
                flags: long.flags,
                exptime: long.exptime,
                value_bytes: value.len(),
                quiet: long.quiet,
            };
            execute(&store, long.head, value, output, context);
            Status::NeedInput
        };
        Progress { consumed: 0, status }
    }
}

/// A store that is a batch of its own.
fn execute(store: &Store<'_>, head: Head, value: &[u8], output: &mut Output<'_>, context: &mut Context<'_>) {
    let requests = [Request {
        hash: context.hash(store.key),
        key: store.key,
        operation: store_operation(store, value, context.now_s),
    }];
    let pending = [Pending {
        at: 0,
        kind: kind(store.verb),
        head,
        quiet: store.quiet,
        role: Role::Write(Some(store.verb)),
    }];
    let mut sink = Sink::new(&requests, &pending, output, context.counters);
    context.execute(&requests, &mut sink);
}
