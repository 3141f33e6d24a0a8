//! Datagrams of the native protocol, in bursts.

use std::net::SocketAddr;

use micanite_wire::native::{Header, Request};

use crate::limits::COOKIE_EPOCH_S;
use crate::native::testing::{Arrival, NativeBench, Sent, check};

const PAYLOAD_BYTES: usize = 1472;

/// Datagrams of a few clients: each has one answer at most, whole, in its place, no longer than
/// it may be; and bursts are answered byte for byte as their datagrams one by one.
///
/// `data` is a sequence of datagrams. Each has two bytes of how it arrives ([`How`]), two of its
/// length, and so many bytes, or as many as there are.
pub fn native(data: &[u8]) {
    let (mut together, mut apart) = (fresh(), fresh());
    let (mut burst, mut rest) = (Vec::new(), data);
    while let Some((how, bytes)) = next(&mut rest) {
        if how.time_passes {
            answer(&mut together, &mut apart, &mut burst);
            together.now_s += COOKIE_EPOCH_S / 2;
            apart.now_s = together.now_s;
        }
        let arrival = how.arrival(&together, bytes);
        burst.push(arrival);
        if how.ends_burst {
            answer(&mut together, &mut apart, &mut burst);
        }
    }
    answer(&mut together, &mut apart, &mut burst);
}

fn fresh() -> NativeBench {
    NativeBench::new("memory-limit = 1", PAYLOAD_BYTES)
}

/// Compares a burst with its datagrams one by one, and empties it.
fn answer(together: &mut NativeBench, apart: &mut NativeBench, burst: &mut Vec<Arrival>) {
    let sent = together.round(0, burst, false);
    check(together, burst, &sent, false);
    let mut one_by_one = Sent::default();
    for arrival in burst.drain(..) {
        let sent = apart.round(0, &[arrival], false);
        one_by_one.datagrams.extend(sent.datagrams);
    }
    assert_eq!(sent, one_by_one, "a burst is not the sum of its datagrams");
}

/// The way a datagram arrives, and which of its bytes are corrected first: a mutation rarely finds a cookie
/// or a hash.
pub(super) struct How {
    peer: u8,
    has_cookie: bool,
    has_generation: bool,
    has_hashes: bool,
    has_header: bool,
    pub ends_burst: bool,
    pub time_passes: bool,
    /// A bit of a byte of its frame that is flipped on the way, where it comes in a frame.
    pub flip: Option<(usize, u8)>,
}

pub(super) fn next<'d>(rest: &mut &'d [u8]) -> Option<(How, &'d [u8])> {
    let (&[first, second, low, high], behind) = rest.split_first_chunk()?;
    let bytes = usize::from(u16::from_le_bytes([low, high])).min(behind.len());
    let (bytes, behind) = behind.split_at(bytes);
    *rest = behind;
    let how = How {
        peer: first & 3,
        has_cookie: first & 4 != 0,
        has_generation: first & 8 != 0,
        has_hashes: first & 16 != 0,
        has_header: first & 32 != 0,
        ends_burst: second & 1 != 0,
        time_passes: second & 2 != 0,
        flip: (first & 64 != 0).then_some((usize::from(second >> 2), 1 << (low & 7))),
    };
    Some((how, bytes))
}

impl How {
    pub fn arrival(&self, bench: &NativeBench, bytes: &[u8]) -> Arrival {
        let peer = match self.peer {
            3 => SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], 1000)),
            last => SocketAddr::from(([10, 0, 0, 1], 1000 + u16::from(last))),
        };
        let mut bytes = bytes.to_vec();
        if bytes.len() >= Header::BYTES {
            if self.has_header {
                bytes[..4].copy_from_slice(b"Mi\x01\x01");
                bytes[4] &= 3;
                bytes[5] = 0;
                bytes[14..16].fill(0);
            }
            if self.has_generation {
                bytes[8..12].copy_from_slice(&bench.generation().to_le_bytes());
            }
            if self.has_cookie {
                bytes[32..40].copy_from_slice(&bench.cookie(peer).to_le_bytes());
            }
            if self.has_hashes {
                set_hashes(bench, &mut bytes);
            }
        }
        Arrival { peer, bytes, forwarded: false }
    }
}

/// The right hash for each request that can be read.
fn set_hashes(bench: &NativeBench, datagram: &mut [u8]) {
    let mut at = Header::BYTES;
    while let Some((request, bytes)) = Request::read(&datagram[at..]) {
        let hash = bench.server.shared.cache.hash(request.key).0;
        datagram[at + 8..at + 16].copy_from_slice(&hash.to_le_bytes());
        at += bytes;
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::Path;

    pub fn seeds() -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/corpus/native");
        let entries = std::fs::read_dir(folder).unwrap();
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let read = files.iter().map(|file| std::fs::read(file).unwrap());
        read.collect()
    }

    #[test]
    fn fuzz_native_on_its_seeds() {
        let seeds = seeds();
        assert!(seeds.len() >= 10);
        for seed in seeds {
            native(&seed);
            for cut in 1..20 {
                native(&seed[..seed.len() * cut / 20]);
            }
        }
    }

    /// Seeds with pieces cut out, changed, doubled and put behind each other.
    pub fn edited() -> impl Strategy<Value = Vec<u8>> {
        let index = any::<prop::sample::Index>;
        let edits = prop::collection::vec((index(), 0usize..5, 0usize..40), 0..10);
        let seeds = seeds();
        ((index(), index()), edits).prop_map(move |(choice, edits)| {
            let mut input = seeds[choice.0.index(seeds.len())].clone();
            for (at, kind, with) in edits {
                let at = at.index(input.len() + 1);
                let end = input.len().min(at + with);
                match kind {
                    0 => drop(input.splice(at..end, std::iter::empty())),
                    1 => drop(input.splice(at..end.min(at + 1), std::iter::once(with as u8 * 6))),
                    2 => input[at..end].fill(0xff),
                    3 => {
                        let again = input[at..end].to_vec();
                        input.splice(at..at, again);
                    }
                    _ => input.extend_from_slice(&seeds[choice.1.index(seeds.len())]),
                }
            }
            input
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..Default::default() })]

        #[test]
        fn fuzz_native_on_mutated_seeds(input in edited()) {
            native(&input);
        }
    }
}
