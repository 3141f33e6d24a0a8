//! Runs the sections' commands, one after the other, says how far it is, and keeps what they write.

mod child;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use child::Ended;
pub(crate) use child::Signals;

use crate::harness::peers::Named;
use crate::report::clock::{now, span};
use crate::report::evidence::{Commit, Evidence, FILE, Head, Measured, Ran};
use crate::report::section::{Command, Form, Section};

/// After that long a command hangs and is ended.
const COMMAND_SECONDS_MAX: Duration = Duration::from_secs(600);
/// Lines of what a failed command said that are kept.
const LINES_KEPT: usize = 6;

/// Settings of a run.
pub(crate) struct Plan<'a> {
    pub form: Form,
    /// Folder of our programs.
    pub programs: &'a Path,
    /// Folder for the raw data.
    pub raw: PathBuf,
    pub peers: &'a [Named],
    pub commit: Commit,
}

/// Data from before the run.
pub(crate) struct Before {
    pub head: Head,
    /// An earlier run, of which sections are kept that are not measured now.
    pub kept: Option<Evidence>,
    /// The last run, whatever it was: how long things take.
    pub earlier: Option<Evidence>,
}

/// Runs some sections. What was measured is written after each, so that a run that is
/// interrupted leaves it; an interrupted section leaves nothing.
pub(crate) fn run(
    plan: &Plan<'_>,
    sections: &[Section],
    before: Before,
    signals: &Signals,
) -> Result<Evidence, String> {
    let begun = Instant::now();
    let mut evidence = before.kept.unwrap_or(Evidence { head: before.head, sections: Vec::new() });
    let seconds_before = evidence.head.seconds;
    for (at, section) in sections.iter().enumerate() {
        let elapsed = begun.elapsed().as_secs_f64();
        let rest: f64 =
            sections[at..].iter().map(|section| expected(section, plan.form, before.earlier.as_ref())).sum();
        eprintln!(
            "[{} of {}] {}: {}\n    {} gone, about {} to go",
            at + 1,
            sections.len(),
            section.id,
            section.text.question,
            span(elapsed),
            span(rest)
        );
        let measured = measure(plan, section, signals).map_err(|reason| stopped(&reason, at))?;
        eprintln!("    {} took {}", section.id, span(measured.seconds));
        evidence.sections.retain(|earlier| earlier.id != measured.id);
        evidence.sections.push(measured);
        evidence.head.seconds = rounded(seconds_before + begun.elapsed().as_secs_f64());
        evidence.write(&plan.raw.join(FILE))?;
    }
    Ok(evidence)
}

/// Explains that the report ends early, and what is there all the same.
fn stopped(reason: &str, measured: usize) -> String {
    match measured {
        0 => reason.to_owned(),
        _ => format!("{reason}; sections measured before: {measured}, which make bench ARGS=--reuse draws"),
    }
}

/// Estimates a section's duration: that of the last time, if it had the same form.
fn expected(section: &Section, form: Form, earlier: Option<&Evidence>) -> f64 {
    earlier
        .and_then(|evidence| evidence.section(section.id))
        .filter(|measured| measured.form == form)
        .map_or_else(|| form.pick(25.0, 70.0), |measured| measured.seconds)
}

/// Runs the commands of a section; one that fails does not keep the next from being run.
fn measure(plan: &Plan<'_>, section: &Section, signals: &Signals) -> Result<Measured, String> {
    let folder = plan.raw.join(section.id);
    if folder.exists() {
        std::fs::remove_dir_all(&folder)
            .map_err(|error| format!("cannot clear {}: {error}", folder.display()))?;
    }
    let (began, clock) = (now(), Instant::now());
    let mut commands = Vec::new();
    for command in (section.commands)(plan.form) {
        commands.push(one(plan, &folder, &command, signals)?);
    }
    Ok(Measured {
        id: section.id.to_owned(),
        begun: began,
        seconds: rounded(clock.elapsed().as_secs_f64()),
        form: plan.form,
        commit: plan.commit.clone(),
        commands,
    })
}

/// Runs a command.
///
/// # Errors
/// Only when the report itself cannot go on: it was interrupted, or a file cannot be written.
fn one(plan: &Plan<'_>, folder: &Path, command: &Command, signals: &Signals) -> Result<Ran, String> {
    let arguments = arguments(command, plan.peers);
    let program = plan.programs.join("micanite-lab");
    let mut ran = Ran {
        result: command.result.to_owned(),
        typed: typed(&program, &arguments),
        seconds: 0.0,
        lacks: command.lacks.clone(),
        failed: None,
        notes: Vec::new(),
        json: None,
    };
    if let Some(reason) = &ran.lacks {
        eprintln!("    not run: {} ({reason})", ran.typed);
        return Ok(ran);
    }
    eprintln!("    $ {}", ran.typed);
    let scratch = folder.join(command.result);
    std::fs::create_dir_all(&scratch)
        .map_err(|error| format!("cannot make {}: {error}", scratch.display()))?;
    let log = folder.join(format!("{}.log", command.result));
    let clock = Instant::now();
    let ended = child::run(
        &child::Start {
            program: &program,
            arguments: &arguments,
            results: &scratch,
            log: &log,
            most: COMMAND_SECONDS_MAX,
        },
        signals,
    )?;
    ran.seconds = rounded(clock.elapsed().as_secs_f64());
    let said = std::fs::read_to_string(&log).unwrap_or_default();
    let kept = folder.join(format!("{}.json", command.result));
    if ended == Ended::Interrupted {
        return Err("interrupted".to_owned());
    }
    let wrote = || result(&scratch, command.result, &kept);
    (ran.json, ran.failed) = outcome(&ended, &said, wrote);
    let _ = std::fs::remove_dir_all(&scratch);
    if let Some(reason) = &ran.failed {
        eprintln!("    failed: {reason}");
    }
    ran.notes = notes(&said);
    Ok(ran)
}

/// JSON of a command and its failure: a failed one may have measured a part.
fn outcome(
    ended: &Ended,
    said: &str,
    wrote: impl FnOnce() -> Result<serde_json::Value, String>,
) -> (Option<serde_json::Value>, Option<String>) {
    let reason = match ended {
        Ended::Failed(status) => format!("it ended with {status}{}", last_lines(said)),
        Ended::Hung => {
            format!("it was ended, since it had run for {}", span(COMMAND_SECONDS_MAX.as_secs_f64()))
        }
        Ended::Well | Ended::Interrupted => {
            return match wrote() {
                Ok(json) => (Some(json), None),
                Err(reason) => (None, Some(reason)),
            };
        }
    };
    (wrote().ok(), Some(reason))
}

/// Rounds to tenths.
fn rounded(seconds: f64) -> f64 {
    (seconds * 10.0).round() / 10.0
}

/// Reads the JSON of a command from its folder: the file of the result's name, or else the only one.
fn result(scratch: &Path, name: &str, kept: &Path) -> Result<serde_json::Value, String> {
    let wrote = |error: std::io::Error| format!("what it wrote cannot be read: {error}");
    let mut files: Vec<_> = std::fs::read_dir(scratch)
        .map_err(wrote)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .collect();
    if let Some(named) = files.iter().find(|path| path.file_stem().is_some_and(|stem| stem == name)) {
        files = vec![named.clone()];
    }
    let [file] = files.as_slice() else {
        return Err(format!("it wrote {} files of JSON instead of one", files.len()));
    };
    let text = std::fs::read_to_string(file).map_err(wrote)?;
    let json = serde_json::from_str(&text).map_err(|error| format!("it wrote no JSON: {error}"))?;
    std::fs::rename(file, kept).map_err(wrote)?;
    Ok(json)
}

fn arguments(command: &Command, peers: &[Named]) -> Vec<String> {
    let mut arguments = command.arguments.clone();
    if command.takes_peers {
        for peer in peers {
            arguments.extend(["--peer".to_owned(), format!("{}={}", peer.name, peer.address)]);
        }
    }
    arguments
}

/// A command as one would type it in a shell.
fn typed(program: &Path, arguments: &[String]) -> String {
    let mut text = program.display().to_string();
    for argument in arguments {
        text.push(' ');
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,@%+".contains(c);
        if !argument.is_empty() && argument.chars().all(is_plain) {
            text.push_str(argument);
        } else {
            text.push_str(&format!("'{}'", argument.replace('\'', "'\\''")));
        }
    }
    text
}

/// Notes on the figures: lines that begin with `note: `, each once.
fn notes(said: &str) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for line in said.lines() {
        if let Some(note) = line.strip_prefix("note: ")
            && notes.iter().all(|known| known != note)
        {
            notes.push(note.to_owned());
        }
    }
    notes
}

/// Last lines of a command's output: of a line that was written over, how it was at the end.
fn last_lines(said: &str) -> String {
    let lines: Vec<_> = said
        .lines()
        .filter_map(|line| line.trim_end().rsplit('\r').next())
        .filter(|line| !line.trim().is_empty() && !line.starts_with("note: "))
        .collect();
    let from = lines.len().saturating_sub(LINES_KEPT);
    match lines[from..].join("\n") {
        nothing if nothing.is_empty() => String::new(),
        some => format!(": {some}"),
    }
}

#[cfg(test)]
mod tests;
