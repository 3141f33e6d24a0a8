//! The command line of `micanite ctl nic`.

use std::collections::BTreeSet;

use clap::Args;

use super::cpus;

/// Longest name of an interface.
const NAME_BYTES_MAX: usize = 15;

/// Options of `ctl nic`.
#[derive(Args, Clone, Debug)]
pub struct NicOptions {
    /// Network interfaces; the workers are divided among them
    #[arg(value_name = "INTERFACE", required = true)]
    pub interfaces: Vec<String>,
    /// UDP port of worker 0, as the server's --native
    #[arg(long, value_name = "BASE", value_parser = clap::value_parser!(u16).range(1..))]
    pub native: Option<u16>,
    /// How many workers the server has, as its --threads
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub cores: Option<u16>,
    /// The CPUs of the workers, in their order [default: as the server pins them]
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// Set it, rather than print it
    #[arg(long)]
    pub apply: bool,
    /// Delete the flow rules with these numbers, as --apply has printed them
    #[arg(
        long,
        value_name = "RULES",
        value_delimiter = ',',
        conflicts_with_all = ["apply", "native", "cores", "cpus"]
    )]
    pub undo: Option<Vec<u32>>,
}

/// A worker of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Which one, from 0.
    pub number: usize,
    /// Its UDP port.
    pub port: u16,
    /// The CPU that it is pinned to.
    pub cpu: usize,
    /// The NUMA node of that CPU.
    pub node: Option<usize>,
}

impl NicOptions {
    /// Whether the interfaces can be names of interfaces, each once.
    pub fn check(&self) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        for name in &self.interfaces {
            let odd = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
            let wrong = name.is_empty() || name == "." || name == ".." || name.starts_with('-');
            if wrong || name.len() > NAME_BYTES_MAX || name.contains(odd) {
                return Err(format!("'{name}' is no name of an interface"));
            }
            if !seen.insert(name) {
                return Err(format!("{name} is named twice"));
            }
        }
        if self.undo.is_some() && self.interfaces.len() > 1 {
            return Err("--undo takes one interface: rules are numbered for each".into());
        }
        Ok(())
    }

    /// The workers by port and CPU. `allowed` are the CPUs of this process, in the order in which
    /// a server would pin its workers to them.
    pub fn workers(&self, allowed: &[usize]) -> Result<Vec<Worker>, String> {
        let (Some(base), Some(count)) = (self.native, self.cores) else {
            return Err("--native BASE and --cores N are needed, as the server has them".into());
        };
        if base.checked_add(count - 1).is_none() {
            return Err(format!("{count} ports from {base} on end above 65535"));
        }
        let cpus = match &self.cpus {
            Some(text) => cpus::parse_list(text).map_err(|reason| format!("--cpus: {reason}"))?,
            None => allowed.to_vec(),
        };
        let distinct: BTreeSet<_> = cpus.iter().collect();
        if distinct.len() < cpus.len() {
            return Err("--cpus: a CPU is named twice".into());
        }
        if cpus.len() < usize::from(count) {
            return Err(format!(
                "{count} workers on {} CPUs: a server does not pin them then, and no queue can follow them",
                cpus.len()
            ));
        }
        let workers = (0..count).zip(cpus);
        Ok(workers
            .map(|(number, cpu)| Worker {
                number: number.into(),
                port: base + number,
                cpu,
                node: None,
            })
            .collect())
    }
}
