//! Standard output and files.

use std::io::Write;
use std::path::Path;

use micanite_workload::trace::Failure;
use serde::Serialize;

/// Returns whether this names the standard output.
pub(crate) fn is_stdout(path: Option<&Path>) -> bool {
    path == Some(Path::new("-"))
}

/// Prints. Where nobody reads any more, nothing is lost.
pub(crate) fn say(text: &str) {
    let mut to = std::io::stdout().lock();
    let _ = to.write_all(text.as_bytes()).and_then(|()| to.flush());
}

/// Writes a file; `-` is the standard output.
pub(crate) fn write(path: &Path, content: &str) -> Result<(), Failure> {
    if is_stdout(Some(path)) {
        say(content);
        return Ok(());
    }
    std::fs::write(path, content)
        .map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))
}

/// Writes a value as JSON.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::new(format!("cannot write the report: {error}")))?;
    write(path, &(text + "\n"))
}
