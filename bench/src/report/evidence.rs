//! The raw data: what was run where and when, and what it gave. The page and the document are
//! drawn from it and from nothing else, so that they can be drawn again.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::report::machine::Machine;
use crate::report::peers::Peer;
use crate::report::section::{Form, Results};

/// The file that holds all of it, among the raw data.
pub(crate) const FILE: &str = "report.json";

/// A run of the report.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Evidence {
    pub head: Head,
    pub sections: Vec<Measured>,
}

/// Facts of a whole run.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Head {
    pub form: Form,
    /// A date.
    pub begun: String,
    pub seconds: f64,
    pub commit: Commit,
    pub machine: Machine,
    pub peers: Vec<Peer>,
    /// Command line as typed.
    pub command: String,
}

/// The source that was measured.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Commit {
    pub id: String,
    /// True if there were uncommitted changes.
    pub is_dirty: bool,
}

impl Commit {
    pub fn text(&self) -> String {
        let changed = if self.is_dirty { ", with changes that are not committed" } else { "" };
        format!("{}{changed}", self.id)
    }
}

/// Results of a section's commands.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Measured {
    pub id: String,
    pub begun: String,
    pub seconds: f64,
    pub form: Form,
    pub commit: Commit,
    pub commands: Vec<Ran>,
}

/// Result of a command.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Ran {
    /// The name that its result goes by.
    pub result: String,
    /// Command line for a shell.
    pub typed: String,
    pub seconds: f64,
    /// Reason not to run it.
    pub lacks: Option<String>,
    /// Failure, if there was one.
    pub failed: Option<String>,
    pub notes: Vec<String>,
    pub json: Option<Value>,
}

impl Evidence {
    /// Reads what an earlier run left.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        serde_json::from_str(&text)
            .map_err(|error| format!("{} is no raw data of a report: {error}", path.display()))
    }

    /// Writes it; whoever reads meanwhile sees the old or the new.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let text = serde_json::to_string(self).map_err(|error| error.to_string())?;
        write_file(path, &(text + "\n"))
    }

    /// Results of a section, if it was run.
    pub fn section(&self, id: &str) -> Option<&Measured> {
        self.sections.iter().find(|measured| measured.id == id)
    }
}

impl Measured {
    pub fn results(&self) -> Results {
        let json: BTreeMap<_, _> =
            self.commands.iter().filter_map(|ran| Some((ran.result.clone(), ran.json.clone()?))).collect();
        Results { json }
    }

    /// Failures, command by command.
    pub fn failures(&self) -> impl Iterator<Item = (&Ran, &str)> {
        self.commands.iter().filter_map(|ran| Some((ran, ran.failed.as_deref()?)))
    }
}

/// Writes a file beside its place and moves it there; makes the folder if there is none.
pub(crate) fn write_file(path: &Path, text: &str) -> Result<(), String> {
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
    fn failed_writes_leave_no_file() {
        let folder = std::env::temp_dir().join(format!("micanite-files-{}", std::process::id()));
        // A folder is where the file should go.
        std::fs::create_dir_all(folder.join("page.html")).unwrap();
        let wrong = write_file(&folder.join("page.html"), "text").unwrap_err();
        assert!(wrong.starts_with("cannot write "), "{wrong}");
        let left: Vec<_> = std::fs::read_dir(&folder).unwrap().flatten().collect();
        assert_eq!(left.len(), 1, "{left:?}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
