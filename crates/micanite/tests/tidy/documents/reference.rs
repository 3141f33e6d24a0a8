//! The pages of `docs/reference` are what the declarations of options and of statistics make.

use crate::tree::Tree;

#[test]
fn the_pages_of_the_reference_are_what_the_declarations_make() {
    let pages = [
        ("docs/reference/options.md", micanite_command::reference()),
        ("docs/reference/statistics.md", micanite_command::statistics()),
    ];
    for (page, made) in pages {
        let committed = Tree::repository().text(page).unwrap_or_default();
        let differs = committed.lines().zip(made.lines()).find(|(old, new)| old != new);
        let command = micanite_command::REFERENCE_COMMAND;
        assert!(committed == made, "{page} is stale ({differs:?}): run {command}");
    }
}
