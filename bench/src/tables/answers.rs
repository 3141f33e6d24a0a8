//! Replies to the requests of a batch, written straight into the datagrams that leave.

use micanite_engine::{Operation, Request};
use micanite_server::native::{Outbox, Source};
use micanite_wire::native::{Header, Kind, Opcode, ReplyWriter, Status};

/// A datagram that is being answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    /// Number in the round.
    pub serial: u32,
    pub header: Header,
    pub source: Source,
}

/// The reply that is being written.
#[derive(Debug)]
pub(super) struct Open {
    serial: u32,
    header: Header,
    writer: ReplyWriter,
}

impl Open {
    /// Completes the reply.
    #[inline]
    pub fn close(self, out: &mut impl Outbox) {
        let bytes = self.writer.finish(out.slot(), &self.header);
        out.commit(bytes);
    }
}

/// Takes the answers to a batch, in the order of its requests.
pub(super) struct Answers<'a, O> {
    pub requests: &'a [Request<'a>],
    /// Place of each request's datagram in `heads`.
    pub head_of: &'a [u8],
    pub heads: &'a [Head],
    pub open: &'a mut Option<Open>,
    pub out: &'a mut O,
    /// The longest reply.
    pub limit: usize,
    /// Requests that found or stored something.
    pub succeeded: u64,
}

impl<O: Outbox> Answers<'_, O> {
    /// Room for the value of a GET that has found one: [`Answers::found`] completes it.
    #[inline]
    pub fn room(&mut self, index: usize, flags: u32, value_bytes: usize) -> Option<&mut [u8]> {
        let hash = self.requests[index].hash.0;
        let writer = self.writer_of(index);
        if writer.room() < ReplyWriter::value_reply_bytes(value_bytes, false) {
            return None;
        }
        let writer = *writer;
        let what = (Opcode::Get, flags, hash);
        Some(writer.begin_value(self.out.slot(), what, None, value_bytes))
    }

    /// The value is in its room.
    #[inline]
    pub fn found(&mut self, index: usize, value_bytes: usize) {
        self.succeeded += 1;
        self.writer_of(index).end_value(value_bytes, false);
    }

    /// A reply without a value.
    #[inline]
    pub fn status(&mut self, index: usize, status: Status) {
        self.succeeded += u64::from(status == Status::Ok);
        let request = &self.requests[index];
        let opcode = match request.operation {
            Operation::Get { .. } => Opcode::Get,
            _ => Opcode::Set,
        };
        let hash = request.hash.0;
        let mut writer = *self.writer_of(index);
        writer.push(self.out.slot(), (opcode, status), hash, 0);
        *self.writer_of(index) = writer;
    }

    /// The datagram that a request's reply belongs to.
    #[inline]
    fn writer_of(&mut self, index: usize) -> &mut ReplyWriter {
        let head = &self.heads[usize::from(self.head_of[index])];
        if self.open.as_ref().is_none_or(|open| open.serial != head.serial) {
            if let Some(open) = self.open.take() {
                open.close(self.out);
            }
            self.out.open(head.source);
        }
        let limit = self.limit;
        let open = self.open.get_or_insert_with(|| Open {
            serial: head.serial,
            header: head.header.reply(Kind::Replies),
            writer: ReplyWriter::new(limit),
        });
        &mut open.writer
    }
}
