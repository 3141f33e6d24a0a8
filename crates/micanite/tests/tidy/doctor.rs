//! `micanite ctl doctor` names options and commands that exist.

use clap::{Command, CommandFactory};

use super::tree::Tree;

const FOLDER: &str = "crates/host/src/doctor/";
const TESTS: &str = "crates/host/src/doctor/tests/";
/// Options of other programs that it names.
const OTHERS: [(&str, &str); 7] = [
    ("bind", "dpdk-devbind.py"),
    ("cap-add", "docker run"),
    ("security-opt", "docker run"),
    ("now", "systemctl"),
    ("release", "cargo build"),
    ("features", "cargo build"),
    ("no-huge", "DPDK"),
];

/// Returns the long options that texts of these files name, without the dashes, and the words behind `ctl`.
fn named(tree: &Tree) -> (Vec<String>, Vec<String>) {
    let (mut options, mut commands) = (Vec::new(), Vec::new());
    let is_ours = |path: &str| path.starts_with(FOLDER) && !path.starts_with(TESTS);
    for (_, text) in tree.texts_ending(&[".rs"]).filter(|(path, _)| is_ours(path)) {
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let strings = code.collect::<Vec<_>>().join("\n");
        for string in strings.split('"').skip(1).step_by(2) {
            options.extend(string.split("--").skip(1).map(word).filter(|word| !word.is_empty()));
            let around = string.split("ctl ").skip(1).zip(string.split("ctl "));
            let whole = around.filter(|(_, before)| !before.ends_with(|it: char| it.is_alphabetic()));
            commands.extend(whole.map(|(after, _)| word(after)));
        }
    }
    (options, commands)
}

fn word(text: &str) -> String {
    text.chars().take_while(|letter| letter.is_ascii_alphanumeric() || *letter == '-').collect()
}

fn add_options(command: &Command, names: &mut Vec<String>) {
    names.extend(command.get_arguments().filter_map(|argument| argument.get_long()).map(String::from));
    command.get_subcommands().for_each(|command| add_options(command, names));
}

/// Returns what is named and does not exist.
fn offences(tree: &Tree) -> Vec<String> {
    let line = micanite_command::CommandLine::command();
    let mut known = Vec::new();
    add_options(&line, &mut known);
    let hidden = micanite_command::hidden_names();
    known.retain(|name| !hidden.contains(name));
    let ctl = line.find_subcommand("ctl").into_iter().flat_map(Command::get_subcommands);
    let ctl: Vec<_> = ctl.map(Command::get_name).collect();
    let (options, commands) = named(tree);
    let is_option = |name: &&String| known.contains(name) || OTHERS.iter().any(|(of, _)| of == *name);
    let options = options.iter().filter(|name| !is_option(name)).map(|name| format!("--{name}"));
    let commands = commands.iter().filter(|name| !ctl.contains(&name.as_str()));
    options.chain(commands.map(|name| format!("ctl {name}"))).collect()
}

#[test]
fn the_doctor_names_options_and_commands_that_exist() {
    let tree = Tree::repository();
    let (options, commands) = named(tree);
    assert!(options.len() > 10 && commands.len() >= 2, "{options:?} {commands:?}");
    assert_eq!(offences(tree), Vec::<String>::new());
    for (name, program) in OTHERS {
        assert!(options.iter().any(|option| option == name), "--{name} ({program}) is not named any more");
    }
}

#[test]
fn what_does_not_exist_is_found() {
    let text =
        "/// --comment\nsay(\"serve --bypass x --colour; micanite ctl nic, ctl paint, systemctl stop\")";
    let tree = Tree::of(&[("crates/host/src/doctor/judge.rs", text)]);
    assert_eq!(offences(&tree), ["--colour", "ctl paint"]);
}
