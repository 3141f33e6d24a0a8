//! Compiles programs in C against the library.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Finds cargo's library: beside the test, or above it.
pub fn library(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folders = test.ancestors().skip(1).take(2);
    let mut places = folders.map(|folder| folder.join(name));
    places.find(|place| place.exists()).unwrap_or_else(|| panic!("cargo has built no {name}"))
}

pub fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Compiles a source of this crate as a program of a name.
pub fn compile(source: &str, name: &str, flags: &[String]) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-D_DEFAULT_SOURCE"])
        .arg(here().join(source))
        .args(flags)
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{said}");
    program
}

/// Returns the flags for the header and the shared library.
pub fn shared_flags() -> Vec<String> {
    let folder = library("libmicanite.so").parent().unwrap().display().to_string();
    vec![include(), format!("-L{folder}"), "-lmicanite".to_owned()]
}

pub fn include() -> String {
    format!("-I{}", here().join("include").display())
}
