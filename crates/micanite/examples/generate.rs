//! Writes the manual pages, the completions of shells and the pages of the reference into a directory, from
//! the command line as it is declared. Packages are built with it:
//! `cargo run --package micanite --example generate -- DIR`.

use std::fs::{File, create_dir_all};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::{Command, CommandFactory};
use clap_complete::{Shell, generate_to};
use clap_mangen::Man;
use micanite_command::{CommandLine, SOURCES, completed, reference, statistics};
use micanite_server::configuration::tabled_names;

const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];
const MANUAL: &str = "Micanite";
/// Last section of every page.
const SEE_ALSO: &str = "\
.SH \"SEE ALSO\"
memcached(1)
.PP
The guide to operation is /usr/share/doc/micanite/operations.md, or docs/operations.md of the source. All
options are in reference/options.md beside it.
";

fn main() -> ExitCode {
    let Some(directory) = std::env::args_os().nth(1) else {
        eprintln!("usage: generate DIRECTORY");
        return ExitCode::from(2);
    };
    match generate(Path::new(&directory)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("generate: {}: {error}", directory.display());
            ExitCode::FAILURE
        }
    }
}

fn generate(directory: &Path) -> io::Result<()> {
    create_dir_all(directory)?;
    let mut command = completed();
    for shell in SHELLS {
        generate_to(shell, &mut command, "micanite", directory)?;
    }
    let mut command = CommandLine::command().disable_help_subcommand(true).mut_subcommand("serve", list_all);
    command.build();
    page(directory, "micanite", &command)?;
    std::fs::write(directory.join("options.md"), reference())?;
    std::fs::write(directory.join("statistics.md"), statistics())
}

/// Lists the options that `--help` shows in tables, which a page would fill as prose.
fn list_all(serve: Command) -> Command {
    let tabled = tabled_names();
    let serve = serve.mut_args(|option| {
        let is_tabled = tabled.iter().any(|name| option.get_id() == name.as_str());
        if is_tabled { option.hide(false) } else { option }
    });
    serve.after_long_help(SOURCES)
}

/// A page for a command, and one for each of its subcommands.
fn page(directory: &Path, name: &str, command: &Command) -> io::Result<()> {
    let title = name.to_uppercase();
    let command = command.clone().display_name(name.to_owned());
    let man = Man::new(command.clone()).title(title).manual(MANUAL);
    let mut file = File::create(directory.join(format!("{name}.1")))?;
    man.render(&mut file)?;
    file.write_all(SEE_ALSO.as_bytes())?;
    for subcommand in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        let name = format!("{name}-{}", subcommand.get_name());
        page(directory, &name, subcommand)?;
    }
    Ok(())
}
