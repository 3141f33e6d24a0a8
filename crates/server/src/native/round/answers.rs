//! Answers without replies to requests: refusals, and pages of the directory.

use micanite_wire::native::{DirectoryRequest, Header, Kind, Status};

use super::Round;
use super::outbox::{Outbox, Source};
use super::sink::Open;
use crate::native::directory;

impl<O: Outbox + Send> Round<'_, '_, O> {
    /// Answers a datagram by a header alone.
    #[cold]
    pub(super) fn refuse(&mut self, header: &Header, source: Source, status: Status) {
        match status {
            Status::Version => self.counters.other_versions.add(1),
            _ => self.counters.bad_datagrams.add(1),
        }
        let kind = match header.kind {
            Kind::Requests => Kind::Replies,
            Kind::DirectoryRequest => Kind::DirectoryReply,
            _ => return,
        };
        let proof = self.prove(header, source);
        let reply =
            Header { generation: self.generation, status, cookie: proof.renewal, ..header.reply(kind) };
        self.send_header(source, &reply);
    }

    fn send_header(&mut self, source: Source, header: &Header) {
        self.send_alone(source, |out| {
            header.write(out);
            Some(Header::BYTES)
        });
    }

    /// Answers with a page of the directory, or with the cookie alone: only a proved address is told the
    /// hash seed.
    #[cold]
    pub(super) fn answer_directory(&mut self, header: Header, datagram: &[u8], source: Source) {
        let Some(request) = DirectoryRequest::read(datagram) else {
            self.refuse(&header, source, Status::BadRequest);
            return;
        };
        let proof = self.prove(&header, source);
        let reply = Header {
            generation: self.generation,
            cookie: proof.renewal,
            ..header.reply(Kind::DirectoryReply)
        };
        if !proof.proven {
            self.counters.unproven.add(1);
            let status = Status::Unproven;
            self.send_header(source, &Header { status, ..reply });
            return;
        }
        if !directory::begins_page(&self.context.shared.cache, self.native, request.first) {
            self.refuse(&header, source, Status::BadRequest);
            return;
        }
        self.counters.directories.add(1);
        let limit = datagram.len().min(self.native.payload_bytes);
        let (cache, native) = (&*self.context.shared.cache, self.native);
        let worker = self.context.worker.number();
        self.send_alone(source, |out| {
            let what = (worker, &reply);
            directory::write(cache, native, what, request.first, &mut out[..limit])
        });
    }

    /// Sends a datagram that is not made of replies.
    fn send_alone(&mut self, source: Source, write: impl FnOnce(&mut [u8]) -> Option<usize>) {
        self.flush();
        Open::close(&mut self.open, self.out);
        self.out.open(source);
        if let Some(bytes) = write(self.out.slot()) {
            self.out.commit(bytes);
        }
    }
}
