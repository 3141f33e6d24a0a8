//! The files of the repository, or of a test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// Folders that hold nothing of the repository's, for trees without git.
const BUILT: [&str; 4] = [".git", ".venv", "target", "fuzz/target"];
/// Names of such folders, wherever they stand.
const CACHES: [&str; 3] = ["__pycache__", ".pytest_cache", "node_modules"];
/// A file in folders that a program fills and may empty, such as cargo's.
const CACHE_TAG: &str = "CACHEDIR.TAG";
/// Endings of the files that are checked before git tracks them. Others may be a developer's scratch.
const SOURCES: [&str; 6] = [".rs", ".py", ".md", ".c", ".h", ".sh"];

/// Files by path, relative to the root, with `/` between folders.
pub struct Tree {
    files: BTreeMap<String, File>,
    folders: BTreeSet<String>,
}

struct File {
    bytes: u64,
    /// None if it is no UTF-8.
    text: Option<String>,
}

impl Tree {
    /// The repository of this crate: files that git tracks, and new sources that it does not ignore.
    pub fn repository() -> &'static Self {
        static REPOSITORY: LazyLock<Tree> = LazyLock::new(|| {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
            let paths = listed(&root).unwrap_or_else(|reason| {
                println!(
                    "git lists no files ({reason}): every file outside of {BUILT:?} and {CACHES:?} is checked"
                );
                walked(&root)
            });
            Tree::read(&root, paths)
        });
        &REPOSITORY
    }

    /// The sources of the site, as `make docs` lays them out.
    pub fn site() -> Self {
        let folder = scratch("tidy_site");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/site/lay.sh");
        let laid = Command::new(script).arg(&folder).output().unwrap();
        assert!(laid.status.success(), "lay.sh: {}", String::from_utf8_lossy(&laid.stderr));
        Self::read(&folder, walked(&folder))
    }

    fn read(root: &Path, paths: Vec<String>) -> Self {
        let read = |path: String| Some((path.clone(), std::fs::read(root.join(path)).ok()?));
        Self::of_files(paths.into_iter().filter_map(read))
    }

    /// The tree of a test: paths and texts.
    pub fn of(files: &[(&str, &str)]) -> Self {
        Self::of_files(files.iter().map(|(path, text)| (path.to_string(), text.as_bytes().to_vec())))
    }

    fn of_files(files: impl Iterator<Item = (String, Vec<u8>)>) -> Self {
        let file = |(path, bytes): (String, Vec<u8>)| {
            (path, File { bytes: bytes.len() as u64, text: String::from_utf8(bytes).ok() })
        };
        let files: BTreeMap<_, _> = files.map(file).collect();
        let parents = |path: &String| {
            let ends: Vec<usize> = path.match_indices('/').map(|(end, _)| end).collect();
            ends.into_iter().map(|end| path[..end].to_string()).collect::<Vec<_>>()
        };
        let folders = files.keys().flat_map(parents).collect();
        Self { files, folders }
    }

    pub fn contains(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    pub fn has_folder(&self, path: &str) -> bool {
        path.is_empty() || self.folders.contains(path)
    }

    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    pub fn bytes(&self) -> impl Iterator<Item = (&str, u64)> {
        self.files.iter().map(|(path, file)| (path.as_str(), file.bytes))
    }

    /// Paths and texts of the files that are text.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|(path, file)| Some((path.as_str(), file.text.as_deref()?)))
    }

    /// Paths and texts of files with these endings.
    pub fn texts_ending<'t>(&'t self, endings: &'t [&str]) -> impl Iterator<Item = (&'t str, &'t str)> {
        self.texts().filter(move |(path, _)| endings.iter().any(|ending| path.ends_with(ending)))
    }

    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.text.as_deref()
    }
}

/// The folder of a path; empty at the root.
pub fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The last component of a path.
pub fn name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// `path` as it reads from `folder`; none above the root.
pub fn join(folder: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Lists the files that git tracks, and new sources. A listing without `Cargo.toml` is of another repository,
/// in which this tree lies.
fn listed(root: &Path) -> Result<Vec<String>, String> {
    let mut paths = git_lists(root, &["--cached"])?;
    if !paths.iter().any(|path| path == "Cargo.toml") {
        return Err("Cargo.toml is not among them".to_string());
    }
    let new = git_lists(root, &["--others", "--exclude-standard"])?;
    paths.extend(new.into_iter().filter(|path| is_new_source(root, path)));
    Ok(paths)
}

fn is_new_source(root: &Path, path: &str) -> bool {
    let mut folders = path.match_indices('/').map(|(end, _)| &path[..end]);
    SOURCES.iter().any(|ending| path.ends_with(ending)) && !folders.any(|folder| is_cache(&root.join(folder)))
}

fn is_cache(folder: &Path) -> bool {
    folder.join(CACHE_TAG).exists()
}

fn git_lists(root: &Path, which: &[&str]) -> Result<Vec<String>, String> {
    let output = Command::new("git").arg("-C").arg(root).args(["ls-files", "-z"]).args(which).output();
    let output = output.map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_string());
    }
    let paths = String::from_utf8_lossy(&output.stdout);
    Ok(paths.split_terminator('\0').map(str::to_string).collect())
}

/// Lists the files below a folder, without those that were built.
fn walked(root: &Path) -> Vec<String> {
    let mut paths = Vec::new();
    walk(root, "", &mut paths);
    paths
}

fn walk(root: &Path, folder: &str, paths: &mut Vec<String>) {
    let at: PathBuf = root.join(folder);
    for entry in std::fs::read_dir(&at).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => {
                let is_skipped = BUILT.contains(&path.as_str()) || CACHES.contains(&name.as_str());
                if !is_skipped && !is_cache(&entry.path()) {
                    walk(root, &path, paths);
                }
            }
            // A link to a file is a file of the tree.
            Ok(_) if entry.path().is_file() => paths.push(path),
            _ => {}
        }
    }
}

#[test]
fn repository_is_found() {
    let tree = Tree::repository();
    assert!(tree.contains("Cargo.toml") && tree.contains("crates/micanite/tests/tidy/tree.rs"));
    assert!(!tree.has_folder("target"), "what was built is not checked");
}

#[test]
fn walking_finds_what_git_tracks() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let paths = walked(&root);
    let missing: Vec<&str> =
        Tree::repository().paths().filter(|path| !paths.iter().any(|walked| walked == path)).collect();
    assert_eq!(missing, [""; 0]);
}

/// Returns an empty folder for a test.
fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn caches_and_scratch_files_are_not_checked() {
    let root = scratch("tidy_caches");
    std::fs::create_dir_all(root.join("built/debug")).unwrap();
    std::fs::create_dir_all(root.join("src")).unwrap();
    for path in ["built/CACHEDIR.TAG", "built/debug/generated.rs", "src/a.rs", "trace.bin"] {
        std::fs::write(root.join(path), "").unwrap();
    }
    let is_checked = |path| is_new_source(&root, path);
    assert_eq!(["built/debug/generated.rs", "trace.bin", "src/a.rs"].map(is_checked), [false, false, true]);
    let mut paths = walked(&root);
    paths.sort();
    assert_eq!(paths, ["src/a.rs", "trace.bin"]);
}

#[test]
fn listings_of_another_repository_do_not_count() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    assert!(listed(&root.join("docs")).is_err());
}

#[test]
fn paths_join_by_their_parts() {
    assert_eq!(join("docs/benchmarks", "../kernel.md").as_deref(), Some("docs/kernel.md"));
    assert_eq!(join("docs", "./a/b.svg").as_deref(), Some("docs/a/b.svg"));
    assert_eq!(join("docs", "../../outside.md"), None);
}
