//! `micanite plan`: options in, a plan out.

pub mod options;
mod output;
mod parse;
mod parts;
mod progress;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use micanite_control::stderr;
use micanite_workload::trace::Failure;
use options::{Part, PlanOptions};
use progress::Progress;

use crate::calibrate;
use crate::load::Load;
use crate::machine::{Machine, file, this};
use crate::report::{Basis, Origin, build};
use crate::server;
use crate::simulate::Arrivals;
use crate::trace;

/// More servers than anybody has.
const FAN_OUT_MAX: f64 = 1e9;

/// Runs the command.
pub fn plan(options: &PlanOptions) -> ExitCode {
    let done = match &options.part {
        Some(Part::Hottest(options)) => parts::hottest(options),
        Some(Part::Batching(options)) => parts::batching(options),
        Some(Part::Paper(options)) => parts::paper(options),
        None => execute(options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.tell("plan"),
    }
}

fn execute(options: &PlanOptions) -> Result<(), Failure> {
    let (machine, remark) = machine(options)?;
    machine.check().map_err(Failure::usage)?;
    if options.print_machine {
        let text = toml::to_string(&machine).map_err(|error| Failure::new(error.to_string()))?;
        return output::say(&text);
    }
    if options.calibrate && options.rate.is_none() && options.from.is_none() && options.from_server.is_none()
    {
        return Ok(());
    }
    let mut found = Found::of(options)?;
    found.remarks.insert(0, remark);
    let load = &found.load;
    load.check().map_err(Failure::usage)?;
    parts::check_requests(options.requests)?;
    if let Some(fan_out) = options.fan_out.filter(|fan_out| !(1.0..=FAN_OUT_MAX).contains(fan_out)) {
        return Err(Failure::usage(format!("--fan-out is {fan_out}: it must be 1 to {FAN_OUT_MAX}")));
    }
    let basis = Basis {
        machine: &machine,
        load,
        port: &options.port,
        load_origins: found.origins,
        fan_out: options.fan_out,
        requests: options.requests,
        misses: found.misses,
        recommended_memory: found.recommended_memory,
        remarks: found.remarks,
    };
    let mut progress = Progress::new(options.quiet);
    let plan = build(basis, &mut |mode, done| progress.at(mode, done));
    drop(progress);
    output::write(options, &plan.map_err(Failure::new)?)
}

/// Returns the machine, and a remark on its costs.
fn machine(options: &PlanOptions) -> Result<(Machine, String), Failure> {
    if options.calibrate {
        if options.machine != "this" {
            return Err(Failure::usage("--calibrate measures this machine: leave --machine out"));
        }
        let path = options.calibration.clone().or_else(file::usual_path);
        let path = path.ok_or_else(|| Failure::usage("there is no HOME: name a file with --calibration"))?;
        let machine = calibrate::calibrate(options.quiet).map_err(Failure::new)?;
        file::write(&path, &machine).map_err(Failure::new)?;
        stderr::say(format_args!("micanite plan: calibration written to {}", path.display()));
    }
    let path = options.calibration.as_deref();
    let (mut machine, remark) = match options.machine.as_str() {
        "this" => this::this(path).map_err(Failure::new)?,
        name => match Machine::preset(name) {
            Some(machine) => {
                (machine, "costs are those of Li et al. (TOCS 2016), see docs/plan.md".to_owned())
            }
            None if name.ends_with(".toml") => {
                let age = file::age(Path::new(name)).unwrap_or_else(|| "not there".to_owned());
                (
                    file::read(Path::new(name)).map_err(Failure::usage)?,
                    format!("costs are from {name}, {age}"),
                )
            }
            None => {
                let known = Machine::presets().join(", ");
                return Err(Failure::usage(format!("'{name}' is no machine: this, {known} or FILE.toml")));
            }
        },
    };
    machine = machine.with_port(&options.port).map_err(Failure::usage)?;
    if let Some(cores) = options.cores
        && options.machine == "this"
        && (1..machine.cores).contains(&cores)
    {
        // Fewer of its cores share the same cache.
        machine.llc_kib_per_core *= f64::from(machine.cores) / f64::from(cores);
    }
    let given = [
        ("sockets", options.sockets, &mut machine.sockets),
        ("cores", options.cores, &mut machine.cores),
        ("threads", options.smt, &mut machine.threads),
    ];
    for (name, value, field) in given {
        if let Some(value) = value {
            *field = value;
            machine.origin.insert(name.to_owned(), "given: options".to_owned());
        }
    }
    Ok((machine, remark))
}

/// The load as options, a trace or a server tell it.
struct Found {
    load: Load,
    origins: BTreeMap<&'static str, (Origin, String)>,
    misses: Vec<(f64, f64)>,
    recommended_memory: Option<(f64, f64)>,
    remarks: Vec<String>,
}

impl Found {
    fn of(options: &PlanOptions) -> Result<Self, Failure> {
        let mut found = Self {
            load: Load {
                items: 1_000_000,
                batch: options.batch,
                p95_us: options.p95,
                client_rate: options.client_rate,
                seed: options.seed,
                rate: 0.0,
                arrivals: match options.burst {
                    1 => Arrivals::Poisson,
                    burst => Arrivals::Bursts(burst),
                },
                ..Load::standard()
            },
            origins: BTreeMap::new(),
            misses: Vec::new(),
            recommended_memory: None,
            remarks: Vec::new(),
        };
        if let Some(path) = &options.from {
            found.take_trace(path)?;
        }
        if let Some(address) = &options.from_server {
            let told = server::ask(address).map_err(Failure::new)?;
            found.remarks.push("the server does not tell the skew: say --zipf".to_owned());
            found.load = Load {
                items: told.items,
                value_bytes: (told.item_bytes - 8.0 - options.key.unwrap_or(8.0)).max(0.0),
                get: told.get,
                rate: told.rate,
                ..found.load
            };
            found.measured(&["items", "value", "get", "rate"], &format!("statistics of {address}"));
        }
        found.take_options(options);
        if options.rate.is_none() && found.load.rate < 1.0 {
            return Err(Failure::usage("say how many requests per second are wanted: --rate 2m"));
        }
        Ok(found)
    }

    /// Marks figures as measured.
    fn measured(&mut self, names: &[&'static str], source: &str) {
        let origin = (Origin::Measured, source.to_owned());
        self.origins.extend(names.iter().map(|name| (*name, origin.clone())));
    }

    /// Takes what the options say instead of anything else; what nothing says is a default.
    fn take_options(&mut self, options: &PlanOptions) {
        let given = [
            ("items", options.items.is_some()),
            ("key", options.key.is_some()),
            ("value", options.value.is_some()),
            ("get", options.get.is_some()),
            ("zipf", options.zipf.is_some()),
            ("rate", options.rate.is_some()),
        ];
        for (name, is_given) in given {
            if is_given {
                self.origins.insert(name, (Origin::Given, format!("--{name}")));
            } else {
                let default = || (Origin::Assumed, "default of the command".to_owned());
                self.origins.entry(name).or_insert_with(default);
            }
        }
        let load = &mut self.load;
        load.items = options.items.unwrap_or(load.items);
        load.key_bytes = options.key.unwrap_or(load.key_bytes);
        load.value_bytes = options.value.unwrap_or(load.value_bytes);
        load.get = options.get.unwrap_or(load.get);
        load.zipf = options.zipf.unwrap_or(load.zipf);
        load.rate = options.rate.unwrap_or(load.rate);
    }

    fn take_trace(&mut self, path: &Path) -> Result<(), Failure> {
        let told = trace::read(path)?;
        let summary = told.summary;
        let key_bytes = summary.key_bytes.unwrap_or(0.0).clamp(1.0, 250.0);
        if summary.key_bytes.is_none() {
            self.remarks
                .push("the trace does not tell its keys' lengths: they count with the values".to_owned());
        }
        match summary.zipf {
            Some((exponent, fits)) if fits < 0.9 => self.remarks.push(format!(
                "Zipf's law with exponent {exponent:.2} explains {:.0} % of the trace's skew only",
                fits * 100.0
            )),
            Some(_) => {}
            None => self.remarks.push("the trace has too few keys for a law of skew".to_owned()),
        }
        if summary.counts.len() > 1 && self.load.arrivals == Arrivals::Poisson {
            self.load.arrivals =
                Arrivals::Profile(summary.counts.iter().map(|count| *count as f64).collect());
            self.remarks.push("arrivals follow the rate of the trace".to_owned());
        }
        self.load.items = (summary.items.round() as u64).max(1);
        self.load.key_bytes = key_bytes;
        self.load.value_bytes = (summary.payload_bytes - key_bytes).max(0.0);
        self.load.get = summary.reads;
        self.load.zipf = summary.zipf.map_or(0.0, |(exponent, _)| exponent.clamp(0.0, 3.0));
        self.load.rate = summary.rate.unwrap_or(0.0);
        let mut names = vec!["items", "value", "get"];
        names.extend(summary.key_bytes.map(|_| "key"));
        names.extend(summary.zipf.map(|_| "zipf"));
        names.extend(summary.rate.map(|_| "rate"));
        self.measured(&names, &format!("the trace {}", path.display()));
        self.misses = told.misses;
        self.recommended_memory = told.recommended;
        Ok(())
    }
}
