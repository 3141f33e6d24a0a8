//! What a client asks for, and what the replies must be.

use std::sync::Arc;

/// Length of a full key; a workload may use its last bytes only.
pub(crate) const KEY_BYTES_MAX: usize = 16;

/// The operations of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mix {
    /// Single gets and sets, this many percent of them sets.
    Single { set_percent: u32 },
    /// One get with all keys of the pipeline.
    MultiGet,
}

/// A load: which items in which order, how they are asked for.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub mix: Mix,
    /// Operations in flight on a connection.
    pub pipeline: usize,
    /// 8 to [`KEY_BYTES_MAX`].
    pub key_bytes: usize,
    pub value_bytes: usize,
    /// Item numbers, drawn beforehand; connections begin at different places.
    pub items: Arc<Vec<u32>>,
}

/// Whether an operation of a pipeline is a set: the same for both servers, drawn by position.
pub(crate) fn is_set(mix: Mix, position: usize) -> bool {
    match mix {
        Mix::Single { set_percent } => {
            (position as u32).wrapping_mul(0x9e37_79b1) >> 8 & 0xffff < set_percent * 65_536 / 100
        }
        Mix::MultiGet => false,
    }
}

/// A key: the item's number in its last eight bytes.
pub(crate) type Key = [u8; KEY_BYTES_MAX];

/// The key of an item.
#[inline]
pub(crate) fn key(item: u32) -> Key {
    let mut key = *b"key-000000000000";
    let mut rest = item;
    for byte in key[8..].iter_mut().rev() {
        *byte = b"0123456789abcdef"[(rest & 15) as usize];
        rest >>= 4;
    }
    key
}

/// Writes requests and the replies they must get, for one length of keys and of values.
#[derive(Clone, Debug)]
pub(crate) struct Format {
    key_bytes: usize,
    value_bytes: usize,
    /// What stands between key and value of a set.
    set_middle: Vec<u8>,
    /// What stands between key and value of a hit.
    hit_middle: Vec<u8>,
}

impl Format {
    pub fn new(workload: &Workload) -> Self {
        let (key_bytes, value_bytes) = (workload.key_bytes, workload.value_bytes);
        assert!((8..=KEY_BYTES_MAX).contains(&key_bytes));
        Self {
            key_bytes,
            value_bytes,
            set_middle: format!(" 0 0 {value_bytes}\r\n").into_bytes(),
            hit_middle: format!(" 0 {value_bytes}\r\n").into_bytes(),
        }
    }

    /// The key as it is sent.
    #[inline]
    pub fn sent<'a>(&self, key: &'a Key) -> &'a [u8] {
        &key[KEY_BYTES_MAX - self.key_bytes..]
    }

    /// Appends the value of an item: its key over and over.
    #[inline]
    fn push_value(&self, out: &mut Vec<u8>, key: &Key) {
        let key = self.sent(key);
        let mut left = self.value_bytes;
        while left >= key.len() {
            out.extend_from_slice(key);
            left -= key.len();
        }
        out.extend_from_slice(&key[..left]);
        out.extend_from_slice(b"\r\n");
    }

    /// Appends a set.
    #[inline]
    pub fn push_set(&self, out: &mut Vec<u8>, key: &Key) {
        out.extend_from_slice(b"set ");
        out.extend_from_slice(self.sent(key));
        out.extend_from_slice(&self.set_middle);
        self.push_value(out, key);
    }

    /// Appends the `VALUE` part of a hit.
    #[inline]
    pub fn push_hit(&self, out: &mut Vec<u8>, key: &Key) {
        out.extend_from_slice(b"VALUE ");
        out.extend_from_slice(self.sent(key));
        out.extend_from_slice(&self.hit_middle);
        self.push_value(out, key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(key_bytes: usize, value_bytes: usize) -> Format {
        Format::new(&Workload {
            mix: Mix::MultiGet,
            pipeline: 1,
            key_bytes,
            value_bytes,
            items: Arc::default(),
        })
    }

    #[test]
    fn requests_read_as_they_should() {
        let mut out = Vec::new();
        format(16, 20).push_set(&mut out, &key(0xabc));
        let expected = b"set key-000000000abc 0 0 20\r\nkey-000000000abckey-\r\n";
        assert_eq!(out, expected);
        out.clear();
        format(16, 4).push_hit(&mut out, &key(1));
        assert_eq!(out, b"VALUE key-000000000001 0 4\r\nkey-\r\n");
        out.clear();
        format(8, 8).push_hit(&mut out, &key(0x1f));
        assert_eq!(out, b"VALUE 0000001f 0 8\r\n0000001f\r\n");
    }

    #[test]
    fn the_share_of_sets_is_as_asked_for() {
        let sets = (0..100_000)
            .filter(|at| is_set(Mix::Single { set_percent: 30 }, *at))
            .count();
        assert!((29_000..31_000).contains(&sets), "{sets}");
        assert!((0..1000).all(|at| is_set(Mix::Single { set_percent: 100 }, at)));
        assert!(!(0..1000).any(|at| is_set(Mix::Single { set_percent: 0 }, at)));
    }
}
