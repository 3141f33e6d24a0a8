//! Writing a recording.

use std::io::{self, Write};

use super::{
    End, HEADER_BYTES, MAGIC, NAMES_PREFIX, PREFIX_BYTES_MAX, RECORD_BYTES, Record, Seen, TELLS_SEEN,
};

#[derive(Debug)]
pub struct RecordingWriter<W> {
    to: W,
}

impl<W: Write> RecordingWriter<W> {
    /// Bytes of what [`Self::tell_seen`] writes.
    pub const SEEN_BYTES: usize = RECORD_BYTES + Seen::BYTES;

    /// Begins one at a Unix time. `hash_max` says which fraction of all keys it has: (`hash_max` + 1) /
    /// 2^64; `hash_id` by which hash.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(mut to: W, start_unix_ms: u64, hash_max: u64, hash_id: u64) -> io::Result<Self> {
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(&MAGIC);
        header[8..16].copy_from_slice(&start_unix_ms.to_le_bytes());
        header[16..24].copy_from_slice(&hash_max.to_le_bytes());
        header[24..32].copy_from_slice(&hash_id.to_le_bytes());
        to.write_all(&header)?;
        Ok(Self { to })
    }

    /// Bytes of what [`Self::name_prefix`] writes.
    pub const fn prefix_bytes(prefix: &[u8]) -> usize {
        let bytes = if prefix.len() < PREFIX_BYTES_MAX { prefix.len() } else { PREFIX_BYTES_MAX };
        (1 + bytes.div_ceil(RECORD_BYTES)) * RECORD_BYTES
    }

    /// Gives a prefix its number; of a longer one the first 255 bytes.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn name_prefix(&mut self, number: u16, prefix: &[u8]) -> io::Result<()> {
        let prefix = &prefix[..prefix.len().min(PREFIX_BYTES_MAX)];
        let mut record = [0; RECORD_BYTES];
        record[20..22].copy_from_slice(&number.to_le_bytes());
        record[22] = prefix.len() as u8;
        record[23] = NAMES_PREFIX;
        self.to.write_all(&record)?;
        for part in prefix.chunks(RECORD_BYTES) {
            let mut text = [0; RECORD_BYTES];
            text[..part.len()].copy_from_slice(part);
            self.to.write_all(&text)?;
        }
        Ok(())
    }

    /// Writes a request.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&mut self, record: &Record) -> io::Result<()> {
        self.to.write_all(&record.to_bytes())
    }

    /// Tells what was seen until now, and whether the recording ends here.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn tell_seen(&mut self, seen: &Seen, time_ms: u32, end: Option<End>) -> io::Result<()> {
        let mut record = [0; RECORD_BYTES];
        record[8..12].copy_from_slice(&time_ms.to_le_bytes());
        record[22] = end.map_or(0, |end| end as u8);
        record[23] = TELLS_SEEN;
        self.to.write_all(&record)?;
        self.to.write_all(&seen.to_bytes())
    }

    /// Hands everything on.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    /// Returns the file or buffer that it writes to.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.to
    }
}
