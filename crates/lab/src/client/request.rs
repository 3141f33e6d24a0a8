//! What a client asks for, and what the replies must be.

use std::sync::Arc;

/// Keys have 16 bytes.
pub(crate) const KEY_BYTES: usize = 16;

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

/// The key of an item.
#[inline]
pub(crate) fn key(item: u32) -> [u8; KEY_BYTES] {
    let mut key = *b"key-000000000000";
    let mut rest = item;
    for byte in key[8..].iter_mut().rev() {
        *byte = b"0123456789abcdef"[(rest & 15) as usize];
        rest >>= 4;
    }
    key
}

/// Appends the value of an item: its key over and over.
#[inline]
pub(crate) fn push_value(out: &mut Vec<u8>, key: &[u8; KEY_BYTES], value_bytes: usize) {
    let mut left = value_bytes;
    while left >= KEY_BYTES {
        out.extend_from_slice(key);
        left -= KEY_BYTES;
    }
    out.extend_from_slice(&key[..left]);
}

/// Appends a set.
pub(crate) fn push_set(out: &mut Vec<u8>, key: &[u8; KEY_BYTES], value_bytes: usize) {
    out.extend_from_slice(b"set ");
    out.extend_from_slice(key);
    out.extend_from_slice(b" 0 0 ");
    out.extend_from_slice(value_bytes.to_string().as_bytes());
    out.extend_from_slice(b"\r\n");
    push_value(out, key, value_bytes);
    out.extend_from_slice(b"\r\n");
}

/// Appends the `VALUE` part of a hit.
pub(crate) fn push_hit(out: &mut Vec<u8>, key: &[u8; KEY_BYTES], value_bytes: usize) {
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(key);
    out.extend_from_slice(b" 0 ");
    out.extend_from_slice(value_bytes.to_string().as_bytes());
    out.extend_from_slice(b"\r\n");
    push_value(out, key, value_bytes);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_read_as_they_should() {
        let mut out = Vec::new();
        push_set(&mut out, &key(0xabc), 20);
        assert_eq!(
            out,
            b"set key-000000000abc 0 0 20\r\nkey-000000000abckey-\r\n"
        );
        out.clear();
        push_hit(&mut out, &key(1), 4);
        assert_eq!(out, b"VALUE key-000000000001 0 4\r\nkey-\r\n");
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
