//! A client that does not know a password gets nothing but refusals.

use std::path::PathBuf;
use std::sync::LazyLock;

use micanite_wire::memcache::binary::{HEADER_BYTES, REQUEST_MAGIC};
use micanite_wire::memcache::text::reply;

use crate::session::Session;
use crate::testing::{Bench, Script};

const USER: &[u8] = b"fuzz-user";
const PASSWORD: &[u8] = b"fuzz-password-that-no-input-has";

/// The file of users; it stays.
static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
    let path = std::env::temp_dir().join(format!("micanite-fuzz-users-{}", std::process::id()));
    let line = [USER, b":", PASSWORD, b"\n"].concat();
    std::fs::write(&path, line).expect("a temporary file");
    path
});

/// The first byte of `data` decides where the rest is cut. Whole or in pieces, the replies are the
/// same; nothing is executed; and each reply is one that a client without a password gets.
pub fn unauthenticated(data: &[u8]) {
    let [cut, input @ ..] = data else { return };
    if input.windows(PASSWORD.len()).any(|bytes| bytes == PASSWORD) {
        return;
    }
    let whole = replies(Script::of([input.to_vec()]));
    assert_eq!(whole, replies(Script::of(super::pieces(input, *cut))));
    if input.first() == Some(&REQUEST_MAGIC) {
        check_binary(&whole);
    } else {
        check_text(&whole);
    }
}

fn replies(mut script: Script) -> Vec<u8> {
    let file = FILE.display();
    let options = format!("memory-limit = 1\nenable-sasl = true\nauth-file = '{file}'");
    let mut bench = Bench::new(&options);
    script.ends = true;
    let replies = bench.replies_in(Session::guarded(None), script);
    let totals = bench.server.totals();
    assert_eq!((totals.cmd_get, totals.cmd_set, totals.cmd_flush), (0, 0, 0));
    assert_eq!(totals.auth_cmds, totals.auth_errors);
    replies
}

fn check_text(mut replies: &[u8]) {
    let refusals = [
        reply::UNAUTHENTICATED,
        reply::AUTH_FAILURE,
        reply::AUTH_FORMAT,
        reply::AUTH_TOO_LONG,
        reply::BAD_TERMINATION,
    ];
    while !replies.is_empty() {
        let refusal = refusals.iter().find(|refusal| replies.starts_with(refusal));
        replies = &replies[refusal.expect("only refusals").len()..];
    }
}

fn check_binary(mut replies: &[u8]) {
    while let Some((header, _)) = replies.split_first_chunk::<HEADER_BYTES>() {
        let (opcode, status) = (header[1], u16::from_be_bytes([header[6], header[7]]));
        let told = matches!(opcode, 0x20 | 0x0b) && status == 0;
        assert!(told || matches!(status, 0x04 | 0x20 | 0x21), "{opcode} {status}");
        let body_bytes = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
        replies = &replies[HEADER_BYTES + body_bytes as usize..];
    }
    assert!(replies.is_empty(), "a reply is cut off");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WORDS: [&[u8]; 16] = [
        b"\r\n",
        b" ",
        b"\n",
        b"set x 0 0 ",
        b"set x 0 0 7\r\na b c d\r\n",
        b"set x 0 0 13\r\nfuzz-user abc\r\n",
        b"12",
        b"get x\r\n",
        b"mg x v\r\n",
        b"quit\r\n",
        b"version\r\n",
        b"stats\r\n",
        b"\x80\x20\0\0\0\0\0\0\0\0\0\0abcd\0\0\0\0\0\0\0\0",
        b"\x80\x0b\0\0\0\0\0\0\0\0\0\0abcd\0\0\0\0\0\0\0\0",
        b"\x80\x21\0\x05\0\0\0\0\0\0\0\x09abcd\0\0\0\0\0\0\0\0PLAIN\0a\0b",
        b"\x80\x00\0\x01\0\0\0\0\0\0\0\x01abcd\0\0\0\0\0\0\0\0x",
    ];

    #[test]
    fn fuzz_unauthenticated_on_its_seeds() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/corpus/unauthenticated");
        let files: Vec<_> = std::fs::read_dir(folder).unwrap().collect();
        assert!(files.len() >= 2);
        for file in files {
            unauthenticated(&std::fs::read(file.unwrap().path()).unwrap());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn fuzz_unauthenticated_on_words_and_bytes(
            cut in any::<u8>(),
            words in prop::collection::vec(prop::sample::select(&WORDS[..]), 0..12),
            bytes in prop::collection::vec(any::<u8>(), 0..60),
            at in any::<prop::sample::Index>(),
        ) {
            let mut input = vec![cut];
            input.extend(words.concat());
            let at = at.index(input.len()) + 1;
            input.splice(at..at, bytes);
            unauthenticated(&input);
        }

        #[test]
        fn fuzz_unauthenticated_on_words(
            cut in any::<u8>(),
            words in prop::collection::vec(prop::sample::select(&WORDS[..]), 0..12),
        ) {
            unauthenticated(&[&[cut][..], &words.concat()].concat());
        }
    }
}
