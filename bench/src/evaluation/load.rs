//! One slice of load, by `micanite load`.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::Options;
use super::sides::Side;
use crate::Result;
use crate::harness::energy::Meters;

const HIT_RATIO_MIN: f64 = 0.98;

#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    pub per_second: f64,
    /// NaN of a server whose CPU time is not known.
    pub per_core_second: f64,
    pub p50_us: f64,
    pub p95_us: f64,
    pub p99_us: f64,
    /// Requests that were due and got no answer, in parts of all.
    pub loss: f64,
    /// Items that were found, in parts of those that were asked for; NaN of none.
    pub hit_ratio: f64,
    /// Energy of the machine's packages; NaN where they have no meters.
    pub joules_per_million: f64,
}

/// Number and lengths of the items.
#[derive(Clone, Copy, Debug)]
pub(super) struct Data<'a> {
    /// Name for `micanite load --dataset`, or for `--workload`, whose names have a hyphen.
    pub set: &'a str,
    pub items: u64,
}

impl Data<'_> {
    fn option(&self) -> &'static str {
        if self.set.contains('-') { "--workload" } else { "--dataset" }
    }
}

/// The client's side of a measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Client<'a> {
    pub options: &'a Options,
    /// One thread is pinned to each.
    pub cpus: &'a [usize],
    pub data: Data<'a>,
}

impl<'a> Client<'a> {
    /// Creates a client on the last of some cores, and stores every item on all sides.
    pub fn filled(options: &'a Options, cpus: &'a [usize], data: Data<'a>, sides: &[Side]) -> Result<Self> {
        let cpus = &cpus[cpus.len() - 1..];
        let client = Self { options, cpus, data };
        for side in sides {
            client.fill(side)?;
        }
        Ok(client)
    }

    /// Stores every item.
    pub fn fill(&self, side: &Side) -> Result<()> {
        eprint!("\rfilling {}   ", side.name);
        let flags = ["--fill", "--get", "100"];
        // A run that fills has a measured part, too: nobody looks at it.
        let figures = self.run(side, Duration::from_millis(50), &flags);
        eprintln!();
        figures.map(drop)
    }

    /// A slice of the usual length with these options of `micanite load`. A miss costs something else
    /// than a hit: nearly all must be found.
    pub fn slice(&self, side: &Side, flags: &[&str]) -> Result<Figures> {
        let figures = self.any_slice(side, flags)?;
        figures.without_misses().map_err(|reason| format!("{}: {reason}", side.name).into())
    }

    /// The same, whatever is found.
    pub fn any_slice(&self, side: &Side, flags: &[&str]) -> Result<Figures> {
        self.run(side, self.options.slice(), flags)
    }

    fn run(&self, side: &Side, duration: Duration, flags: &[&str]) -> Result<Figures> {
        let warm_up = duration / 5;
        let milliseconds = |time: Duration| format!("{}ms", time.as_millis().max(1));
        let cpus: Vec<_> = self.cpus.iter().map(usize::to_string).collect();
        let mut command = Command::new(&self.options.binaries.server);
        command
            .args(["load", &side.url, "--quiet", "--json", "-"])
            .args([self.data.option(), self.data.set])
            .args(["--items", &self.data.items.to_string()])
            .args(["--cpu", &cpus.join(",")])
            .args(["--threads", &cpus.len().to_string()])
            .args(["--duration", &milliseconds(duration)])
            .args(["--warmup", &milliseconds(warm_up)])
            .args(["--timeout", "200ms"])
            .args(flags)
            .stdin(Stdio::null());
        if let Some(pid) = side.pid() {
            command.args(["--server-pid", &pid.to_string()]);
        }
        let meters = Meters::of_machine();
        let energy = meters.read();
        let output = command.output()?;
        let joules = meters.joules_since(energy.as_ref());
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("load of {}: {}", side.name, said.trim_end()).into());
        }
        let figures = figures(&serde_json::from_slice(&output.stdout)?);
        let mut figures = figures.map_err(|reason| format!("{}: {reason}", side.name))?;
        if let Some(joules) = joules {
            // The meters run during the warm-up, too.
            let requests = figures.per_second * (duration + warm_up).as_secs_f64();
            figures.joules_per_million = joules / (requests / 1e6);
        }
        Ok(figures)
    }
}

impl Figures {
    /// Refuses figures of requests that missed.
    fn without_misses(self) -> Result<Self> {
        match self.hit_ratio < HIT_RATIO_MIN {
            true => {
                let found = self.hit_ratio * 100.0;
                Err(format!("only {found:.1} % of the items were found").into())
            }
            false => Ok(self),
        }
    }
}

/// Reads the report of `micanite load`.
fn figures(report: &Value) -> Result<Figures> {
    let number = |pointer: &str| report.pointer(pointer).and_then(Value::as_f64);
    let of = |pointer: &str| number(pointer).unwrap_or(f64::NAN);
    Ok(Figures {
        per_second: number("/throughput_ops").ok_or("no throughput")?,
        per_core_second: of("/ops_per_server_core_second"),
        p50_us: of("/latency_us/p50"),
        p95_us: of("/latency_us/p95"),
        p99_us: of("/latency_us/p99"),
        loss: number("/loss_ratio").unwrap_or(0.0),
        hit_ratio: of("/hit_ratio"),
        joules_per_million: f64::NAN,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_and_misses_are_refused() {
        let mut report = serde_json::json!({
            "throughput_ops": 5.0, "hit_ratio": 1.0, "loss_ratio": 0.25,
            "latency_us": {"p50": 1.0, "p95": 2.0, "p99": 3.0},
            "ops_per_server_core_second": null,
        });
        let read = figures(&report).unwrap();
        assert_eq!((read.per_second, read.p95_us, read.loss), (5.0, 2.0, 0.25));
        assert!(read.per_core_second.is_nan());
        assert_eq!(read.without_misses().unwrap().hit_ratio, 1.0);
        report["hit_ratio"] = 0.5.into();
        assert!(figures(&report).unwrap().without_misses().is_err());
    }
}
