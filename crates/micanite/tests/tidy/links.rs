//! Links of documents, and the paths of sources that they name.

use super::exceptions::STALE_PATHS;
use super::markdown;
use super::tree::{self, Tree};
use super::verdict::{Offence, Verdict};

/// Relative links of documents to files, folders or headings that are not there.
fn dead_links(tree: &Tree) -> Vec<Offence> {
    let mut offences = Vec::new();
    for (page, text) in tree.texts_ending(&[".md"]) {
        for line in markdown::lines(text) {
            for target in markdown::targets(&line) {
                if let Err(why) = follow(tree, page, &target) {
                    let what = format!("line {} links to {target}: {why}", line.number);
                    offences.push(Offence { place: page.to_string(), size: 1, what });
                }
            }
        }
    }
    offences
}

fn follow(tree: &Tree, page: &str, target: &str) -> Result<(), &'static str> {
    if target.contains("://") || target.starts_with("mailto:") {
        return Ok(());
    }
    let (path, anchor) = match target.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (target, None),
    };
    let path = match path {
        "" => page.to_string(),
        path => tree::join(tree::folder(page), path).ok_or("outside of the repository")?,
    };
    if !tree.contains(&path) && !tree.has_folder(&path) {
        return Err("no such file, or git does not track it");
    }
    match (anchor, tree.text(&path)) {
        (Some(anchor), Some(text)) if !markdown::anchors(text).iter().any(|known| known == anchor) => {
            Err("no such heading")
        }
        (Some(_), None) => Err("a folder has no headings"),
        _ => Ok(()),
    }
}

/// Folders of the root whose paths documents name whole.
const WHOLE: [&str; 2] = ["bench/", "crates/"];

/// Paths of sources in code spans of documents, such as `session/sink.rs`, that end no path of the tree, and
/// paths from the root on, such as `crates/engine/src/log/`, that are neither file nor folder. The changelog
/// may name what was.
fn stale_paths(tree: &Tree) -> Vec<Offence> {
    let mut offences = Vec::new();
    for (page, text) in tree.texts_ending(&[".md"]).filter(|(page, _)| *page != "CHANGELOG.md") {
        for markdown::Line { number, code, .. } in markdown::lines(text) {
            for span in code.into_iter().filter(|span| is_stale(tree, span)) {
                let what = format!("line {number} names `{span}`, which is not there");
                offences.push(Offence { place: page.to_string(), size: 1, what });
            }
        }
    }
    offences
}

fn is_stale(tree: &Tree, span: &str) -> bool {
    if !span.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-./".contains(letter)) {
        return false;
    }
    if WHOLE.iter().any(|folder| span.starts_with(folder)) {
        return !tree.contains(span) && !tree.has_folder(span.trim_end_matches('/'));
    }
    let is_source = [".rs", ".py", ".c", ".h"].iter().any(|ending| span.ends_with(ending));
    let behind = format!("/{span}");
    is_source
        && !span.starts_with(['/', '.'])
        && !tree.paths().any(|path| path == span || path.ends_with(&behind))
}

#[test]
fn links_of_the_repository_lead_somewhere() {
    Verdict::of(&dead_links(Tree::repository()), &[]).check();
}

/// The site has the pages of its table of contents and what they link to. It once lacked the examples that a
/// crate's README links to.
#[test]
fn links_of_the_site_lead_somewhere() {
    let site = Tree::site();
    assert!(site.contains("README.md") && site.contains("docs/tutorial.md"));
    Verdict::of(&dead_links(&site), &[]).check();
}

#[test]
fn paths_that_documents_name_exist() {
    Verdict::of(&stale_paths(Tree::repository()), STALE_PATHS).check();
}

#[test]
fn dead_links_are_found() {
    let page = "# A page\n[good](docs/b.md#there) [folder](docs) [web](https://example.org/x) \
                [self](#a-page)\n[file](docs/c.md)\n![image](docs/d.svg)\n\
                [heading](docs/b.md#nowhere)\n[own](#b-page)\n[outside](../../e.md)\n\
                ```\n[code](f.md)\n```\n";
    let tree = Tree::of(&[("a.md", page), ("docs/b.md", "## There\n")]);
    let lines: Vec<String> = dead_links(&tree).into_iter().map(|offence| offence.what).collect();
    let begin = |line: &String| line.split(" links").next().unwrap().to_string();
    assert_eq!(
        lines.iter().map(begin).collect::<Vec<_>>(),
        ["line 3", "line 4", "line 5", "line 6", "line 7"]
    );
}

#[test]
fn stale_paths_are_found() {
    let page = "`src/a.rs` `a.rs` `b.rs` `/etc/c.py` `a.rs:7` `d/a.rs`\n\
                `crates/x/src/` `crates/x` `crates/y/` `crates/x/src/b`\n`bench/src/`\n";
    let tree = Tree::of(&[("page.md", page), ("crates/x/src/a.rs", ""), ("CHANGELOG.md", "`gone.rs`")]);
    let what: Vec<String> = stale_paths(&tree).into_iter().map(|offence| offence.what).collect();
    assert_eq!(
        what,
        [
            "line 1 names `b.rs`, which is not there",
            "line 1 names `d/a.rs`, which is not there",
            "line 2 names `crates/y/`, which is not there",
            "line 2 names `crates/x/src/b`, which is not there",
            "line 3 names `bench/src/`, which is not there"
        ]
    );
}
