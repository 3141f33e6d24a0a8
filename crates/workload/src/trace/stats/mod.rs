//! `micanite trace stats`: what is in a trace (dissertation, sections 2.2 and 2.3).

mod causes;
mod drawing;
mod figures;
mod gather;
mod groups;
mod keys;
#[cfg(test)]
mod pools;
mod popularity;
mod sizes;
mod summary;
mod tables;
#[cfg(test)]
mod tests;
mod times;

use std::path::{Path, PathBuf};

use clap::Args;
use micanite_control::stderr;
use micanite_engine::Eviction;

use crate::trace::open::{Format, Opened};
use crate::trace::progress::Reading;
use crate::trace::simulate::{Policy, Size};
use crate::trace::stdout::Stdout;
use crate::trace::{Failure, open};
use gather::{Gathered, Question};
pub use summary::{Summary, summary};

/// Keys that are remembered if nobody says: the most for which the table has 2^24 places.
const KEYS_MAX: u64 = 14_000_000;

/// What is in a trace: operations, sizes, rates, popularity, reuse, working set.
#[derive(Args, Debug)]
pub struct StatsOptions {
    /// The trace; - is the standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Its format, where name and content do not tell it
    #[arg(long)]
    format: Option<Format>,
    /// How many prefixes of keys are shown beside all keys, those with most requests first
    #[arg(long, value_name = "N", default_value_t = 4)]
    prefixes: usize,
    /// What ends the prefix of a key
    #[arg(long, value_name = "CHARACTER", default_value = ":", value_parser = delimiter)]
    delimiter: u8,
    /// Also find out why reads miss in a server of ours that has so much memory (-m): 64m
    #[arg(long, value_name = "SIZE")]
    bytes: Option<Size>,
    /// The policy of that server: s3-fifo, clock, approximate-lru, engine:lru, engine:fifo are the engine's;
    /// lru and fifo are exact
    #[arg(
        long, value_name = "NAME", default_value_t = Policy::Engine(Eviction::default()), requires = "bytes"
    )]
    policy: Policy,
    /// Look for bursts in intervals of so many seconds
    #[arg(
        long, value_name = "SECONDS", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=86_400)
    )]
    interval: u32,
    /// Look at this fraction of the keys
    #[arg(long, value_name = "FRACTION", default_value_t = 1.0, value_parser = fraction)]
    sample: f64,
    /// Remember so many keys at most (about 50 bytes each): of more, a part stands for the others
    #[arg(
        long, value_name = "N", default_value_t = KEYS_MAX,
        value_parser = clap::value_parser!(u64).range(1000..)
    )]
    keys_max: u64,
    /// Stop after so many requests
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    requests: u64,
    /// Write each table as NAME.csv to this directory
    #[arg(long, value_name = "DIRECTORY")]
    csv: Option<PathBuf>,
    /// Draw each figure as NAME.svg to this directory
    #[arg(long, value_name = "DIRECTORY")]
    svg: Option<PathBuf>,
    /// No progress
    #[arg(short, long)]
    quiet: bool,
}

impl StatsOptions {
    fn memory_bytes(&self) -> Result<Option<u64>, Failure> {
        match self.bytes {
            None => Ok(None),
            Some(Size::Bytes(bytes)) => Ok(Some(bytes)),
            // The size of a percentage is known only at the end.
            Some(Size::Percent(_)) => Err(Failure::usage("--bytes of stats is a size such as 64m")),
        }
    }
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        [byte] => Ok(*byte),
        _ => Err("one character of one byte".to_owned()),
    }
}

fn fraction(text: &str) -> Result<f64, String> {
    let fraction = text.parse::<f64>().map_err(|error| error.to_string())?;
    (fraction > 0.0 && fraction <= 1.0).then_some(fraction).ok_or_else(|| "above 0, at most 1".to_owned())
}

/// Prints the statistics of a trace, and draws them where that is wanted.
///
/// # Errors
/// When the trace cannot be read, or a file cannot be written.
pub fn stats(options: &StatsOptions) -> Result<(), Failure> {
    let mut opened = open(&options.file, options.format)?;
    let gathered = read(options, &mut opened)?;
    let mut to = Stdout::new();
    to.print(&heading(options, &gathered))?;
    to.print(&tables::text(&gathered, options.prefixes))?;
    for remark in &gathered.remarks {
        stderr::say(format_args!("micanite trace: {}: {remark}", options.file.display()));
    }
    if let Some(folder) = &options.csv {
        for table in tables::all(&gathered, options.prefixes) {
            let text = format!("{}\n{}\n", table.columns, table.rows.join("\n"));
            write(folder, &format!("{}.csv", table.name), &text)?;
        }
    }
    if let Some(folder) = &options.svg {
        for (name, svg) in drawing::all(&gathered, options.prefixes) {
            write(folder, &format!("{name}.svg"), &svg)?;
        }
    }
    Ok(())
}

fn read(options: &StatsOptions, opened: &mut Opened) -> Result<Gathered, Failure> {
    let question = Question {
        delimiter: options.delimiter,
        sample: options.sample,
        keys_max: usize::try_from(options.keys_max).unwrap_or(usize::MAX),
        requests_max: options.requests,
        cache: options.memory_bytes()?.map(|bytes| (options.policy, bytes)),
        interval_s: options.interval,
    };
    let progress = Reading::new(opened, options.quiet);
    let gathered = gather::gather(&mut *opened.reader, &question, &mut |requests| {
        progress.at(requests);
    });
    drop(progress);
    let gathered = gathered?;
    if gathered.keys.len() == 0 {
        return Err(Failure::new(format!("{}: no request in it", options.file.display())));
    }
    Ok(gathered)
}

fn heading(options: &StatsOptions, gathered: &Gathered) -> String {
    let mut text = format!(
        "{}: {:.0} s{}\n",
        options.file.display(),
        gathered.seconds(),
        if gathered.is_dated { "" } else { ", not dated" },
    );
    if gathered.trace_fraction < 1.0 {
        text += &format!(
            "It is a sample with {:.3} % of the keys: requests and rates are theirs.",
            gathered.trace_fraction * 100.0
        );
        if let Some(seen) = gathered.seen {
            text += &format!(" Of all keys there were {} requests.", tables::grouped(seen.requests as f64));
        }
        text.push('\n');
    }
    if gathered.weight() > 1.001 {
        text += &format!(
            "What depends on keys is estimated: {} of them stand for {:.2} times as many; shares of keys are \
             off by at most {:.2} points in 95 of 100 samples.\n",
            tables::grouped(gathered.keys.len() as f64),
            gathered.weight(),
            196.0 * (0.25 / gathered.keys.len() as f64).sqrt(),
        );
    }
    text + "\n"
}

fn write(folder: &Path, name: &str, content: &str) -> Result<(), Failure> {
    let path = folder.join(name);
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&path, content))
        .map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))
}

/// The reads that miss in a server of ours that has so many bytes.
#[cfg(test)]
pub(crate) fn misses_at(reader: &mut dyn crate::trace::Reader, bytes: u64) -> Result<f64, Failure> {
    let cache = Some((Policy::Engine(Eviction::default()), bytes));
    let question = Question { cache, ..Question::new(1 << 24) };
    let gathered = gather::gather(reader, &question, &mut |_| {})?;
    let all = gathered.groups.shown(0).remove(0).2;
    Ok(all.reads[1..].iter().sum())
}
