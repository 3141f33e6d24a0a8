//! Files: their compression and their format.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use micanite_control::stderr;

use crate::recording::Seen;
use crate::trace::Failure;
use crate::trace::formats;
use crate::trace::request::Request;
use crate::trace::unpack;

/// Bytes that are read ahead.
const BUFFER_BYTES: usize = 1 << 18;
/// Bytes that are waited for, however slowly they come, before the format is told by them.
const FIRST_BYTES: u64 = 1 << 12;

/// A format of traces; `FromStr` and `Display` are each other's inverse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `object-csv`: `time_s, object, size_bytes[, ...]`, as libCacheSim's samples are.
    ObjectCsv,
    /// `oracle-general`: libCacheSim's packed records.
    OracleGeneral,
    /// `twitter`: Twitter's raw CSV, `timestamp,key,key size,value size,client id,operation,TTL`.
    Twitter,
    /// `cachelib`: CacheLib's kvcache CSV, whose first line names the columns.
    CacheLib,
    /// `pcap`, or `pcap:PORT`: captured traffic of memcached's protocols.
    Pcap {
        /// The servers'.
        port: u16,
    },
    /// `recording`: our own.
    Recording,
}

impl Format {
    pub const ALL: [Self; 6] = [
        Self::ObjectCsv,
        Self::OracleGeneral,
        Self::Twitter,
        Self::CacheLib,
        Self::Pcap { port: formats::pcap::PORT },
        Self::Recording,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::ObjectCsv => "object-csv",
            Self::OracleGeneral => "oracle-general",
            Self::Twitter => "twitter",
            Self::CacheLib => "cachelib",
            Self::Pcap { .. } => "pcap",
            Self::Recording => "recording",
        }
    }

    /// The format that a file's name and first bytes tell, if they do.
    pub(crate) fn found(name: &str, first: &[u8]) -> Option<Self> {
        if first.starts_with(&crate::recording::MAGIC) {
            return Some(Self::Recording);
        }
        if name.contains("oracleGeneral") {
            return Some(Self::OracleGeneral);
        }
        if formats::pcap::is_one(first) {
            let port = formats::pcap::PORT;
            return Some(Self::Pcap { port });
        }
        if formats::cachelib::is_one(first) {
            return Some(Self::CacheLib);
        }
        if formats::twitter::is_one(first) {
            return Some(Self::Twitter);
        }
        formats::object_csv::is_one(first).then_some(Self::ObjectCsv)
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(port) = text.strip_prefix("pcap:") {
            let port = port.parse().ok().filter(|port| *port > 0);
            let pcap = port.map(|port| Self::Pcap { port });
            return pcap.ok_or_else(|| format!("'{text}' has no port behind its colon"));
        }
        let named = Self::ALL.into_iter().find(|format| format.name() == text);
        named.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("'{text}' is no format of traces: {names}")
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Self::Pcap { port } if *port != formats::pcap::PORT => write!(f, ":{port}"),
            _ => Ok(()),
        }
    }
}

/// A trace, request by request.
pub trait Reader {
    /// The next request; nothing at the end.
    ///
    /// # Errors
    /// When the file cannot be read or is not in its format: the sentence says where. What follows
    /// is not read.
    fn next(&mut self) -> Result<Option<Request<'_>>, Failure>;

    /// Returns whether times are since 1970 (UTC), not since the beginning of the trace.
    fn is_dated(&self) -> bool {
        false
    }

    /// Sentences about what was left out, and why. Complete at the end.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }

    /// The prefix of the key of the last request, where the trace tells it apart from the key.
    fn prefix(&self) -> Option<&[u8]> {
        None
    }

    /// The fraction of keys that the trace has all requests of; the others' are not in it.
    fn sampled_fraction(&self) -> f64 {
        1.0
    }

    /// Counts of all keys, up to some moment before the last request, or to the end of the trace
    /// at its end; nothing if the trace does not say.
    fn seen(&self) -> Option<Seen> {
        None
    }
}

pub struct Opened {
    pub reader: Box<dyn Reader>,
    pub format: Format,
    /// Bytes of the file; 0 of a pipe.
    pub file_bytes: u64,
    /// Bytes of the file that have been read so far, for showing progress.
    pub read_bytes: Arc<AtomicU64>,
}

impl Opened {
    /// Says on standard error what was left out of the trace, whose name is `path`.
    pub fn print_remarks(&self, path: &Path) {
        for remark in self.reader.remarks() {
            stderr::say(format_args!("micanite trace: {}: {remark}", path.display()));
        }
    }
}

/// Opens a trace, compressed by zstd or not; the format is told by name and content if it is not
/// given. `-` is the standard input.
///
/// # Errors
/// When it cannot be read, or its format cannot be told.
pub fn open(path: &Path, format: Option<Format>) -> Result<Opened, Failure> {
    let failed = |error: &dyn fmt::Display| Failure::new(format!("{}: {error}", path.display()));
    let source = match path == Path::new("-") {
        true => Path::new("/dev/stdin"),
        false => path,
    };
    let file = File::open(source).map_err(|error| failed(&error))?;
    let file_bytes = file.metadata().map_err(|error| failed(&error))?.len();
    let read_bytes = Arc::new(AtomicU64::new(0));
    let counted = Counted { file, bytes: Arc::clone(&read_bytes) };
    let raw = BufReader::with_capacity(BUFFER_BYTES, counted);
    let (first, raw) = begun(raw).map_err(|error| failed(&error))?;
    let is_zstd = unpack::is_zstd(&first).map_err(|error| failed(&error))?;
    let (first, bytes): (_, Box<dyn BufRead>) = if is_zstd {
        let unpacked = unpack::zstd(raw).and_then(begun);
        let (first, bytes) = unpacked.map_err(|error| failed(&error))?;
        (first, Box::new(bytes))
    } else {
        (first, Box::new(raw))
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if first.is_empty() {
        return Err(failed(&"there is nothing in it"));
    }
    let format = format.or_else(|| Format::found(&name, &first)).ok_or_else(|| {
        let names = Format::ALL.map(Format::name).join(", ");
        failed(&format!("its format cannot be told: say it by --format ({names})"))
    })?;
    let reader = formats::reader(format, bytes, path)?;
    Ok(Opened { reader, format, file_bytes, read_bytes })
}

/// The first bytes, and all of them: a pipe brings a few at a time.
fn begun(mut from: impl BufRead) -> io::Result<(Vec<u8>, impl BufRead)> {
    let mut first = Vec::new();
    from.by_ref().take(FIRST_BYTES).read_to_end(&mut first)?;
    let all = io::Cursor::new(first.clone()).chain(from);
    Ok((first, all))
}

/// A file that says how far it has been read.
struct Counted {
    file: File,
    bytes: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let bytes = self.file.read(to)?;
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}
