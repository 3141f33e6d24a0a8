//! Results of a run.

mod batches;
mod fabric;
pub(crate) mod latency_chart;
mod port;
pub(crate) mod table;

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::address::Protocol;
use crate::plan::Plan;
use crate::report::fabric::FabricReport;
use crate::report::port::PortReport;
use crate::run::latencies::{Class, Latencies};
use crate::run::recorder::{Counts, Interval};
use crate::run::worker::Outcome;

pub use batches::BatchReport;
pub(crate) use batches::{BatchTally, batches_chart, batches_text};
pub(crate) use fabric::FabricTally;

/// A thread that has something to do for more than this part of the time is a limit itself.
const BUSY_RATIO_MAX: f64 = 0.9;
/// Requests that the generator may send late before it says so.
const LATE_RATIO_MAX: f64 = 0.001;

/// The results of a run. Requests are counted that were due in the measured part; operations are
/// keys.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub version: &'static str,
    pub servers: Vec<Option<String>>,
    /// The run that was done.
    pub plan: Plan,
    /// Length of the measured part.
    pub measured_s: f64,
    /// Operations per second that were due; only an open loop offers.
    pub offered_ops: Option<f64>,
    /// Operations per second that were answered during the measured part.
    pub throughput_ops: f64,
    /// Counts of requests and operations.
    #[serde(flatten)]
    pub counts: Counts,
    /// The first error that a server answered with.
    pub refusal: Option<String>,
    /// Share of lost and unsent requests in all that were due.
    pub loss_ratio: f64,
    /// Reading operations that found a value.
    pub hit_ratio: Option<f64>,
    /// Connections that were closed, or by which something came that is no reply.
    pub failed_connections: usize,
    /// Time from when a request was due (open loop) or sent (closed loop) to its reply.
    pub latency_us: Latency,
    /// The same of GETs and of SETs alone, if there were any.
    pub get_latency_us: Option<Latency>,
    pub set_latency_us: Option<Latency>,
    /// CPU seconds of the server during the measured part.
    pub server_cpu_s: Option<f64>,
    /// Operations per CPU second of the server.
    pub ops_per_server_core_second: Option<f64>,
    /// The port around the kernel, if there was one.
    pub port: Option<PortReport>,
    /// Reading operations whose values the client read in the server's memory, if the target is on this host.
    pub local_ratio: Option<f64>,
    /// The fabric, if the target is one.
    pub fabric: Option<FabricReport>,
    /// Datagrams of the native protocol and their requests, beside equation 1.
    pub batches: Option<BatchReport>,
    /// Load of the generator itself.
    pub generator: Generator,
    /// Each second from the start, warm-up included.
    pub seconds: Vec<Second>,
    /// Warnings to whoever reads the figures.
    pub warnings: Vec<String>,
    /// All latencies, in nanoseconds.
    #[serde(skip)]
    pub latency_ns: Histogram<u64>,
}

/// Latencies in microseconds. Requests that were not answered count with the time they had waited.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latency {
    pub min: f64,
    pub mean: f64,
    /// Half of them are at most this.
    pub p50: f64,
    /// 95 % of them.
    pub p95: f64,
    /// 99 % of them.
    pub p99: f64,
    /// 99.9 % of them.
    pub p999: f64,
    pub max: f64,
}

/// Distance of the generator from being the limit itself.
#[derive(Clone, Debug, Serialize)]
pub struct Generator {
    /// Part of its threads' time in which there was something to do.
    pub busy_ratio: f64,
    /// CPU seconds of each thread in the measured part, waiting in a loop included.
    pub cpu_s_by_thread: Vec<f64>,
    /// The same of all threads, in parts of the time that as many cores have.
    pub cpu_ratio: f64,
    /// Operations per second of a thread that always has something to do.
    pub ops_per_core_second: Option<f64>,
    /// Requests that left more than a millisecond late although there was room for them.
    pub late_requests: u64,
    /// The longest such delay.
    pub late_us_max: f64,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct Second {
    /// End of the second, in seconds from the start.
    pub at_s: u64,
    /// True if it lies in the measured part.
    pub measured: bool,
    /// Operations answered.
    pub throughput_ops: u64,
    /// Requests given up.
    pub lost: u64,
    pub wrong_values: u64,
    /// Half of the replies came within this.
    pub p50_us: f64,
    /// 99 % of the replies came within this.
    pub p99_us: f64,
}

impl Second {
    pub(crate) fn new(at_s: u64, measured: bool, interval: &Interval) -> Self {
        let quantile_us = |quantile| interval.latency.value_at_quantile(quantile) as f64 / 1e3;
        Self {
            at_s,
            measured,
            throughput_ops: interval.operations,
            lost: interval.lost,
            wrong_values: interval.wrong_values,
            p50_us: quantile_us(0.5),
            p99_us: quantile_us(0.99),
        }
    }
}

impl Latency {
    pub(crate) fn new(latency_ns: &Histogram<u64>) -> Self {
        let us = |ns: u64| ns as f64 / 1e3;
        let quantile_us = |quantile| us(latency_ns.value_at_quantile(quantile));
        Self {
            min: us(latency_ns.min()),
            mean: latency_ns.mean() / 1e3,
            p50: quantile_us(0.5),
            p95: quantile_us(0.95),
            p99: quantile_us(0.99),
            p999: quantile_us(0.999),
            max: us(latency_ns.max()),
        }
    }

    /// Nothing of no requests.
    pub(crate) fn of_some(latency_ns: &Histogram<u64>) -> Option<Self> {
        (!latency_ns.is_empty()).then(|| Self::new(latency_ns))
    }

    pub(crate) fn line(&self) -> String {
        format!(
            "p50 {:.1}  p95 {:.1}  p99 {:.1}  p99.9 {:.1}  max {:.1}  mean {:.1}",
            self.p50, self.p95, self.p99, self.p999, self.max, self.mean
        )
    }
}

/// Sum of the results of a run's threads.
pub(crate) struct Total {
    pub counts: Counts,
    pub latencies: Latencies,
    pub fabric: FabricTally,
    pub batches: BatchTally,
    pub busy_ns: u64,
    pub cpu_s: Vec<f64>,
    /// Time at which the last thread ended.
    pub ended_ns: u64,
    pub late_requests: u64,
    pub late_ns_max: u64,
    pub failed: usize,
    pub failure: Option<String>,
    pub refusal: Option<String>,
}

impl Total {
    pub fn of(outcomes: Vec<Outcome>) -> Self {
        let mut total = Self {
            counts: Counts::default(),
            latencies: Latencies::new(),
            fabric: FabricTally::default(),
            batches: BatchTally::default(),
            busy_ns: 0,
            cpu_s: Vec::new(),
            ended_ns: 0,
            late_requests: 0,
            late_ns_max: 0,
            failed: 0,
            failure: None,
            refusal: None,
        };
        for outcome in outcomes {
            total.counts += outcome.recorder.counts;
            total.latencies.add(&outcome.recorder.latencies);
            total.fabric.add(&outcome.recorder.fabric);
            total.batches.add(&outcome.recorder.batches);
            total.busy_ns += outcome.busy_ns;
            total.cpu_s.extend(outcome.cpu_s);
            total.ended_ns = total.ended_ns.max(outcome.ended_ns);
            total.late_requests += outcome.lateness.requests;
            total.late_ns_max = total.late_ns_max.max(outcome.lateness.longest_ns);
            total.failed += outcome.failed;
            total.failure = total.failure.or(outcome.failure);
            total.refusal = total.refusal.or(outcome.recorder.refusal);
        }
        total
    }

    /// Length of the measured part, more than nothing.
    fn measured(&self, plan: &Plan) -> Duration {
        if plan.operations_max.is_none() {
            return plan.duration;
        }
        let ran = Duration::from_nanos(self.ended_ns).saturating_sub(plan.warmup);
        ran.clamp(Duration::from_nanos(1), plan.duration)
    }
}

/// Facts of a run beside its threads' results.
pub(crate) struct Surroundings {
    pub servers: Vec<Option<String>>,
    pub server_cpu_s: Option<f64>,
    pub seconds: Vec<Second>,
    pub warnings: Vec<String>,
}

impl Report {
    pub(crate) fn new(plan: &Plan, total: Total, around: Surroundings) -> Self {
        let counts = total.counts;
        let seconds = total.measured(plan).as_secs_f64();
        let due = counts.sent + counts.unsent;
        let operations = counts.operations_in_window as f64;
        let busy_s = total.busy_ns as f64 / 1e9;
        let latency_ns = total.latencies.all();
        let offered = due as f64 * plan.mix().operations_per_request() / seconds;
        let mut report = Self {
            version: env!("CARGO_PKG_VERSION"),
            servers: around.servers,
            plan: plan.clone(),
            measured_s: seconds,
            offered_ops: plan.rate_ops.map(|_| offered),
            throughput_ops: operations / seconds,
            counts,
            refusal: total.refusal,
            loss_ratio: ratio(counts.lost + counts.unsent, due).unwrap_or(0.0),
            hit_ratio: ratio(counts.hits, counts.read_operations),
            failed_connections: total.failed,
            latency_us: Latency::new(&latency_ns),
            get_latency_us: Latency::of_some(&total.latencies.gets()),
            set_latency_us: Latency::of_some(total.latencies.of(Class::Set)),
            server_cpu_s: around.server_cpu_s,
            ops_per_server_core_second: around
                .server_cpu_s
                .filter(|cpu_s| *cpu_s > 0.0)
                .map(|cpu_s| operations / cpu_s),
            port: plan.port.as_ref().map(|port| PortReport::new(port, &counts.port)),
            local_ratio: match plan.protocol() {
                Protocol::Local => ratio(counts.one_sided, counts.read_operations),
                _ => None,
            },
            fabric: (plan.protocol() == Protocol::Fabric).then(|| {
                let reads = plan.reads.unwrap_or_default();
                FabricReport::new(reads, &total.fabric, &counts, &total.latencies)
            }),
            batches: BatchReport::new(plan, &total.batches, operations / seconds),
            generator: Generator {
                busy_ratio: busy_s / (seconds * plan.threads as f64),
                cpu_ratio: total.cpu_s.iter().sum::<f64>() / (seconds * plan.threads as f64),
                cpu_s_by_thread: total.cpu_s,
                ops_per_core_second: (busy_s > 0.0).then(|| operations / busy_s),
                late_requests: total.late_requests,
                late_us_max: total.late_ns_max as f64 / 1e3,
            },
            seconds: around.seconds,
            warnings: around.warnings,
            latency_ns,
        };
        report.warn(total.failure.as_deref());
        report
    }

    /// Returns whether the run showed what it should: replies, no wrong ones, and a connection at its end.
    pub fn is_sound(&self) -> bool {
        self.counts.wrong_values == 0
            && self.counts.answered > 0
            && self.failed_connections < self.plan.connections
    }

    fn warn(&mut self, failure: Option<&str>) {
        let mut warnings = Vec::new();
        if self.counts.wrong_values > 0 {
            warnings.push(format!(
                "{} values were wrong: not what was stored under their key (or stored by a run with other \
                 lengths)",
                self.counts.wrong_values
            ));
        }
        if self.counts.answered == 0 {
            warnings.push("no request was answered".to_owned());
        }
        if let Some(failure) = failure {
            let (failed, all) = (self.failed_connections, self.plan.connections);
            warnings.push(format!("{failed} of {all} connections failed: {failure}"));
        }
        if let Some(line) = &self.refusal {
            warnings.push(format!("{} requests were refused: {line}", self.counts.refused));
        }
        if self.hit_ratio == Some(0.0) && self.counts.read_operations > 0 && !self.plan.fill {
            warnings.push("nothing was found: --fill stores the items first".to_owned());
        }
        warnings.extend(self.port.iter().flat_map(PortReport::warnings));
        self.warn_of_limit(&mut warnings);
        self.warnings.append(&mut warnings);
    }

    fn warn_of_limit(&self, warnings: &mut Vec<String>) {
        let Generator { busy_ratio, ops_per_core_second, late_requests, .. } = self.generator;
        if busy_ratio > BUSY_RATIO_MAX {
            warnings.push(format!(
                "the generator may itself be the limit: its threads were busy {:.0} % of the time (one core \
                 of it does {:.0} operations/s like these); more --threads on more cores, or larger batches",
                busy_ratio * 100.0,
                ops_per_core_second.unwrap_or(0.0),
            ));
        }
        if late_requests as f64 > self.counts.sent as f64 * LATE_RATIO_MAX {
            warnings.push(format!(
                "the generator fell behind its own schedule: {late_requests} requests left more than 1 ms \
                 late although there was room; it needs a core to itself (--cpu) or more --threads"
            ));
        }
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
