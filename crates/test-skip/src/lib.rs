//! Tells of tests that cannot run on a machine. libtest counts such a test as passed and swallows what it
//! prints. So each also becomes a line of a file, which `scripts/test/totals` counts and judges.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;

/// Names the file. `.ci/run` and `make test` set it.
const FILE: &str = "MICANITE_SKIPS";

/// Tells that the calling test cannot run, and why. The test has to return then.
///
/// Call it on the thread of the test: without nextest the thread has the test's name.
///
/// # Panics
/// If the file cannot be written.
pub fn skip(reason: impl Display) {
    let test = name();
    let reason = reason.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    println!("skipped: {test}: {reason}");
    if let Some(path) = std::env::var_os(FILE) {
        let opened = OpenOptions::new().create(true).append(true).open(&path);
        // One write: lines of processes side by side stay whole.
        let written = opened.and_then(|mut file| file.write_all(format!("{test}\t{reason}\n").as_bytes()));
        written.unwrap_or_else(|error| panic!("{FILE}, {}: {error}", path.display()));
    }
}

/// Returns the name of the calling test: its binary and its path by nextest, the path alone without.
fn name() -> String {
    let of = |variable| std::env::var(variable).ok();
    if let (Some(binary), Some(test)) = (of("NEXTEST_BINARY_ID"), of("NEXTEST_TEST_NAME")) {
        return format!("{binary} {test}");
    }
    std::thread::current().name().unwrap_or("a thread without a name").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Makes the test below skip.
    const CHILD: &str = "MICANITE_TEST_SKIP_CHILD";

    #[test]
    fn skipping_process() {
        if std::env::var_os(CHILD).is_some() {
            skip("no\tmoon\n tonight\n");
        }
    }

    /// Proves that skips of several processes become whole lines, with and without nextest.
    #[test]
    fn a_skip_is_one_line_of_the_file() {
        let path = std::env::temp_dir().join(format!("micanite-skips-{}", std::process::id()));
        let child = || {
            let mut child = Command::new(std::env::current_exe().unwrap());
            child.args(["--exact", "tests::skipping_process"]).env(CHILD, "1").env(FILE, &path);
            child
        };
        let by_cargo = child().env_remove("NEXTEST_BINARY_ID").status().unwrap();
        let named = [("NEXTEST_BINARY_ID", "micanite-net::xdp"), ("NEXTEST_TEST_NAME", "frames_pass")];
        let by_nextest = child().envs(named).status().unwrap();
        let lines = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        assert!(by_cargo.success() && by_nextest.success());
        let expected =
            "tests::skipping_process\tno moon tonight\nmicanite-net::xdp frames_pass\tno moon tonight\n";
        assert_eq!(lines, expected);
    }
}
