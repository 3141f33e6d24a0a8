//! The program as it is called: files written, failures that are failures.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// A folder of its own for each test, below the build's.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn lab(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_micanite-lab")).args(arguments).current_dir(folder).output().unwrap()
}

#[test]
fn a_run_writes_what_the_documentation_says() {
    let folder = folder("engine");
    let small = ["engine", "--quick", "--no-real-time", "--rounds", "1", "--items", "65536"];
    let arguments = [&small[..], &["--case", "tiny 8/8 uniform 95 % GET"]].concat();
    let output = lab(&folder, &arguments);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(printed.contains("tiny 8/8 uniform 95 % GET"), "{printed}");
    assert!(printed.contains("no real-time priority"), "{printed}");

    let json = std::fs::read_to_string(folder.join("target/bench/engine.json")).unwrap();
    let records: Vec<serde_json::Map<String, Value>> = serde_json::from_str(&json).unwrap();
    assert_eq!(records.len(), 5, "two peers, the limit, the store, and the hits");
    for record in &records {
        let mut fields: Vec<_> = record.keys().map(String::as_str).collect();
        fields.sort_unstable();
        let expected = ["case", "metric", "peer", "ratio", "spread", "unit", "value"];
        assert_eq!(fields, expected);
        assert!(record["value"].as_f64().unwrap() > 0.0);
        assert_eq!(record["peer"].is_null(), record["ratio"].is_null());
        let spread = &record["spread"];
        assert!(spread["min"].as_f64().unwrap() <= spread["max"].as_f64().unwrap());
    }
    let figure = std::fs::read_to_string(folder.join("target/bench/engine.svg")).unwrap();
    assert!(figure.starts_with("<svg") && figure.trim_end().ends_with("</svg>"));
}

#[test]
fn a_case_that_does_not_exist_fails() {
    let arguments = ["engine", "--no-real-time", "--case", "no such case"];
    let output = lab(&folder("no-case"), &arguments);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_wrong_command_line_is_a_usage_error() {
    for arguments in [&[][..], &["--bogus"], &["no-such-target"], &["engine", "--rounds", "0"]] {
        let output = lab(&folder("usage"), arguments);
        assert_eq!(output.status.code(), Some(64), "{arguments:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
    assert_eq!(lab(&folder("usage"), &["--help"]).status.code(), Some(0));
}

#[test]
fn a_server_that_cannot_start_fails() {
    for server in ["/does/not/exist", "/bin/false"] {
        let case = ["--case", "prefetch", "--server", server];
        let arguments = [&["evaluation", "--quick", "--no-real-time"][..], &case].concat();
        let output = lab(&folder("no-server"), &arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("micanite ended at its start"), "{said}");
    }
}

#[test]
fn a_memcached_that_does_not_exist_fails() {
    let case = ["--case", "connections", "--memcached", "/does/not/exist"];
    let arguments = [&["evaluation", "--quick", "--no-real-time"][..], &case].concat();
    let output = lab(&folder("no-memcached"), &arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("there is no /does/not/exist"), "{said}");
}
