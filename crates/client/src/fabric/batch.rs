//! Requests of a message, and those that wait for one.

use std::ops::DerefMut;

use micanite_wire::native::{Full, Header, Opcode, ReplyWriter, Request};

/// Token of the connection's own requests.
pub(super) const OWN_TOKEN: u64 = u64::MAX;
/// Requests of a message.
pub(super) const REQUESTS_MAX: usize = 128;

/// A request whose bytes stand in a message, or wait for one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) token: u64,
    pub(super) opcode: Opcode,
    pub(super) hash: u64,
    /// 0: none.
    pub(super) id: u64,
    pub(super) deadline_at: u64,
    /// It was sent before, and may have been executed.
    pub(super) resent: bool,
    /// The operation has ended without a reply.
    pub(super) has_ended: bool,
    at: usize,
    bytes: usize,
}

impl Record {
    pub(super) fn new(token: u64, request: &Request<'_>, deadline_at: u64) -> Self {
        Self {
            token,
            opcode: request.opcode,
            hash: request.hash,
            id: request.id,
            deadline_at,
            resent: false,
            has_ended: false,
            at: 0,
            bytes: 0,
        }
    }
}

/// A request that waits to be sent again, or until there is a connection.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) record: Record,
    pub(super) bytes: Box<[u8]>,
    pub(super) due_at: u64,
}

impl Waiting {
    pub(super) fn new(record: Record, bytes: &[u8], due_at: u64) -> Self {
        Self { record, bytes: bytes.into(), due_at }
    }
}

/// A message of requests, and the buffer that has its bytes.
#[derive(Debug)]
pub(super) struct Batch<B> {
    /// `None` while a transfer has it.
    pub(super) buffer: Option<B>,
    pub(super) records: Vec<Record>,
    filled: usize,
    /// Expected length of the reply.
    reply_bytes: usize,
}

impl<B: DerefMut<Target = [u8]>> Batch<B> {
    pub(super) fn new(buffer: B) -> Self {
        let records = Vec::with_capacity(REQUESTS_MAX);
        Self { buffer: Some(buffer), records, filled: Header::BYTES, reply_bytes: Header::BYTES }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.records.clear();
        (self.filled, self.reply_bytes) = (Header::BYTES, Header::BYTES);
    }

    /// Adds a request.
    pub(super) fn push(
        &mut self,
        record: Record,
        request: &Request<'_>,
        value_bytes: usize,
    ) -> Result<(), Full> {
        self.add(record, value_bytes, |room| request.write(room))
    }

    /// Adds a request that has waited.
    pub(super) fn push_waiting(&mut self, waiting: &Waiting, value_bytes: usize) -> Result<(), Full> {
        let bytes = &waiting.bytes;
        self.add(waiting.record, value_bytes, |room| {
            room.get_mut(..bytes.len()).ok_or(Full)?.copy_from_slice(bytes);
            Ok(bytes.len())
        })
    }

    /// Adds what `write` writes, unless the message or the expected reply becomes too long. A single request
    /// always has room for its reply.
    fn add(
        &mut self,
        record: Record,
        value_bytes: usize,
        write: impl FnOnce(&mut [u8]) -> Result<usize, Full>,
    ) -> Result<(), Full> {
        let buffer = self.buffer.as_mut().ok_or(Full)?;
        let reply_bytes = match record.opcode.answers_value() {
            true => ReplyWriter::value_reply_bytes(value_bytes, true) + ReplyWriter::ENTRY_BYTES,
            false => ReplyWriter::SHORT_BYTES_MAX,
        };
        let is_first = self.records.is_empty();
        if self.records.len() == REQUESTS_MAX || !is_first && self.reply_bytes + reply_bytes > buffer.len() {
            return Err(Full);
        }
        let bytes = write(&mut buffer[self.filled..])?;
        self.records.push(Record { at: self.filled, bytes, ..record });
        self.filled += bytes;
        self.reply_bytes += reply_bytes;
        Ok(())
    }

    /// Returns the expected length of the reply.
    pub(super) fn reply_bytes(&self) -> usize {
        self.reply_bytes
    }

    /// Returns the bytes of a request, if the buffer is here.
    pub(super) fn request(&self, number: usize) -> Option<&[u8]> {
        let record = self.records.get(number)?;
        self.buffer.as_ref()?.get(record.at..record.at + record.bytes)
    }

    /// Removes requests that were not sent, by their numbers.
    pub(super) fn retain(&mut self, mut keeps: impl FnMut(&Record) -> bool) {
        let Some(buffer) = self.buffer.as_mut() else {
            return;
        };
        let (mut filled, mut kept) = (Header::BYTES, 0);
        for number in 0..self.records.len() {
            let mut record = self.records[number];
            if !keeps(&record) {
                continue;
            }
            buffer.copy_within(record.at..record.at + record.bytes, filled);
            record.at = filled;
            filled += record.bytes;
            self.records[kept] = record;
            kept += 1;
        }
        self.records.truncate(kept);
        self.filled = filled;
    }

    /// Writes the header in front of the requests; returns the length of the message.
    pub(super) fn finish(&mut self, header: &Header) -> usize {
        let count = self.records.len() as u16;
        let writes = self.records.iter().any(|record| record.opcode.writes());
        let resent = self.records.iter().any(|record| record.resent);
        if let Some(buffer) = &mut self.buffer {
            Header { count, writes, resent, ..*header }.write(buffer);
        }
        self.filled
    }
}

#[cfg(test)]
mod tests {
    use micanite_wire::native::Requests;

    use super::*;
    use crate::driver::request;
    use crate::operation::Operation;

    fn record(token: u64, request: &Request<'_>) -> Record {
        Record::new(token, request, 0)
    }

    /// Proves that what is left of a message after some requests were removed is a message.
    #[test]
    fn removed_requests_leave_no_gap() {
        let mut batch = Batch::new(vec![0; 4096]);
        for number in 0..10_u8 {
            let (key, value) = (vec![b'k'; 1 + usize::from(number)], vec![number; 7 * usize::from(number)]);
            let request = request(&Operation::set(&key, &value), u64::from(number), 0);
            batch.push(record(u64::from(number), &request), &request, 0).unwrap();
        }
        batch.retain(|record| record.token % 3 != 0);
        let bytes = batch.finish(&Header::REQUESTS);
        let message = &batch.buffer.as_ref().unwrap()[..bytes];
        let header = Header::read(message).unwrap();
        assert_eq!((header.count, header.writes, header.resent), (6, true, false));
        let requests: Vec<_> = Requests::check(message, header.count).unwrap().collect();
        for (number, (request, token)) in requests.iter().zip([1, 2, 4, 5, 7, 8]).enumerate() {
            assert_eq!((request.hash, request.value.len() as u64), (token, 7 * token));
            assert_eq!(Request::read(batch.request(number).unwrap()).unwrap().0, *request);
        }
    }

    /// Proves that a message asks for no more values than its reply can bring, and always for one.
    #[test]
    fn expected_values_fit_one_reply() {
        let mut batch = Batch::new(vec![0; 4096]);
        let get = request(&Operation::get(b"key"), 1, 0);
        let pushed = (0..10).take_while(|token| batch.push(record(*token, &get), &get, 1000).is_ok()).count();
        assert_eq!(pushed, 3);
        batch.clear();
        assert!(batch.push(record(0, &get), &get, 100_000).is_ok() && batch.filled > Header::BYTES);
        let set = request(&Operation::set(b"key", &[0; 4096]), 1, 0);
        assert!(batch.push(record(1, &set), &set, 0).is_err());
    }
}
