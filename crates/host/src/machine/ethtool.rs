//! Runs `ethtool`.

use std::io;
use std::process::{Command, Output, Stdio};

/// Directories that are searched: an ordinary user's path may lack those of the system's tools.
const PLACES: [&str; 3] = ["ethtool", "/usr/sbin/ethtool", "/sbin/ethtool"];
/// The answer, between other lines, when the driver lacks something.
pub const NOT_SUPPORTED: &str = "Operation not supported";

/// Runs it with these words. What it printed, or the reason why it refused; both in its words.
pub fn run<S: AsRef<str>>(words: &[S]) -> Result<String, String> {
    let mut last = String::new();
    for place in PLACES {
        match start(place, words) {
            Ok(output) if output.status.success() => {
                return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
            }
            Ok(output) => return Err(reason(&output)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => last = error.to_string(),
            Err(error) => return Err(format!("{place}: {error}")),
        }
    }
    Err(format!("ethtool: {last}"))
}

/// Checks that there is an `ethtool`.
pub fn check() -> Result<(), String> {
    run(&["--version"])
        .map(drop)
        .map_err(|reason| format!("ethtool is needed to ask the interface (apt install ethtool): {reason}"))
}

fn start<S: AsRef<str>>(place: &str, words: &[S]) -> io::Result<Output> {
    Command::new(place).args(words.iter().map(AsRef::as_ref)).env("LC_ALL", "C").stdin(Stdio::null()).output()
}

/// One line of what a failed run printed.
fn reason(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    if text.contains(NOT_SUPPORTED) {
        return NOT_SUPPORTED.into();
    }
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() {
        return output.status.to_string();
    }
    lines.join("; ")
}
