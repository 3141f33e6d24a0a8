//! The request to record requests.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, value_parser};

use crate::size;

/// The least length of a file: of its header, a count, and some requests.
const BYTES_MIN: usize = 4 << 10;
/// The longest recording: times are milliseconds in 32 bits.
const SECONDS_MAX: u32 = u32::MAX / 1000;
const SECONDS: RangeInclusive<i64> = 1..=SECONDS_MAX as i64;
const BILLION: u32 = 1_000_000_000;

/// Options of `ctl record`.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordOptions {
    /// A new file, that the server creates; without it, what is recorded is told
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Which part of all keys is recorded, with all their requests [default: 0.01]
    #[arg(long, value_name = "F", requires = "file")]
    pub fraction: Option<Fraction>,
    /// Stop after so many seconds [default: not]
    #[arg(long, value_name = "N", requires = "file", value_parser = value_parser!(u32).range(SECONDS))]
    pub seconds: Option<u32>,
    /// Stop when the file is so long [default: 1g]
    #[arg(long, value_name = "SIZE", requires = "file")]
    pub bytes_max: Option<FileBytes>,
    /// End the recording that there is
    #[arg(long, conflicts_with = "file")]
    pub stop: bool,
}

impl RecordOptions {
    /// Reads the rest of the line that is sent.
    pub(crate) fn of_line(rest: &str) -> Result<Self, String> {
        let is_not = || format!("'record {rest}' is not understood");
        let mut words = rest.splitn(4, ' ');
        let (Some(fraction), Some(seconds), Some(bytes_max), Some(file)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return match rest {
                "" => Ok(Self::default()),
                "stop" => Ok(Self { stop: true, ..Self::default() }),
                _ => Err(is_not()),
            };
        };
        let seconds = match seconds {
            "-" => None,
            word => match word.parse() {
                Ok(seconds @ 1..=SECONDS_MAX) => Some(seconds),
                _ => return Err(is_not()),
            },
        };
        Ok(Self {
            file: Some(file.into()),
            fraction: optional(fraction)?,
            seconds,
            bytes_max: optional(bytes_max)?,
            stop: false,
        })
    }
}

fn optional<T: FromStr<Err = String>>(word: &str) -> Result<Option<T>, String> {
    match word {
        "-" => Ok(None),
        word => word.parse().map(Some),
    }
}

impl fmt::Display for RecordOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("record")?;
        let Some(file) = &self.file else {
            return formatter.write_str(if self.stop { " stop" } else { "" });
        };
        let word = |value: Option<String>| value.unwrap_or_else(|| "-".into());
        let fraction = word(self.fraction.map(|fraction| fraction.to_string()));
        let seconds = word(self.seconds.map(|seconds| seconds.to_string()));
        let bytes_max = word(self.bytes_max.map(|bytes| size::exact(bytes.0)));
        let file = file.display();
        write!(formatter, " {fraction} {seconds} {bytes_max} {file}")
    }
}

/// A part of all keys, in billionths: more than 0, at most 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fraction(u32);

impl Default for Fraction {
    fn default() -> Self {
        Self(BILLION / 100)
    }
}

impl Fraction {
    /// Keys are recorded whose sampling number is at most this.
    pub fn hash_max(self) -> u64 {
        let numbers = (u128::from(self.0) << 64) / u128::from(BILLION);
        numbers.saturating_sub(1) as u64
    }
}

impl FromStr for Fraction {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number: Option<f64> = text.parse().ok();
        let billionths = number.map(|number| (number * f64::from(BILLION)).round());
        match billionths {
            Some(billionths) if (1.0..=f64::from(BILLION)).contains(&billionths) => {
                Ok(Self(billionths as u32))
            }
            _ => Err(format!("'{text}' is no fraction: from 0.000000001 to 1")),
        }
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", f64::from(self.0) / f64::from(BILLION))
    }
}

/// Length of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileBytes(pub usize);

impl Default for FileBytes {
    fn default() -> Self {
        Self(1 << 30)
    }
}

impl FromStr for FileBytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match size::parse(text, 1)? {
            0..BYTES_MIN => Err(format!("'{text}' is too little: at least 4k")),
            bytes => Ok(Self(bytes)),
        }
    }
}
