//! Requests, on the command line and as the line that is sent.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use micanite_engine::Access;

use crate::{Balance, RecordOptions, size};

/// A request to a server.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum Request {
    /// Change who reads and writes partitions: erew (the owner alone), crew (all read, the owner
    /// writes), crcw (all read and write)
    Mode {
        /// New mode
        #[arg(value_name = "MODE", value_parser = one_of::<Access>(Access::ALL.map(Access::name)))]
        access: Access,
        /// Only this partition [default: all]
        #[arg(long, value_name = "N")]
        partition: Option<usize>,
    },
    /// Give a partition to another worker
    Move {
        /// Which partition, from 0
        #[arg(value_name = "PARTITION")]
        partition: usize,
        /// New owner, from 0
        #[arg(value_name = "WORKER")]
        owner: usize,
    },
    /// List the partitions: mode, owner, requests
    Routes(Format),
    /// Let partitions change mode and owner by measured load, or not any more
    Balance {
        /// auto: they change; off: they stay
        #[arg(value_name = "WHEN", value_parser = one_of::<Balance>(Balance::ALL.map(Balance::name)))]
        balance: Balance,
    },
    /// Discard all items of a namespace: those whose keys begin with NAME and the delimiter
    Invalidate {
        /// Part of the key before the delimiter
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Print what clients of the native protocol go by: cores, ports, partitions, owners
    Directory,
    /// List the keys that are asked for most, with their share of all requests
    Hotkeys(Format),
    /// List where the memory of the partitions is: NUMA nodes, and moves between them
    Numa,
    /// Print the limit of the memory, or change it while the server serves
    Memory {
        /// New limit, in MiB or with k, m, g, t: up to --memory-max
        #[arg(value_name = "SIZE", value_parser = bytes)]
        limit_bytes: Option<usize>,
    },
    /// Print the statistics, as the memcached command `stats` does
    Stats(Format),
    /// Print the metrics in Prometheus' text format, as --admin serves them
    Metrics,
    /// Check that the server runs and all its workers make progress
    Ping,
    /// Execute the server's program anew in its process: items (--image) and the listening sockets stay,
    /// connections end between two requests
    Restart {
        /// Also without --image: this discards all items
        #[arg(long)]
        force: bool,
    },
    /// Record the requests of a sample of all keys in a file, tell what is recorded, or end that
    Record(RecordOptions),
    /// Copy everything that is stored into a new image, while the server serves
    Snapshot {
        /// Directory of the image, which must not hold one yet
        #[arg(value_name = "PATH")]
        path: PathBuf,
    },
}

/// The form of an answer.
#[derive(Args, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Format {
    /// Print one JSON object, for programs
    #[arg(long)]
    pub json: bool,
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.json { " json" } else { "" })
    }
}

impl fmt::Display for Request {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mode { access, partition } => {
                write!(formatter, "mode {}", access.name())?;
                partition.map_or(Ok(()), |partition| write!(formatter, " {partition}"))
            }
            Self::Move { partition, owner } => write!(formatter, "move {partition} {owner}"),
            Self::Routes(format) => write!(formatter, "routes{format}"),
            Self::Directory => formatter.write_str("directory"),
            Self::Balance { balance } => write!(formatter, "balance {}", balance.name()),
            Self::Invalidate { name } => write!(formatter, "invalidate {name}"),
            Self::Stats(format) => write!(formatter, "stats{format}"),
            Self::Metrics => formatter.write_str("metrics"),
            Self::Memory { limit_bytes: None } => formatter.write_str("memory"),
            Self::Memory { limit_bytes: Some(bytes) } => write!(formatter, "memory {bytes}b"),
            Self::Numa => formatter.write_str("numa"),
            Self::Hotkeys(format) => write!(formatter, "hotkeys{format}"),
            Self::Ping => formatter.write_str("ping"),
            Self::Restart { force: false } => formatter.write_str("restart"),
            Self::Restart { force: true } => formatter.write_str("restart force"),
            Self::Record(options) => options.fmt(formatter),
            Self::Snapshot { path } => write!(formatter, "snapshot {}", path.display()),
        }
    }
}

impl FromStr for Request {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let words: Vec<_> = rest.split_whitespace().collect();
        Ok(match (verb, words.as_slice()) {
            ("mode", [access]) => Self::Mode { access: access.parse()?, partition: None },
            ("mode", [access, partition]) => {
                Self::Mode { access: access.parse()?, partition: Some(number(partition)?) }
            }
            ("move", [partition, owner]) => {
                Self::Move { partition: number(partition)?, owner: number(owner)? }
            }
            ("routes", [] | ["json"]) => Self::Routes(Format { json: !words.is_empty() }),
            ("directory", []) => Self::Directory,
            ("balance", [balance]) => Self::Balance { balance: balance.parse()? },
            ("invalidate", [name]) => Self::Invalidate { name: (*name).into() },
            ("stats", [] | ["json"]) => Self::Stats(Format { json: !words.is_empty() }),
            ("metrics", []) => Self::Metrics,
            ("memory", []) => Self::Memory { limit_bytes: None },
            ("memory", [size]) => Self::Memory { limit_bytes: Some(bytes(size)?) },
            ("numa", []) => Self::Numa,
            ("hotkeys", [] | ["json"]) => Self::Hotkeys(Format { json: !words.is_empty() }),
            ("ping", []) => Self::Ping,
            ("restart", []) => Self::Restart { force: false },
            ("restart", ["force"]) => Self::Restart { force: true },
            ("record", _) => Self::Record(RecordOptions::of_line(rest)?),
            // A path may have spaces in it.
            ("snapshot", [_, ..]) => Self::Snapshot { path: rest.into() },
            _ => return Err(format!("'{line}' is not understood")),
        })
    }
}

/// Reads one of these names, which help and completions list.
fn one_of<T>(names: impl IntoIterator<Item = &'static str>) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err = String> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(names).try_map(|name| name.parse::<T>())
}

fn bytes(word: &str) -> Result<usize, String> {
    size::parse(word, 1 << 20)
}

fn number(word: &str) -> Result<usize, String> {
    word.parse().map_err(|_| format!("'{word}' is no number"))
}
