//! Usage of a server's core: by the core's account, by that of its threads, and in
//! energy where the machine tells.

use std::time::Instant;

use crate::Result;
use crate::harness::energy::{self, Meters};
use crate::harness::system;

/// The machine's counters at one moment.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    at: Instant,
    idle_s: f64,
    threads_ns: u64,
    energy: Option<energy::Reading>,
}

/// Usage between two moments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    /// Time that the core did anything, interrupts included.
    pub busy_s: f64,
    /// CPU time of the server's threads, and of the kernel's thread that polls its end of the cable.
    pub threads_s: f64,
    pub elapsed_s: f64,
    /// Energy of all packages.
    pub joules: Option<f64>,
}

impl Usage {
    /// Share of the time that the core was busy.
    pub fn utilisation(&self) -> f64 {
        self.busy_s / self.elapsed_s
    }
}

/// Reads the counters of a core, and of what runs on it.
#[derive(Debug)]
pub(super) struct Meter {
    cpu: usize,
    processes: Vec<u32>,
    meters: Meters,
}

impl Meter {
    pub fn new(cpu: usize, processes: Vec<u32>) -> Self {
        Self { cpu, processes, meters: Meters::of_machine() }
    }

    pub fn read(&self) -> Result<Reading> {
        let mut threads_ns = 0;
        for process in &self.processes {
            threads_ns += system::cpu_time_ns(*process)?;
        }
        Ok(Reading {
            at: Instant::now(),
            idle_s: system::idle_s(self.cpu)?,
            threads_ns,
            energy: self.meters.read(),
        })
    }

    pub fn since(&self, before: &Reading) -> Result<Usage> {
        let now = self.read()?;
        let elapsed_s = (now.at - before.at).as_secs_f64();
        Ok(Usage {
            busy_s: (elapsed_s - (now.idle_s - before.idle_s)).max(0.0),
            threads_s: (now.threads_ns - before.threads_ns) as f64 / 1e9,
            elapsed_s,
            joules: self.meters.joules_since(before.energy.as_ref()),
        })
    }
}
