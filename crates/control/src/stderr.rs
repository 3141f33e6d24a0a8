//! Standard error of commands.

use std::fmt::Display;
use std::io::Write;

/// Writes a line. Where nobody reads it, or it cannot be written, the exit status tells.
pub fn say(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
