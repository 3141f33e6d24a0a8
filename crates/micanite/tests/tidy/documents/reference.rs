//! `docs/reference/options.md` is what the declarations of options make.

use crate::tree::Tree;

const PAGE: &str = "docs/reference/options.md";

#[test]
fn the_page_of_options_is_what_the_declarations_make() {
    let committed = Tree::repository().text(PAGE).unwrap_or_default();
    let made = micanite_command::reference();
    let differs = committed.lines().zip(made.lines()).find(|(old, new)| old != new);
    assert!(committed == made, "{PAGE} is stale ({differs:?}): run {}", micanite_command::REFERENCE_COMMAND);
}
