//! Usage of a server's core: by the core's account, by that of its threads, and in
//! energy where the machine tells.

use std::path::PathBuf;
use std::time::Instant;

use crate::Result;
use crate::harness::system;

/// The machine's counters at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    at: Instant,
    idle_s: f64,
    threads_ns: u64,
    energy_uj: Option<u64>,
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
    packages: Vec<PathBuf>,
}

impl Meter {
    pub fn new(cpu: usize, processes: Vec<u32>) -> Self {
        Self { cpu, processes, packages: energy_counters() }
    }

    pub fn read(&self) -> Result<Reading> {
        let mut threads_ns = 0;
        for process in &self.processes {
            threads_ns += system::cpu_time_ns(*process)?;
        }
        let energies = self.packages.iter().map(|package| {
            let text = std::fs::read_to_string(package).ok()?;
            text.trim().parse::<u64>().ok()
        });
        Ok(Reading {
            at: Instant::now(),
            idle_s: system::idle_s(self.cpu)?,
            threads_ns,
            energy_uj: energies.sum::<Option<u64>>().filter(|energy| *energy > 0),
        })
    }

    pub fn since(&self, before: &Reading) -> Result<Usage> {
        let now = self.read()?;
        let elapsed_s = (now.at - before.at).as_secs_f64();
        let energy = now.energy_uj.zip(before.energy_uj);
        Ok(Usage {
            busy_s: (elapsed_s - (now.idle_s - before.idle_s)).max(0.0),
            threads_s: (now.threads_ns - before.threads_ns) as f64 / 1e9,
            elapsed_s,
            // A counter that began anew tells nothing.
            joules: energy.and_then(|(now, before)| Some(now.checked_sub(before)? as f64 / 1e6)),
        })
    }
}

/// Energy counters of whole packages; none where the machine has no RAPL or does not show it.
pub(super) fn energy_counters() -> Vec<PathBuf> {
    let Ok(zones) = std::fs::read_dir("/sys/class/powercap") else {
        return Vec::new();
    };
    let names = zones.flatten().map(|zone| zone.path());
    let packages = names.filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.matches(':').count() == 1)
    });
    packages.map(|path| path.join("energy_uj")).collect()
}
