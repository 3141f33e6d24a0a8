//! Changes of a machine, as a person types them and as they are done here.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::machine::facts::Family;
use crate::machine::{ethtool, parse, quoted};

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `ethtool` with these words.
    Ethtool(Vec<String>),
    /// A new flow rule.
    Rule {
        /// Interface.
        interface: String,
        /// Datagrams.
        family: Family,
        /// Their port.
        port: u16,
        /// Their queue.
        queue: usize,
    },
    /// A value into a file of the kernel's.
    Write {
        /// The file.
        path: PathBuf,
        /// The value.
        value: String,
    },
}

/// A change, and the command that takes it back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// The change.
    pub command: Command,
    /// The command that restores the present state. A rule gets one once it has a number.
    pub back: Option<Command>,
}

impl Command {
    /// `ethtool` with these words.
    pub fn ethtool(words: &[&str]) -> Self {
        Self::Ethtool(words.iter().map(|&word| word.to_owned()).collect())
    }

    /// A value into a file.
    pub fn write(path: impl Into<PathBuf>, value: impl Into<String>) -> Self {
        Self::Write { path: path.into(), value: value.into() }
    }

    /// Runs it. Returns the answer, or the reason of a refusal.
    pub fn run(&self) -> Result<Answer, String> {
        match self {
            Self::Ethtool(words) => ethtool::run(words).map(|_| Answer::Done),
            Self::Rule { .. } => {
                let text = ethtool::run(&self.words())?;
                Ok(parse::added_rule(&text).map_or(Answer::Done, Answer::Added))
            }
            Self::Write { path, value } => match write(path, value) {
                Ok(()) => Ok(Answer::Done),
                Err(error) => Err(error.to_string()),
            },
        }
    }

    /// The words of `ethtool`; none of a write.
    fn words(&self) -> Vec<String> {
        match self {
            Self::Ethtool(words) => words.clone(),
            Self::Rule { interface, family, port, queue } => {
                let (port, queue) = (port.to_string(), queue.to_string());
                let flow = ["flow-type", family.name(), "dst-port", &port, "action", &queue];
                let words = ["-N", interface].into_iter().chain(flow);
                words.map(str::to_owned).collect()
            }
            Self::Write { .. } => Vec::new(),
        }
    }
}

/// The answer to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done.
    Done,
    /// A rule of this number has been added.
    Added(u32),
}

impl fmt::Display for Command {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write { path, value } => {
                let path = path.display().to_string();
                write!(formatter, "echo {} > {}", quoted(value), quoted(&path))
            }
            _ => {
                formatter.write_str("ethtool")?;
                let mut words = self.words().into_iter();
                words.try_for_each(|word| write!(formatter, " {}", quoted(&word)))
            }
        }
    }
}

/// Writes a line to a file that there is: these are the kernel's, and are not made.
fn write(path: &Path, value: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    // The kernel takes each write for a whole value.
    file.write_all(format!("{value}\n").as_bytes())
}
