//! What a server's core does: as a whole, and the threads that work for the server there.

use std::time::Instant;

use super::servers::Server;
use crate::{Result, system};

/// The accounts at one moment.
pub(super) struct Reading {
    at: Instant,
    idle_s: f64,
    process_ns: u64,
    poller_ns: u64,
    workers_ns: u64,
}

/// What was used between two moments, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Used {
    pub elapsed_ns: f64,
    /// By anything on the core, interrupts included.
    pub core_ns: f64,
    pub process_ns: f64,
    /// By the kernel's thread that polls the server's end of the cable.
    pub poller_ns: f64,
    /// By the threads for deferred work of the core.
    pub workers_ns: f64,
}

impl Reading {
    pub fn take(server: &Server, cpu: usize) -> Result<Self> {
        Ok(Self {
            at: Instant::now(),
            idle_s: system::idle_s(cpu)?,
            process_ns: system::cpu_time_ns(server.pid())?,
            poller_ns: system::cpu_time_ns(server.poller)?,
            workers_ns: workers_ns(cpu)?,
        })
    }

    /// What was used since this.
    pub fn until(&self, now: &Self) -> Used {
        let elapsed_ns = (now.at - self.at).as_nanos() as f64;
        let idle_ns = (now.idle_s - self.idle_s) * 1e9;
        // A worker that has ended since takes its account along.
        let between = |before: u64, after: u64| after.saturating_sub(before) as f64;
        Used {
            elapsed_ns,
            core_ns: (elapsed_ns - idle_ns).max(0.0),
            process_ns: between(self.process_ns, now.process_ns),
            poller_ns: between(self.poller_ns, now.poller_ns),
            workers_ns: between(self.workers_ns, now.workers_ns),
        }
    }
}

/// CPU time of all threads for deferred work that belong to a core.
fn workers_ns(cpu: usize) -> Result<u64> {
    let prefix = format!("kworker/{cpu}:");
    let mut sum = 0;
    for entry in std::fs::read_dir("/proc")? {
        let path = entry?.path();
        // They come and go.
        let name = std::fs::read_to_string(path.join("comm")).unwrap_or_default();
        if name.starts_with(&prefix) {
            let account = std::fs::read_to_string(path.join("schedstat")).unwrap_or_default();
            sum += account
                .split(' ')
                .next()
                .and_then(|ns| ns.parse::<u64>().ok())
                .unwrap_or(0);
        }
    }
    Ok(sum)
}
