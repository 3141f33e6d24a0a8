//! `micanite trace convert`: a trace as a recording, which is read faster than any text.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use micanite_control::stderr;

use crate::recording::{End, Record, RecordingWriter, Seen};
use crate::trace::open::{Format, Reader};
use crate::trace::prefix::{DELIMITER, prefix_of};
use crate::trace::progress::{REQUESTS_PER_LOOK, Reading};
use crate::trace::{Failure, Key, Outcome, Request, open};

/// Prefixes that a recording can number.
const PREFIXES_MAX: usize = u16::MAX as usize;
const BUFFER_BYTES: usize = 1 << 18;

/// Writes a trace as a recording: 24 bytes per request, hashes instead of keys.
#[derive(Args, Debug)]
pub struct ConvertOptions {
    /// The trace; - is the standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The recording; compressed if its name ends with .zst.
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Its format, where name and content do not tell it.
    #[arg(long)]
    format: Option<Format>,
    /// The byte behind the prefix of a key: what is before it is kept.
    #[arg(long, value_name = "BYTE", default_value_t = char::from(DELIMITER))]
    delimiter: char,
    /// Show no progress.
    #[arg(short, long)]
    quiet: bool,
}

/// Writes a trace as a recording.
///
/// # Errors
/// When the trace cannot be read, or the recording cannot be written.
pub fn convert(options: &ConvertOptions) -> Result<(), Failure> {
    let ConvertOptions { file, out, .. } = options;
    let Ok(delimiter) = u8::try_from(options.delimiter) else {
        return Err(Failure::usage("--delimiter is one byte"));
    };
    let mut opened = open(file, options.format)?;
    let failed = |error: &io::Error| Failure::new(format!("{}: {error}", out.display()));
    // A reader of the recording never gets half of it, neither meanwhile nor after a failure.
    let partial = with_suffix(out, ".partial");
    let mut to = writer(out, &partial).map_err(|error| failed(&error))?;
    let progress = Reading::new(&opened, options.quiet);
    let converted = Conversion::new(delimiter).run(&mut *opened.reader, &mut to, &progress, &failed);
    drop(progress);
    let finished = converted.and_then(|done| {
        to.finish().map_err(|error| failed(&error))?;
        fs::rename(&partial, out).map_err(|error| failed(&error))?;
        Ok(done)
    });
    if finished.is_err() {
        let _ = fs::remove_file(&partial);
    }
    let Conversion { seen, numbers, .. } = finished?;
    opened.print_remarks(file);
    if seen.unnamed > 0 {
        stderr::say(format_args!("micanite trace: only the first {PREFIXES_MAX} prefixes are kept"));
    }
    let (requests, prefixes) = (seen.requests, numbers.len());
    println!("{}: {requests} requests, {prefixes} prefixes", out.display());
    Ok(())
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// File of the recording: compressed or not.
enum Output {
    Plain(BufWriter<File>),
    Zstd(BufWriter<zstd::Encoder<'static, File>>),
}

fn writer(out: &Path, partial: &Path) -> io::Result<Output> {
    let file = File::create(partial)?;
    Ok(if out.extension().is_some_and(|extension| extension == "zst") {
        let encoder = zstd::Encoder::new(file, zstd::DEFAULT_COMPRESSION_LEVEL)?;
        Output::Zstd(BufWriter::with_capacity(BUFFER_BYTES, encoder))
    } else {
        Output::Plain(BufWriter::with_capacity(BUFFER_BYTES, file))
    })
}

impl Output {
    fn finish(self) -> io::Result<()> {
        match self {
            Self::Plain(to) => drop(to.into_inner()?),
            Self::Zstd(to) => drop(to.into_inner()?.finish()?),
        }
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(to) => to.write(bytes),
            Self::Zstd(to) => to.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(to) => to.flush(),
            Self::Zstd(to) => to.flush(),
        }
    }
}

struct Conversion {
    delimiter: u8,
    seen: Seen,
    numbers: HashMap<Vec<u8>, u16>,
}

impl Conversion {
    fn new(delimiter: u8) -> Self {
        Self { delimiter, seen: Seen::default(), numbers: HashMap::new() }
    }

    fn run(
        mut self,
        from: &mut dyn Reader,
        to: &mut impl Write,
        progress: &Reading,
        failed: &dyn Fn(&io::Error) -> Failure,
    ) -> Result<Self, Failure> {
        let (is_dated, hash_max) = (from.is_dated(), hash_max(from.sampled_fraction()));
        let (mut started, mut time_ms, mut requests) = (None, 0, 0_u64);
        let mut to = Some(to);
        while let Some(request) = from.next()? {
            if let Some(to) = to.take() {
                // A recording that began in 1970 is not dated.
                let start_ms = if is_dated { request.time_ms } else { 0 };
                let writer = RecordingWriter::new(to, start_ms, hash_max, 0);
                started = Some((start_ms, writer.map_err(|error| failed(&error))?));
            }
            let Some((start_ms, writer)) = &mut started else {
                break;
            };
            let mut record = record(&request, *start_ms)?;
            let prefix = match request.key {
                Key::Text(key) => prefix_of(key, self.delimiter),
                Key::Number(_) => from.prefix(),
            };
            let number = self.number(prefix, writer);
            record.prefix = number.map_err(|error| failed(&error))?;
            writer.write(&record).map_err(|error| failed(&error))?;
            self.count(&record);
            requests += 1;
            if requests.is_multiple_of(REQUESTS_PER_LOOK) {
                progress.at(requests);
            }
            time_ms = record.time_ms;
        }
        let mut writer = match (started, to) {
            (Some((_, writer)), _) => writer,
            (None, Some(to)) => {
                let writer = RecordingWriter::new(to, 0, hash_max, 0);
                writer.map_err(|error| failed(&error))?
            }
            (None, None) => return Ok(self),
        };
        let seen = from.seen().unwrap_or(self.seen);
        let told = writer.tell_seen(&seen, time_ms, Some(End::Stopped));
        told.map_err(|error| failed(&error))?;
        Ok(self)
    }

    /// Reads count where it is known how they ended.
    fn count(&mut self, record: &Record) {
        self.seen.requests += 1;
        if record.operation.reads() && record.outcome != Outcome::Unknown {
            self.seen.reads += 1;
            self.seen.read_hits += u64::from(record.outcome == Outcome::Hit);
        }
    }

    /// The number of a prefix, which is named when it is new; 0 for none.
    fn number(&mut self, prefix: Option<&[u8]>, to: &mut RecordingWriter<impl Write>) -> io::Result<u16> {
        let Some(prefix) = prefix else {
            return Ok(0);
        };
        if let Some(number) = self.numbers.get(prefix) {
            return Ok(*number);
        }
        if self.numbers.len() == PREFIXES_MAX {
            self.seen.unnamed += 1;
            return Ok(0);
        }
        let number = self.numbers.len() as u16 + 1;
        to.name_prefix(number, prefix)?;
        self.numbers.insert(prefix.to_vec(), number);
        Ok(number)
    }
}

/// Returns the header's bound of hashes for the fraction of keys that the trace has.
fn hash_max(sampled_fraction: f64) -> u64 {
    if sampled_fraction >= 1.0 {
        return u64::MAX;
    }
    (sampled_fraction * 2f64.powi(64) - 1.0) as u64
}

/// The record of a request, without its prefix. Numbers stay what they are, so that the recording
/// of a recording is the same.
fn record(request: &Request<'_>, start_ms: u64) -> Result<Record, Failure> {
    let Ok(time_ms) = u32::try_from(request.time_ms.saturating_sub(start_ms)) else {
        return Err(Failure::new("the trace is longer than the 49 days that a recording can hold: split it"));
    };
    Ok(Record {
        key_hash: match request.key {
            Key::Text(_) => request.key.hash(),
            Key::Number(number) => number,
        },
        time_ms,
        value_bytes: request.value_bytes.map(|bytes| bytes.min(u32::MAX - 1)),
        expiry_s: request.expiry_s.map(|expiry_s| expiry_s.min(u32::MAX - 1)),
        prefix: 0,
        key_bytes: request.key_bytes.min(u8::MAX.into()) as u8,
        operation: request.operation,
        outcome: request.outcome,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Operation, Outcome};

    /// A folder of a test, gone with it.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("micanite-convert-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }

        fn convert(&self, name: &str, bytes: &[u8], out: &str) -> Result<PathBuf, Failure> {
            let (file, out) = (self.0.join(name), self.0.join(out));
            fs::write(&file, bytes).unwrap();
            let options =
                ConvertOptions { file, out: out.clone(), format: None, delimiter: ':', quiet: true };
            convert(&options).map(|()| out)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_text_becomes_the_same_requests() {
        let text = b"5,user:1,6,0,9,get,0\n6,user:1,6,10,9,set,60\n6,x,1,1,9,add,0\n7,p:1,3,0,9,delete,0\n";
        let folder = Folder::new("text");
        for out in ["a.rec", "a.rec.zst"] {
            let out = folder.convert("a.csv", text, out).unwrap();
            let mut opened = open(&out, None).unwrap();
            let reader = &mut *opened.reader;
            assert!(opened.format == Format::Recording && !reader.is_dated());
            assert!((reader.sampled_fraction() - 1.0).abs() < 1e-9);
            let mut rows = Vec::new();
            while let Some(request) = reader.next().unwrap() {
                assert_eq!(request.outcome, Outcome::Unknown);
                let Request { time_ms, key, operation, key_bytes, value_bytes, expiry_s, .. } = request;
                let Key::Number(key) = key else {
                    panic!("{key:?}");
                };
                let prefix = reader.prefix().map(<[u8]>::to_vec);
                rows.push((time_ms, key, operation, key_bytes, value_bytes, expiry_s, prefix));
            }
            let hash = |key: &[u8]| Key::Text(key).hash();
            let (user, p) = (Some(b"user".to_vec()), Some(b"p".to_vec()));
            assert!(reader.remarks().is_empty());
            assert_eq!(reader.seen().map(|seen| seen.requests), Some(4));
            assert_eq!(
                rows,
                [
                    (5000, hash(b"user:1"), Operation::Get, 6, None, None, user.clone()),
                    (6000, hash(b"user:1"), Operation::Set, 6, Some(10), Some(60), user),
                    (6000, hash(b"x"), Operation::Add, 1, Some(1), Some(0), None),
                    (7000, hash(b"p:1"), Operation::Delete, 3, None, None, p),
                ]
            );
        }
    }

    #[test]
    fn a_recording_of_a_recording_is_the_same() {
        let folder = Folder::new("again");
        let out = folder.convert("b.csv", b"1,user:1,6,0,9,get,0\n2,a:1,6,10,9,set,60\n", "b.rec").unwrap();
        let bytes = fs::read(&out).unwrap();
        let again = folder.convert("b.rec", &bytes, "c.rec").unwrap();
        assert_eq!(fs::read(again).unwrap(), bytes);
    }

    #[test]
    fn failures_leave_nothing_behind() {
        let text = b"0,a,1,1,1,get,0\n4294968,a,1,1,1,get,0\n";
        let folder = Folder::new("failures");
        let failure = folder.convert("d.csv", text, "d.rec").unwrap_err();
        assert!(failure.reason.contains("49 days"), "{failure}");
        assert!(!folder.0.join("d.rec").exists() && !folder.0.join("d.rec.partial").exists());
    }
}
