//! Records of operations: kept in memory, or written to a pipe by a client process that may be killed.

use std::collections::VecDeque;
use std::io::{BufRead, Write};

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::operation::{Found, Operation};
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
    /// The oldest call without a return has ended.
    Return {
        returned_ns: u64,
        found: Found,
        one_sided: bool,
    },
    /// A copy of a request may take effect later than its reply.
    LateCopy {
        key: Option<u32>,
        operation: Operation,
    },
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
    /// Entries whose calls have no return yet.
    pending: VecDeque<usize>,
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
            Record::Call(entry) => {
                self.pending.push_back(self.entries.len());
                self.entries.push(entry);
            }
            Record::LateCopy { key, operation } => self.entries.push(Entry { key, operation }),
            Record::Wrong(what) => self.wrong.push(what),
            Record::Return { returned_ns, found, one_sided } => {
                let place = self.pending.pop_front().ok_or("a return without a call")?;
                let operation = &mut self.entries[place].operation;
                operation.found = found;
                if found != Found::Unknown {
                    operation.returned_ns = returned_ns;
                }
                self.one_sided += u64::from(one_sided);
            }
        }
        Ok(())
    }
}

impl Journal {
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
