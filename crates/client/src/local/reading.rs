//! Gets in the server's memory. They make no system call.

use std::os::unix::net::UnixStream;

use micanite_engine::{BATCH_REQUESTS_MAX, ImageReader, KeyHash, Outcome, OutsideRead, ReplySink, ValueMeta};
use micanite_local::header::Header;
use micanite_local::notes::NoteWriter;
use micanite_memory::ForkMark;

/// The mapped memory of a server that lives.
#[derive(Debug)]
pub(super) struct Reading {
    header: Header,
    notes: NoteWriter,
    /// `None`: the partitions are of an unknown kind.
    image: Option<ImageReader>,
    mark: ForkMark,
    /// The server sees its end.
    _socket: UnixStream,
}

/// Result of a look at a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// The value is in the buffer.
    Found {
        flags: u32,
    },
    Missing,
    /// The server has to be asked.
    Ask,
    /// The server has died, or this process is a child of the one that attached.
    Gone,
}

/// Receives one value.
struct Into<'a> {
    value: &'a mut Vec<u8>,
    flags: u32,
    is_hit: bool,
}

impl ReplySink for Into<'_> {
    #[inline]
    fn reserve(&mut self, _: usize, meta: ValueMeta) -> Option<&mut [u8]> {
        self.flags = meta.flags;
        // The bytes of an earlier value are overwritten, and need no zeros.
        self.value.resize(meta.value_bytes, 0);
        Some(self.value)
    }

    #[inline]
    fn rollback(&mut self, _: usize) {}

    #[inline]
    fn finish(&mut self, _: usize, outcome: Outcome) {
        self.is_hit = outcome == Outcome::Hit;
    }
}

impl Reading {
    pub(super) fn new(
        socket: UnixStream,
        header: Header,
        notes: NoteWriter,
        image: Option<ImageReader>,
        mark: ForkMark,
    ) -> Self {
        Self { header, notes, image, mark, _socket: socket }
    }

    /// Returns whether the partitions are of a known kind.
    pub(super) fn reads_memory(&self) -> bool {
        self.image.is_some()
    }

    /// Returns whether the server lives, and this process is the one that attached.
    #[inline]
    pub(super) fn is_valid(&self) -> bool {
        self.mark.is_of_this_process() && self.header.is_alive()
    }

    /// Returns the hash of a key, by which writes on their way are known.
    #[inline]
    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        self.image.as_ref().map_or(0, |image| image.hash(key).0)
    }

    /// Looks a key up. A value replaces the contents of the buffer.
    #[inline]
    pub(super) fn get(&mut self, hash: u64, key: &[u8], value: &mut Vec<u8>) -> Look {
        let Some(image) = &self.image else {
            return if self.is_valid() { Look::Ask } else { Look::Gone };
        };
        let mut into = Into { value, flags: 0, is_hit: false };
        let read = image.get((0, KeyHash(hash), key), self.header.now_s(), &mut into);
        let (flags, is_hit) = (into.flags, into.is_hit);
        // Afterwards: what a server wrote that has died meanwhile is not returned.
        if !self.is_valid() {
            return Look::Gone;
        }
        self.judge(hash, read, is_hit, flags)
    }

    /// Looks up to [`BATCH_REQUESTS_MAX`] keys up. `take` gets each result in order; that of a key that was
    /// found with its value. The first one that the server did not live to see is gone, and so are all later.
    pub(super) fn get_batch(
        &mut self,
        keys: &[(u64, &[u8])],
        value: &mut Vec<u8>,
        mut take: impl FnMut(usize, Look, &[u8]),
    ) {
        let Some(image) = &self.image else {
            return (0..keys.len()).for_each(|index| take(index, Look::Ask, &[]));
        };
        let mut hashed = [(KeyHash(0), &[][..]); BATCH_REQUESTS_MAX];
        let count = keys.len().min(BATCH_REQUESTS_MAX);
        for (place, (hash, key)) in hashed.iter_mut().zip(keys) {
            *place = (KeyHash(*hash), *key);
        }
        let now_s = self.header.now_s();
        let mut into = Into { value, flags: 0, is_hit: false };
        let (mut hits, mut misses) = (0, 0);
        let (notes, header) = (&mut self.notes, &self.header);
        image.get_batch(&hashed[..count], now_s, &mut into, |into, index, read| {
            let look = match read {
                // As for one key: what a server wrote that has died meanwhile is not returned.
                _ if !header.is_alive() => Look::Gone,
                OutsideRead::Done { note } => {
                    if note {
                        notes.note(keys[index].0);
                    }
                    if into.is_hit { Look::Found { flags: into.flags } } else { Look::Missing }
                }
                OutsideRead::NoRoom | OutsideRead::Undecided => Look::Ask,
            };
            hits += u64::from(matches!(look, Look::Found { .. }));
            misses += u64::from(look == Look::Missing);
            take(index, look, into.value);
        });
        self.notes.count(hits, misses);
    }

    #[inline]
    fn judge(&mut self, hash: u64, read: OutsideRead, is_hit: bool, flags: u32) -> Look {
        match read {
            OutsideRead::Done { note } => {
                if note {
                    self.notes.note(hash);
                }
                self.notes.count(u64::from(is_hit), u64::from(!is_hit));
                if is_hit { Look::Found { flags } } else { Look::Missing }
            }
            OutsideRead::NoRoom | OutsideRead::Undecided => Look::Ask,
        }
    }
}
