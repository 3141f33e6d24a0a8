//! The bodies of the fuzz targets: each takes any bytes and panics when an invariant is broken.

mod frames;
mod native;
mod unauthenticated;

pub use frames::native_frames;
pub use native::native;
pub use unauthenticated::unauthenticated;

use micanite_wire::memcache::binary::{HEADER_BYTES, REPLY_MAGIC};
use micanite_wire::memcache::text::LINE_BYTES_MAX;

use crate::testing::{Bench, Script};

/// A conversation: input that arrives in pieces, read by a peer that takes replies in pieces, has
/// byte for byte the replies of input that arrives at once. A long line that arrives without its end
/// closes the connection, and the pieces decide where that is: then one has the first replies of the other.
///
/// The first two bytes of `data` decide where the rest is cut, and how much the peer takes.
pub fn session(data: &[u8]) {
    let [cut, appetite, input @ ..] = data else {
        return;
    };
    let whole = fresh().replies(input);
    let mut script = Script::of(pieces(input, *cut));
    script.send_bytes_max = 1 + 37 * usize::from(*appetite);
    let cut = fresh().replies_to(script);
    let (mut expected, mut seen) = (without_varying_lines(&whole), without_varying_lines(&cut));
    let is_same = if has_long_line(input) {
        for replies in [&mut expected, &mut seen] {
            replies.pop_if(|behind_the_last| behind_the_last.is_empty());
        }
        expected.starts_with(&seen) || seen.starts_with(&expected)
    } else {
        expected == seen
    };
    if !is_same {
        let (whole, cut) = (whole.escape_ascii(), cut.escape_ascii());
        panic!("at once:   {whole}\nin pieces: {cut}");
    }
}

fn has_long_line(input: &[u8]) -> bool {
    input.split(|byte| *byte == b'\n').any(|line| line.len() > LINE_BYTES_MAX)
}

fn fresh() -> Bench {
    Bench::new("memory-limit = 1\nmax-requests-per-event = 3\nenable-shutdown = true")
}

/// Pieces whose lengths change, so that every boundary of a request is cut sooner or later.
fn pieces(input: &[u8], seed: u8) -> Vec<Vec<u8>> {
    let (mut pieces, mut rest) = (Vec::new(), input);
    let mut state = u32::from(seed) | 0x100;
    while !rest.is_empty() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let longest = [1, 3, 40, 5000][(state >> 30) as usize];
        let bytes = 1 + (state >> 8) as usize % longest;
        let (piece, after) = rest.split_at(bytes.min(rest.len()));
        pieces.push(piece.to_vec());
        rest = after;
    }
    pieces
}

/// Replies without the statistics that tell of time, of how bytes came and went, and of the index, which
/// grows by turns of the worker.
fn without_varying_lines(replies: &[u8]) -> Vec<&[u8]> {
    if replies.first() == Some(&REPLY_MAGIC) {
        return without_statistics(replies);
    }
    let varies = |line: &&[u8]| {
        [
            &b"STAT rusage_"[..],
            b"STAT bytes_read ",
            b"STAT bytes_written ",
            b"STAT conn_yields ",
            b"STAT value_buffer_waits ",
            b"STAT hash_",
            b"STAT buckets ",
            b"STAT spare_buckets",
            b"STAT index_bytes ",
            b"STAT evicted_bucket_full ",
        ]
        .iter()
        .any(|name| line.starts_with(name))
    };
    replies.split(|byte| *byte == b'\n').filter(|line| !varies(line)).collect()
}

/// Replies of the binary protocol, but no statistics.
fn without_statistics(mut replies: &[u8]) -> Vec<&[u8]> {
    const STAT: u8 = 0x10;
    let mut others = Vec::new();
    while let Some((header, _)) = replies.split_first_chunk::<HEADER_BYTES>() {
        let [.., b0, b1, b2, b3] = header[..12] else { unreachable!("a header is longer") };
        let body_bytes = u32::from_be_bytes([b0, b1, b2, b3]) as usize;
        let (reply, behind) = replies.split_at(HEADER_BYTES + body_bytes);
        if header[1] != STAT {
            others.push(reply);
        }
        replies = behind;
    }
    assert!(replies.is_empty(), "a reply is cut off");
    others
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::Path;

    fn seeds() -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/corpus/session");
        let entries = std::fs::read_dir(folder).unwrap();
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files.iter().map(|file| std::fs::read(file).unwrap()).collect()
    }

    #[test]
    fn fuzz_session_on_its_seeds() {
        let seeds = seeds();
        assert!(seeds.len() >= 10);
        for seed in seeds {
            for cut in 0..8 {
                session(&[&[cut, 255 - cut], seed.as_slice()].concat());
            }
        }
    }

    const WORDS: [&[u8]; 22] = [
        b"\r\n",
        b" ",
        b"\n",
        b"get ",
        b"gats 5 ",
        b"set ",
        b"cas ",
        b"append ",
        b"incr ",
        b"delete ",
        b"noreply",
        b"flush_all",
        b"flush_namespace ",
        b":",
        b"stats\r\n",
        b"quit\r\n",
        b" 0 0 3\r\nabc\r\n",
        b"18446744073709551615",
        b" 0 0 20000\r\n",
        b"-1",
        b"mn\r\n",
        b"stats settings\r\n",
    ];

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..Default::default() })]

        #[test]
        fn fuzz_session_on_mutated_seeds(
            choice in any::<(prop::sample::Index, prop::sample::Index)>(),
            head in any::<[u8; 2]>(),
            edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..5, 0usize..40), 0..10),
        ) {
            let seeds = seeds();
            let mut input = seeds[choice.0.index(seeds.len())].clone();
            for (at, kind, with) in edits {
                let at = at.index(input.len() + 1);
                let end = input.len().min(at + with);
                match kind {
                    0 => drop(input.splice(at..end, std::iter::empty())),
                    1 => drop(input.splice(at..at, WORDS[with % WORDS.len()].iter().copied())),
                    2 => drop(input.splice(at..end.min(at + 1), std::iter::once(with as u8 * 6))),
                    3 => {
                        let again = input[at..end].to_vec();
                        input.splice(at..at, again);
                    }
                    _ => input.extend_from_slice(&seeds[choice.1.index(seeds.len())]),
                }
            }
            session(&[&head[..], &input].concat());
        }
    }
}
