//! Places that may pass a limit, with reasons. A size is what the place has today: lower it with the place.

use super::verdict::Exception;

/// Sizes are numbers of lines.
pub const LONG_LINES: &[Exception] = &[];

pub const LONG_FILES: &[Exception] = &[];

pub const LONG_FUNCTIONS: &[Exception] = &[];

pub const FULL_FOLDERS: &[Exception] = &[];

/// Folders that are flat by design, with reasons: they may grow.
pub const FLAT_FOLDERS: &[(&str, &str)] = &[
    (".", "tools look for their files in the root"),
    ("crates", "a folder for each crate"),
    ("docs", "a page for each subject, by the names that links elsewhere have"),
];

pub const STALE_PATHS: &[Exception] =
    &[Exception { place: "CONTRIBUTING.md", size: 1, reason: "an example of a bad name" }];
