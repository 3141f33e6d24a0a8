//! Records of operations: kept in memory, or written to a pipe by a client process that may be killed.

use std::io::{BufRead, Write};

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::operation::{Action, Found, Operation};
use crate::Result;

/// Operation of a client on a key, or on all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// None: all keys.
    pub key: Option<u32>,
    pub operation: Operation,
}

/// One line of a client process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Record {
    Call(Entry),
    Return {
        returned_ns: u64,
        found: Found,
        one_sided: bool,
    },
    /// The last request was not sent.
    NotSent,
    /// A copy of the last request may take effect later.
    LateCopy,
    /// A reply that no server may give.
    Wrong(String),
}

/// History of a client.
#[derive(Clone, Debug, Default)]
pub(super) struct Journal {
    pub entries: Vec<Entry>,
    /// GETs that were answered by a one-sided read.
    pub one_sided: u64,
    pub wrong: Vec<String>,
}

/// Receiver of records.
pub(super) trait Recorder {
    fn record(&mut self, record: Record) -> Result<()>;
}

/// Returns the time of CLOCK_MONOTONIC, which all processes of a machine share.
pub(super) fn now_ns() -> Result<u64> {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC)?;
    Ok(now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}

impl Recorder for Journal {
    fn record(&mut self, record: Record) -> Result<()> {
        match record {
            Record::Call(entry) => self.entries.push(entry),
            Record::NotSent => drop(self.entries.pop()),
            Record::LateCopy => self.add_late_copy(),
            Record::Wrong(what) => self.wrong.push(what),
            Record::Return { returned_ns, found, one_sided } => {
                let last = self.entries.last_mut().ok_or("a return without a call")?;
                last.operation.found = found;
                if found != Found::Unknown {
                    last.operation.returned_ns = returned_ns;
                }
                self.one_sided += u64::from(one_sided);
            }
        }
        Ok(())
    }
}

impl Journal {
    fn add_late_copy(&mut self) {
        let Some(last) = self.entries.last().copied() else { return };
        let copy = match last.operation.action {
            Action::Set(value) => Action::LateCopy(Some(value)),
            Action::Delete => Action::LateCopy(None),
            _ => return,
        };
        let operation =
            Operation { action: copy, found: Found::Unknown, returned_ns: u64::MAX, ..last.operation };
        self.entries.push(Entry { operation, ..last });
    }

    /// Reads the records of a client process, up to its end. A killed one may have cut off the last.
    pub fn read(&mut self, mut lines: impl BufRead) -> Result<()> {
        let mut line = String::new();
        loop {
            line.clear();
            if lines.read_line(&mut line)? == 0 || !line.ends_with('\n') {
                return Ok(());
            }
            self.record(serde_json::from_str(&line)?)?;
        }
    }
}

/// Writes each record to a pipe before the client goes on.
pub(super) struct Pipe<W>(pub W);

impl<W: Write> Recorder for Pipe<W> {
    fn record(&mut self, record: Record) -> Result<()> {
        let mut line = serde_json::to_vec(&record)?;
        line.push(b'\n');
        self.0.write_all(&line)?;
        Ok(self.0.flush()?)
    }
}
