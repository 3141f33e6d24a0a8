//! `micanite ctl nic`: sets up a network interface to deliver port to queue to core.
//!
//! ```text
//!  options, or the server --- workers: port, CPU     (options, server)
//!  sysfs, /proc, ethtool --- facts                 (crate::machine)
//!  workers + facts --- who uses which interface    (share)
//!  facts of one interface --- steps                (layout, plan)
//!  steps --- text that a shell takes               (print)
//!        \-- one by one, with their answers        (apply, undo)
//! ```
//!
//! A client names the worker by the UDP port. A flow rule for each port takes its datagrams to a
//! queue of its own, whose interrupts come to the worker's CPU: the kernel then touches them where
//! the worker reads them. Each worker is on one interface only, as the number of queues costs
//! cache (billion-rps, section 5.1). Where an interface has no flow rules, the kernel still finds
//! the worker's socket by the port; the datagram only changes CPUs on the way.
//!
//! Planning is a function of the facts. Only [`apply`] and [`undo`] change the machine.

mod apply;
mod command;
mod layout;
mod options;
mod plan;
mod print;
mod recipe;
mod server;
mod share;
mod steps;
#[cfg(test)]
mod tests;
mod undo;

use std::process::ExitCode;

use micanite_control::{Request, stderr};
use micanite_net::xdp::Interface;

use crate::machine::cpus::Cpus;
use crate::machine::facts::{InterfaceFacts, MachineFacts};
use crate::machine::{Machine, ethtool};
pub use options::NicOptions;
use options::{Asked, Worker, Workers};
use recipe::Addressed;
use share::{Place, Shares};

/// Some step was refused, or there is no such interface.
const EXIT_REFUSED: u8 = 1;
/// The command line is wrong.
const EXIT_NIC_USAGE: u8 = 64;

/// Prints or sets what the options ask for; `ask` sends a request to the running server.
/// 0: all set; 1: something refused; 2: usage.
pub fn nic(options: &NicOptions, ask: impl Fn(Request) -> Result<String, String>) -> ExitCode {
    let machine = Machine::here();
    let outcome = match options.check() {
        Err(reason) => {
            stderr::say(format_args!("micanite: {reason}"));
            return ExitCode::from(EXIT_NIC_USAGE);
        }
        Ok(asked) => match asked {
            Asked::Undo { interface, rules } => undo::undo(&machine, interface, rules),
            Asked::SetUp(Workers::Known(workers)) => set_up(&machine, options, (workers, Vec::new())),
            Asked::SetUp(Workers::OfServer(cpus)) => {
                server::workers(ask, cpus.as_deref()).and_then(|found| set_up(&machine, options, found))
            }
        },
    };
    match outcome {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(EXIT_REFUSED),
        Err(reason) => {
            stderr::say(format_args!("micanite: {reason}"));
            ExitCode::from(EXIT_REFUSED)
        }
    }
}

/// The CPUs for queues of everything else. Those would come before the workers' queues, and a worker with
/// an AF_XDP port has just the queue of its number.
fn spare(known: &MachineFacts, workers: &[Worker], xdp: bool) -> Cpus {
    match xdp {
        true => Cpus::new(),
        false => known.without(&workers.iter().map(|worker| worker.cpu).collect()),
    }
}

/// Plans for each interface, and prints the plan or follows it. Returns how many steps were
/// refused. `places` are those of the workers, if a server has them at several interfaces.
fn set_up(
    machine: &Machine,
    options: &NicOptions,
    (mut workers, places): (Vec<Worker>, Vec<Place>),
) -> Result<usize, String> {
    ethtool::check()?;
    let known = machine.facts()?;
    for worker in &mut workers {
        worker.node = known.node_of(worker.cpu);
    }
    if let Some(worker) = workers.iter().find(|w| !known.online.contains(&w.cpu)) {
        return Err(format!("CPU {} is not online", worker.cpu));
    }
    // All of them are looked at before the first is changed.
    let interfaces =
        options.interfaces.iter().map(|name| machine.interface(name)).collect::<Result<Vec<_>, _>>()?;
    let shares = shares(options, &workers, &places, &interfaces)?;
    let spare = spare(&known, &workers, options.xdp);
    match options.apply {
        true => print::warnings(&known),
        false => print::introduction(&known),
    }
    if options.interfaces.len() > 1 && !options.apply {
        recipe::print(options, &workers, &shares, !places.is_empty());
        recipe::networks(&addressed(options));
    }
    let mut refused = 0;
    for (facts, workers) in interfaces.into_iter().zip(&shares.of) {
        let request = plan::Request { workers, spare: &spare, machine: &known };
        if options.apply {
            refused += apply::apply(machine, facts, &request)?;
        } else {
            print::plan(&facts, &plan::plan(&facts, &request));
        }
    }
    Ok(refused)
}

/// The workers of each interface: as the server has them, if it has them at several.
fn shares(
    options: &NicOptions,
    workers: &[Worker],
    places: &[Place],
    interfaces: &[InterfaceFacts],
) -> Result<Shares, String> {
    if places.is_empty() {
        let nodes: Vec<_> = interfaces.iter().map(|facts| facts.node).collect();
        return Ok(share::share(workers, &nodes));
    }
    let known = addressed(options);
    let known: Vec<_> = known
        .iter()
        .map(|(name, addresses)| (*name, addresses.iter().map(|(ip, _)| *ip).collect()))
        .collect();
    let shares = share::of_server(workers, places, &known);
    if shares.of.iter().all(Vec::is_empty) {
        let mut names: Vec<_> = places.iter().map(|place| &*place.name).collect();
        names.dedup();
        return Err(format!("the server has no worker there, but at {}", names.join(", ")));
    }
    Ok(shares)
}

/// The interfaces with their addresses.
fn addressed(options: &NicOptions) -> Vec<Addressed<'_>> {
    let of = |name: &str| Interface::find(name).map_or_else(|_| Vec::new(), |found| found.addresses);
    options.interfaces.iter().map(|name| (name.as_str(), of(name))).collect()
}
