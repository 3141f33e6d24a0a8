//! Compressed files: zstd is unpacked on a thread of its own, ahead of who reads.

use std::io::{self, BufRead, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// The first bytes of a zstd frame.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The last three of the first bytes of a frame to skip; parallel compressors begin with one.
const ZSTD_SKIPPED_MAGIC: [u8; 3] = [0x2a, 0x4d, 0x18];
/// Bytes that are handed over at once.
const CHUNK_BYTES: usize = 1 << 20;
/// Chunks that may wait to be read.
const CHUNKS_AHEAD: usize = 2;
/// Compressions that we do not unpack: their first bytes, and the command that does.
const OTHERS: [(&[u8], &str); 3] = [(b"\x1f\x8b", "gzip"), (b"\xfd7zXZ", "xz"), (b"BZh", "bzip2")];

/// Returns whether a file that begins like this is compressed by zstd.
///
/// # Errors
/// It is compressed by something else; the sentence says what to do.
pub(crate) fn is_zstd(first: &[u8]) -> Result<bool, String> {
    if let Some((_, command)) = OTHERS.iter().find(|(magic, _)| first.starts_with(magic)) {
        return Err(format!(
            "it is compressed by {command}: unpack it first ({command} -dc FILE >UNPACKED); only zstd is \
             unpacked here"
        ));
    }
    let is_skipped = first.get(1..4) == Some(&ZSTD_SKIPPED_MAGIC) && first[0] >> 4 == 5;
    Ok(first.starts_with(&ZSTD_MAGIC) || is_skipped)
}

/// Unpacks the zstd frames of a file.
///
/// # Errors
/// When a thread or a decoder cannot be started.
pub(crate) fn zstd(packed: impl BufRead + Send + 'static) -> io::Result<impl BufRead> {
    let decoder = zstd::stream::read::Decoder::with_buffer(packed)?;
    let (chunks_to, chunks) = sync_channel(CHUNKS_AHEAD);
    let (empty, empty_from) = sync_channel(CHUNKS_AHEAD + 2);
    thread::Builder::new()
        .name("unpack".to_owned())
        .spawn(move || unpack(decoder, &chunks_to, &empty_from))?;
    Ok(Unpacked { chunks, empty, chunk: Vec::new(), read: 0 })
}

type Chunk = io::Result<Vec<u8>>;

/// Ends at the end of the file, at an error, or when nobody reads any more.
fn unpack(mut from: impl Read, to: &SyncSender<Chunk>, empty: &Receiver<Vec<u8>>) {
    loop {
        let mut chunk = empty.try_recv().unwrap_or_default();
        chunk.resize(CHUNK_BYTES, 0);
        let read = fill(&mut from, &mut chunk);
        let (bytes, failed) = match read {
            Ok(bytes) => (bytes, None),
            Err((bytes, error)) => (bytes, Some(error)),
        };
        let is_last = bytes < CHUNK_BYTES;
        chunk.truncate(bytes);
        if to.send(Ok(chunk)).is_err() {
            return;
        }
        if let Some(error) = failed {
            let told = format!(
                "it cannot be unpacked to its end ({error}): it is damaged or cut off; `zstd -t FILE` checks \
                 it"
            );
            let _ = to.send(Err(io::Error::new(error.kind(), told)));
            return;
        }
        if is_last {
            return;
        }
    }
}

/// Fills the chunk as far as there is something, and says how far.
fn fill(from: &mut impl Read, chunk: &mut [u8]) -> Result<usize, (usize, io::Error)> {
    let mut filled = 0;
    while filled < chunk.len() {
        match from.read(&mut chunk[filled..]) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err((filled, error)),
        }
    }
    Ok(filled)
}

/// Bytes that the thread has unpacked.
struct Unpacked {
    chunks: Receiver<Chunk>,
    empty: SyncSender<Vec<u8>>,
    chunk: Vec<u8>,
    read: usize,
}

impl BufRead for Unpacked {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        // An empty chunk may come before an error.
        while self.read == self.chunk.len() {
            // The thread is gone: the end, or the error has been told.
            let Ok(next) = self.chunks.recv() else {
                return Ok(&[]);
            };
            let used = std::mem::replace(&mut self.chunk, next?);
            self.read = 0;
            let _ = self.empty.try_send(used);
        }
        Ok(&self.chunk[self.read..])
    }

    fn consume(&mut self, bytes: usize) {
        self.read = (self.read + bytes).min(self.chunk.len());
    }
}

impl Read for Unpacked {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let bytes = self.fill_buf()?.read(to)?;
        self.consume(bytes);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    fn unpacked(packed: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        zstd(io::Cursor::new(packed))?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn text(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| (at * at / 7) as u8).collect()
    }

    #[test]
    fn frames_are_unpacked_one_after_the_other() {
        for bytes in [0, 1, CHUNK_BYTES, 3 * CHUNK_BYTES, 5 * CHUNK_BYTES + 17] {
            let text = text(bytes);
            let packed = zstd::encode_all(&text[..], 1).unwrap();
            assert!(is_zstd(&packed).unwrap());
            assert_eq!(unpacked([&packed[..], &packed].concat()).unwrap(), text.repeat(2));
        }
    }

    #[test]
    fn damage_is_reported_behind_readable_requests() {
        let text = text(2 * CHUNK_BYTES);
        let mut packed = zstd::encode_all(&text[..], 1).unwrap();
        let cut = packed[..packed.len() - 3].to_vec();
        let error = unpacked(cut).unwrap_err();
        assert!(error.to_string().contains("cut off"), "{error}");
        packed[5..40].fill(0xff);
        assert!(unpacked(packed).is_err());
    }

    #[test]
    fn the_thread_ends_when_nobody_reads() {
        let packed = zstd::encode_all(&text(64 * CHUNK_BYTES)[..], 1).unwrap();
        let (gone_to, gone) = sync_channel::<()>(0);
        /// Tells when the thread lets go of it.
        struct DropSignal(
            io::Cursor<Vec<u8>>,
            #[expect(dead_code, reason = "dropped with it")] SyncSender<()>,
        );
        impl Read for DropSignal {
            fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
                self.0.read(to)
            }
        }
        let mut reader = zstd(BufReader::new(DropSignal(io::Cursor::new(packed), gone_to))).unwrap();
        assert!(!reader.fill_buf().unwrap().is_empty());
        drop(reader);
        assert!(gone.recv().is_err());
    }

    #[test]
    fn other_compressions_are_named() {
        assert!(is_zstd(b"\x1f\x8b\x08\0").unwrap_err().contains("gzip -dc"));
        assert!(is_zstd(&[0x52, 0x2a, 0x4d, 0x18, 4]).unwrap());
        assert!(!is_zstd(b"key,op,size").unwrap() && !is_zstd(b"").unwrap());
    }
}
