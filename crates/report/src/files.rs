//! Writing files.

use std::path::{Path, PathBuf};

/// A path below what cargo builds into, as seen from here where it is below that: `target/traces`.
pub(crate) fn target(path: &str) -> PathBuf {
    let folder =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    let here = std::env::current_dir().unwrap_or_default();
    folder.strip_prefix(here).unwrap_or(&folder).join(path)
}

/// Writes a file beside its place and moves it there; makes the folder if there is none.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("cannot write {}: {error}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let written = std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, path));
    if written.is_err() {
        // Half of it is of no use, on a full disk least of all.
        let _ = std::fs::remove_file(&beside);
    }
    written.map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_leaves_nothing() {
        let folder = std::env::temp_dir().join(format!("micanite-files-{}", std::process::id()));
        // A folder is where the file should go.
        std::fs::create_dir_all(folder.join("page.html")).unwrap();
        let wrong = write(&folder.join("page.html"), "text").unwrap_err();
        assert!(wrong.starts_with("cannot write "), "{wrong}");
        let left: Vec<_> = std::fs::read_dir(&folder).unwrap().flatten().collect();
        assert_eq!(left.len(), 1, "{left:?}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
