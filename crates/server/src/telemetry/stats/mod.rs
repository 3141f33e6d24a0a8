//! `stats` in all groups.

mod connections;
mod fabric;
mod kernel;
mod local;
mod native;
mod partitions;
mod prefixes;
mod report;
mod security;
mod settings;
mod sizes;
mod udp;

pub(crate) use connections::connections;
pub use connections::{ConnectionState, ConnectionTable, ConnectionsProgress};
pub use fabric::fabric;
pub(crate) use fabric::{CHUNK_EVENTS, CHUNK_USE};
pub use kernel::kernel;
pub use local::local;
pub(crate) use native::FILTER;
pub use native::native;
pub use partitions::{numa, partitions};
pub use prefixes::{PrefixCounts, Prefixes};
pub use report::{general, items, slabs};
pub use settings::settings;
pub use sizes::Sizes;
pub use udp::udp;

use std::fmt::{Display, Write};

use crate::output::Output;

/// The longest value of a line; what is longer (a list of addresses) is cut.
const VALUE_BYTES_MAX: usize = 512;

/// Writes `STAT name value` lines.
pub(crate) struct Lines<'a, 'b> {
    output: &'a mut Output<'b>,
}

impl<'a, 'b> Lines<'a, 'b> {
    pub(crate) fn new(output: &'a mut Output<'b>) -> Self {
        Self { output }
    }

    pub(crate) fn room(&self) -> usize {
        self.output.room()
    }

    pub(crate) fn stat(&mut self, name: &str, value: impl Display) {
        let mut text = Clipped { output: self.output, left: VALUE_BYTES_MAX };
        text.output.push(b"STAT ");
        text.output.push(name.as_bytes());
        text.output.push(b" ");
        // Clipping is no error, and there is no other.
        let _ = write!(text, "{value}");
        self.output.push(b"\r\n");
    }
}

struct Clipped<'a, 'b> {
    output: &'a mut Output<'b>,
    left: usize,
}

impl Write for Clipped<'_, '_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let taken = text.len().min(self.left);
        self.left -= taken;
        self.output.push(&text.as_bytes()[..taken]);
        Ok(())
    }
}
