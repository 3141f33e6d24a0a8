//! Files that nothing reaches: each kind by what names its files.

mod mentions;
mod pages;
mod python;
mod rust;

use std::collections::BTreeSet;

use super::verdict::Offence;

/// An offence for each path that is not reached.
fn unreached<'t>(
    paths: impl Iterator<Item = &'t str>,
    reached: &BTreeSet<String>,
    what: &str,
) -> Vec<Offence> {
    let missing = paths.filter(|path| !reached.contains(*path));
    missing.map(|path| Offence { place: path.to_string(), size: 1, what: what.to_string() }).collect()
}
