//! `micanite trace simulate`: misses against memory.
//!
//! | module | what it holds |
//! |---|---|
//! | [`Compact`] | a trace in memory, or a sample of it |
//! | [`Policy`], [`Accounting`] | what is simulated |
//! | [`EngineCache`] | the engine itself, driven by the clock of a trace |
//! | `exact`, `belady` | the references |
//! | [`Simulation`] | a trace through policies at sizes, on all cores |
//! | [`recommend()`] | the memory to buy |

mod belady;
mod cache;
mod compact;
mod engine;
mod event;
mod exact;
mod jobs;
mod output;
mod policy;
mod recommend;
mod simulation;
mod size;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::PathBuf;

use clap::Args;

pub use cache::Counts;
pub(crate) use cache::{Cache, Item, Stored, look_aside};
pub use compact::{Bounds, Compact};
pub use engine::{EngineCache, Frame};
pub(crate) use event::Kind;
pub(crate) use exact::Exact;
pub use jobs::cores;
pub use policy::{Accounting, Policy};
pub use recommend::{Recommendation, recommend, room_for_all};
pub use simulation::{Case, MissRatio, Rules, Simulation, share_that_fits};
pub use size::Size;

use crate::trace::open::Format;
use crate::trace::progress::{Progress, Reading};
use crate::trace::stdout::Stdout;
use crate::trace::{Failure, open};

/// The sizes if nobody says which, in percent of the bytes of all keys and values.
const PERCENTS: [f64; 10] = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0];
/// One more where headers and the index count, too.
const PERCENT_REAL: f64 = 150.0;

/// A sample of fewer objects is off by more than two points.
const OBJECTS_FEW: usize = 20_000;

/// Simulates caches: how many reads miss with how much memory.
#[derive(Args, Debug)]
pub struct SimulateOptions {
    /// The trace; - is the standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Its format, where name and content do not tell it.
    #[arg(long)]
    format: Option<Format>,
    /// Policies: s3-fifo, clock, approximate-lru, engine:lru, engine:fifo (the engine itself), lru,
    /// fifo, belady (exact) [default: all but engine:lru and engine:fifo]
    #[arg(long, value_name = "NAME", num_args = 1.., value_delimiter = ',')]
    policy: Vec<Policy>,
    /// Memory: 64m, 1.5g, or 10% of the bytes of all keys and values [default: 0.1 % to 100 %]
    #[arg(long, value_name = "SIZE", num_args = 1.., value_delimiter = ',')]
    bytes: Vec<Size>,
    /// What counts against the memory: real (everything, as with -m) or payload (keys and values
    /// alone).
    #[arg(long, value_name = "WHAT", default_value = "real")]
    accounting: Accounting,
    /// The fraction of keys to be simulated, or auto: as many as fit.
    #[arg(long, value_name = "FRACTION", default_value = "auto")]
    sample: Sample,
    /// Read so many requests only.
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    requests: u64,
    /// Do not count this share of the requests, at the beginning.
    #[arg(long, value_name = "FRACTION", default_value_t = 0.0, value_parser = share)]
    warmup: f64,
    /// What the simulation itself may take of memory.
    #[arg(long, value_name = "SIZE", default_value = "1g")]
    memory: Size,
    /// Write the miss ratios to a file: policy, bytes, object_miss_ratio, byte_miss_ratio.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write a figure.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Show no progress.
    #[arg(short, long)]
    quiet: bool,
}

/// Fraction of keys that is simulated.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sample {
    Auto,
    Fraction(f64),
}

impl std::str::FromStr for Sample {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let fraction = text.parse::<f64>().ok();
        fraction
            .filter(|fraction| *fraction > 0.0 && *fraction <= 1.0)
            .map(Self::Fraction)
            .ok_or_else(|| format!("'{text}' is neither auto nor above 0 and at most 1"))
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().map_err(|error| error.to_string())?;
    (0.0..1.0).contains(&share).then_some(share).ok_or_else(|| "not from 0 to below 1".to_owned())
}

/// Simulates caches, and prints their misses.
///
/// # Errors
/// When the options do not make sense, the trace cannot be read, or a file cannot be written.
pub fn simulate(options: &SimulateOptions) -> Result<(), Failure> {
    let Size::Bytes(memory_bytes) = options.memory else {
        return Err(Failure::usage("--memory is no share: say bytes, such as 2g"));
    };
    let policies = match &options.policy[..] {
        [] => Policy::usual(),
        policies => policies.to_vec(),
    };
    let rules =
        Rules { accounting: options.accounting, warm_up: options.warmup, memory_bytes_max: memory_bytes / 2 };
    let mut trace = load(options, &policies, memory_bytes / 2)?;
    let footprint_bytes = trace.footprint_bytes();
    let sizes = options.sizes(footprint_bytes);
    let most = sizes.iter().copied().max().unwrap_or(1);
    let share = share_that_fits(&trace, rules, most);
    if share < 1.0 {
        trace.thin(share);
    }
    if trace.reads_kept == 0 {
        return Err(Failure::new("no key that is read is in the sample: raise --sample, or --memory"));
    }
    let header = described(options, &trace);
    let simulation = Simulation::new(&trace, rules, &policies);
    let cases: Vec<_> =
        policies.iter().flat_map(|&policy| sizes.iter().map(move |&bytes| Case { policy, bytes })).collect();
    let progress = Progress::new(options.quiet);
    let ratios = simulation.run(&cases, |done| {
        progress.say(|| format!("{done} of {} caches simulated", cases.len()));
    })?;
    drop(progress);
    options.write(&ratios)?;
    let mut to = Stdout::new();
    let of_engine = policies.iter().find(|policy| matches!(policy, Policy::Engine(_)));
    if let Some(&policy) = of_engine {
        let text = recommended(&mut trace, rules, policy)?.text();
        to.print(&format!("{text}\n\n"))?;
    }
    to.print(&header)?;
    let title = "Reads that miss:";
    let objects = |ratio: &MissRatio| ratio.objects;
    to.print(&output::table(title, &ratios, footprint_bytes, objects))?;
    let title = "Bytes of them, of the bytes of all reads:";
    let bytes = |ratio: &MissRatio| ratio.bytes;
    to.print("\n")?;
    to.print(&output::table(title, &ratios, footprint_bytes, bytes))
}

/// Simulated in bounds of its own: the sizes that somebody asked for say nothing about those that are
/// tried here.
fn recommended(trace: &mut Compact, rules: Rules, policy: Policy) -> Result<Recommendation, Failure> {
    let real = Rules { accounting: Accounting::Real, ..rules };
    let room_bytes = room_for_all(trace);
    let share = share_that_fits(trace, real, room_bytes);
    if share < 1.0 {
        trace.thin(share);
    }
    recommend(&Simulation::new(trace, real, &[policy]), policy, room_bytes)
}

fn load(options: &SimulateOptions, policies: &[Policy], bytes_max: u64) -> Result<Compact, Failure> {
    let mut opened = open(&options.file, options.format)?;
    let progress = Reading::new(&opened, options.quiet);
    // Belady needs half as much again per request.
    let has_belady = policies.contains(&Policy::Belady);
    let bounds = Bounds {
        requests_max: options.requests,
        bytes_max: (bytes_max as usize).checked_div(if has_belady { 3 } else { 2 }).unwrap_or(0) * 2,
        fraction: match options.sample {
            Sample::Auto => 1.0,
            Sample::Fraction(fraction) => fraction,
        },
    };
    let trace = Compact::read(&mut *opened.reader, bounds, |requests| {
        progress.at(requests);
    });
    drop(progress);
    let trace = trace?;
    opened.print_remarks(&options.file);
    if trace.reads == 0 {
        let name = options.file.display();
        return Err(Failure::new(format!("{name}: nothing in it reads")));
    }
    Ok(trace)
}

fn described(options: &SimulateOptions, trace: &Compact) -> String {
    let mut text = format!(
        "{}: {} requests, {} of them reads; {:.0} objects of {} bytes together\n",
        options.file.display(),
        trace.requests,
        trace.reads,
        trace.objects() as f64 / trace.fraction,
        trace.footprint_bytes()
    );
    if trace.fraction < 1.0 {
        text += &format!(
            "simulated with {:.3} % of the keys: {} objects, {} of the reads; sizes are those of all\n",
            trace.fraction * 100.0,
            trace.objects(),
            trace.reads_kept
        );
        if trace.objects() < OBJECTS_FEW {
            text += "so few objects may be off by several points; a larger --sample or --memory takes more\n";
        }
    }
    text + "\n"
}

impl SimulateOptions {
    fn sizes(&self, footprint_bytes: u64) -> Vec<u64> {
        let mut sizes: Vec<u64> = match &self.bytes[..] {
            [] => {
                let more = (self.accounting == Accounting::Real).then_some(PERCENT_REAL);
                let percents = PERCENTS.into_iter().chain(more);
                percents.map(|at| Size::Percent(at).of(footprint_bytes)).collect()
            }
            sizes => sizes.iter().map(|size| size.of(footprint_bytes)).collect(),
        };
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    fn write(&self, ratios: &[MissRatio]) -> Result<(), Failure> {
        let texts = [(&self.csv, output::csv(ratios)), (&self.svg, output::svg(ratios, self.accounting))];
        for (path, text) in texts {
            if let Some(path) = path {
                fs::write(path, text)
                    .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
            }
        }
        Ok(())
    }
}
