//! The command line of `micanite ctl nic`.

use std::collections::BTreeSet;

use clap::Args;
use micanite_control::cores;

use crate::machine::{check_interfaces, cpus};

/// Options of `ctl nic`.
#[derive(Args, Clone, Debug)]
pub struct NicOptions {
    /// Network interfaces; the workers are divided among them
    #[arg(value_name = "INTERFACE", required = true)]
    pub interfaces: Vec<String>,
    /// UDP port of worker 0, as the server's --native [default: ask the server]
    #[arg(
        long,
        value_name = "BASE",
        requires = "cores",
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    pub native: Option<u16>,
    /// How many workers the server has, as its --threads [default: ask the server]
    #[arg(
        long,
        value_name = "N",
        requires = "native",
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    pub cores: Option<u16>,
    /// The CPUs of the workers, in their order [default: as the server pins them]
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// For `serve --bypass xdp:`: worker i has queue i, and everything else comes through the same queues
    #[arg(long)]
    pub xdp: bool,
    /// Set it, rather than print it
    #[arg(long)]
    pub apply: bool,
    /// Delete the flow rules with these numbers, as --apply has printed them
    #[arg(
        long,
        value_name = "RULES",
        value_delimiter = ',',
        conflicts_with_all = ["apply", "native", "cores", "cpus", "xdp"]
    )]
    pub undo: Option<Vec<u32>>,
}

/// A worker of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Number, from 0.
    pub number: usize,
    /// UDP port.
    pub port: u16,
    /// The CPU that it is pinned to.
    pub cpu: usize,
    /// The NUMA node of that CPU.
    pub node: Option<usize>,
}

/// The task, once the command line is checked.
#[derive(Debug, PartialEq, Eq)]
pub enum Asked<'a> {
    /// Print or set.
    SetUp(Workers),
    /// Delete flow rules.
    Undo {
        /// Their interface.
        interface: &'a str,
        /// Their numbers.
        rules: &'a [u32],
    },
}

/// The workers that are to be delivered to.
#[derive(Debug, PartialEq, Eq)]
pub enum Workers {
    /// Given on the command line.
    Known(Vec<Worker>),
    /// Those of the running server; on these CPUs, if they are named.
    OfServer(Option<Vec<usize>>),
}

impl NicOptions {
    /// Checks the options. An error is text for the user.
    pub fn check(&self) -> Result<Asked<'_>, String> {
        check_interfaces(&self.interfaces)?;
        match (&self.undo, self.interfaces.as_slice()) {
            (Some(rules), [interface]) => Ok(Asked::Undo { interface, rules }),
            (Some(_), _) => Err("--undo takes one interface: each numbers its own rules".into()),
            (None, _) => self.workers().map(Asked::SetUp),
        }
    }

    fn workers(&self) -> Result<Workers, String> {
        let chosen = self.cpus.as_deref().map(distinct).transpose()?;
        let (Some(base), Some(count)) = (self.native, self.cores) else {
            return Ok(Workers::OfServer(chosen));
        };
        if base.checked_add(count - 1).is_none() {
            return Err(format!("{count} ports from {base} on end above 65535"));
        }
        let cpus = chosen.unwrap_or_else(cores::allowed);
        if cpus.len() < usize::from(count) {
            return Err(format!(
                "{count} workers on {} CPUs: a server does not pin them then, and no queue can \
                 follow them",
                cpus.len()
            ));
        }
        let worker =
            |(number, cpu)| Worker { number: usize::from(number), port: base + number, cpu, node: None };
        Ok(Workers::Known((0..count).zip(cpus).map(worker).collect()))
    }
}

/// A list of CPUs, each once.
fn distinct(text: &str) -> Result<Vec<usize>, String> {
    let cpus = cpus::parse_list(text).map_err(|reason| format!("--cpus: {reason}"))?;
    let once: BTreeSet<_> = cpus.iter().collect();
    match once.len() == cpus.len() {
        true => Ok(cpus),
        false => Err("--cpus: a CPU is named twice".into()),
    }
}
