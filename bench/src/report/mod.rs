//! The report: runs the evaluation on this machine, next to the peers that are installed, and
//! writes one page with figures and the raw data.

mod clock;
mod data;
mod document;
mod evidence;
pub(crate) mod machine;
mod page;
mod peers;
pub(crate) mod plan;
mod run;
pub(crate) mod section;
pub(crate) mod sections;
mod shown;
#[cfg(test)]
mod testing;

use std::path::PathBuf;

use crate::harness::peers::Named;
use evidence::{Evidence, FILE, Head, write_file};
use run::{Plan, Signals};
use section::{Form, Section};

/// Options of a run.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// More rounds, larger data sets, more points
    #[arg(long)]
    full: bool,
    /// Only the sections of these names
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    only: Vec<String>,
    /// Names the sections and ends
    #[arg(long)]
    list: bool,
    /// Measures nothing: draws the raw data that is there
    #[arg(long, conflicts_with_all = ["only", "full", "peer"])]
    reuse: bool,
    /// Measures these sections again, and takes the others from the raw data that is there
    #[arg(long, value_name = "ID", value_delimiter = ',', conflicts_with_all = ["only", "reuse"])]
    again: Vec<String>,
    /// Draws the raw data of this file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["only", "full", "peer", "again", "reuse"])]
    data: Option<PathBuf>,
    /// Another server to stand beside, where a section can: dragonfly=memcached://127.0.0.1:11311
    #[arg(long, value_name = "NAME=ADDRESS")]
    peer: Vec<Named>,
    /// Where the page and the raw data go
    #[arg(long, value_name = "DIRECTORY", default_value = "target/report")]
    out: PathBuf,
    /// Writes a Markdown document, too, with its figures in benchmarks/report beside it
    #[arg(long, value_name = "FILE")]
    document: Option<PathBuf>,
    /// Where our programs are
    #[arg(long, value_name = "DIRECTORY", default_value = "target/release")]
    programs: PathBuf,
    /// Command line that the page shows
    #[arg(long, value_name = "TEXT", hide = true)]
    typed: Option<String>,
}

/// Makes the page.
pub(crate) fn run(options: &Options) -> crate::Result<()> {
    match report(options, &sections::all()?)? {
        true => Ok(()),
        false => Err("a section has failed".into()),
    }
}

/// Does what the options say; whether all of it went well.
fn report(options: &Options, known: &[Section]) -> Result<bool, String> {
    if options.list {
        for section in known {
            println!("{:<14} {} ({})", section.id, section.text.question, section.text.source);
        }
        return Ok(true);
    }
    let raw = options.out.join("raw").join(FILE);
    let evidence = match (&options.data, options.reuse) {
        (Some(file), _) => Evidence::read(file)?,
        (None, true) => {
            Evidence::read(&raw).map_err(|error| format!("{error}; without --reuse it is measured"))?
        }
        (None, false) => measure(options, known, &raw)?,
    };
    let path = options.out.join("index.html");
    write_file(&path, &page::page(&evidence, known)?)?;
    if let Some(file) = &options.document {
        document::document(&evidence, known).write(file)?;
        eprintln!("written: {}", file.display());
    }
    eprintln!("written: {}", path.display());
    let failed: Vec<_> = shown::all(&evidence, known).into_iter().filter(shown::Shown::has_failed).collect();
    for shown in &failed {
        for trouble in shown.troubles() {
            eprintln!("micanite-lab: {}: {trouble}", shown.section.id);
        }
    }
    Ok(failed.is_empty())
}

/// Runs the sections that are asked for.
fn measure(options: &Options, known: &[Section], raw: &std::path::Path) -> Result<Evidence, String> {
    let asked = if options.again.is_empty() { &options.only } else { &options.again };
    if let Some(unknown) = asked.iter().find(|id| known.iter().all(|section| section.id != id.as_str())) {
        let ids: Vec<_> = known.iter().map(|section| section.id).collect();
        return Err(format!("'{unknown}' is no section; there are {}", ids.join(", ")));
    }
    let sections: Vec<_> = known
        .iter()
        .filter(|section| asked.is_empty() || asked.iter().any(|id| id == section.id))
        .cloned()
        .collect();
    let earlier = Evidence::read(raw);
    let kept = if options.again.is_empty() { None } else { Some(earlier.clone()?) };
    let form = match (&kept, options.full) {
        (_, true) => Form::Full,
        (Some(kept), false) => kept.head.form,
        (None, false) => Form::Short,
    };
    let plan = Plan {
        form,
        programs: &options.programs,
        raw: options.out.join("raw"),
        peers: &options.peer,
        commit: machine::commit(),
    };
    for peer in &options.peer {
        peer.reach()?;
    }
    let signals = Signals::take()?;
    let typed = options.typed.clone().unwrap_or_else(|| std::env::args().collect::<Vec<_>>().join(" "));
    let head = Head {
        form,
        begun: clock::now(),
        seconds: 0.0,
        commit: plan.commit.clone(),
        machine: machine::Machine::this(),
        peers: peers::all(&options.peer),
        command: typed,
    };
    run::run(&plan, &sections, run::Before { head, kept, earlier: earlier.ok() }, &signals)
}
