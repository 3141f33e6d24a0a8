//! Any bytes, for every reader.

use std::io::{BufReader, Cursor};
use std::path::Path;

use crate::trace::open::Format;
use crate::trace::{Key, Request, formats};

/// A line of CacheLib's may stand for any number of requests.
const REQUESTS_MAX: usize = 10_000;
/// Longest text of a key: a line.
const KEY_BYTES_MAX: usize = 1 << 16;

/// Whatever the bytes are, each reader comes to an end, its times never go back, and it says the same
/// in whatever pieces it gets them.
pub fn trace_readers(data: &[u8]) {
    let _ = Format::found("x.csv", data);
    for format in Format::ALL {
        let whole = read(format, data, data.len().max(1));
        let piece_bytes = 1 + usize::from(data.first().copied().unwrap_or(0) % 64);
        assert_eq!(whole, read(format, data, piece_bytes), "{format}");
        if format != Format::CacheLib {
            // A record or a line that is a request is longer than its name.
            assert!(whole.requests <= data.len(), "{format}");
        }
    }
}

/// Summary of what a reader says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    requests: usize,
    digest: u64,
    remarks: Vec<String>,
    failure: Option<String>,
}

fn read(format: Format, data: &[u8], piece_bytes: usize) -> Said {
    let mut said = Said::default();
    let bytes =
        BufReader::with_capacity(piece_bytes, Pieces { left: Cursor::new(data.to_vec()), piece_bytes });
    let mut reader = match formats::reader(format, Box::new(bytes), Path::new("x")) {
        Ok(reader) => reader,
        Err(failure) => {
            said.failure = Some(failure.reason);
            return said;
        }
    };
    let mut time_ms = 0;
    while said.requests < REQUESTS_MAX {
        match reader.next() {
            Ok(Some(request)) => {
                assert!(request.time_ms >= time_ms, "{format}: time goes back");
                time_ms = request.time_ms;
                said.digest = digest(said.digest, &request);
                said.requests += 1;
            }
            Ok(None) => break,
            Err(failure) => {
                said.failure = Some(failure.reason);
                break;
            }
        }
    }
    said.remarks = reader.remarks();
    let fraction = reader.sampled_fraction();
    assert!(fraction > 0.0 && fraction <= 1.0 && reader.prefix().is_none_or(|prefix| prefix.len() < 256));
    said
}

fn digest(before: u64, request: &Request<'_>) -> u64 {
    if let Key::Text(key) = request.key {
        assert!(key.len() <= KEY_BYTES_MAX);
    }
    let text = format!("{before} {request:?}");
    Key::Text(text.as_bytes()).hash()
}

/// A file that is read a little at a time.
struct Pieces {
    left: Cursor<Vec<u8>>,
    piece_bytes: usize,
}

impl std::io::Read for Pieces {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let bytes = to.len().min(self.piece_bytes);
        self.left.read(&mut to[..bytes])
    }
}
