//! The recommendation.

use micanite_workload::figure::short;

use super::Plan;
use crate::machine::Machine;
use crate::model::capacity::{Bottleneck, Mode};

/// Returns three sentences, and the command lines.
pub fn advice(plan: &Plan, machine: &Machine) -> (Vec<String>, Vec<String>) {
    let Some(mode) = plan.recommended() else {
        return (Vec::new(), Vec::new());
    };
    let fleet = &plan.fleet;
    let servers = match fleet.servers {
        1 => "one server of".to_owned(),
        more => format!("{more} servers of"),
    };
    let p95 = mode.within_target.map_or(0.0, |point| point.latency.p95_us);
    let gib = fleet.largest_memory_bytes / f64::from(1 << 30);
    let first = format!(
        "{} requests/s need {servers} {} cores in mode {}: a server serves {} of them per second with a 95th \
         percentile of {:.0} us, and {} first, at {} requests/s.",
        short(plan.load.rate),
        machine.cores_in_all(),
        mode.mode.name(),
        short(plan.server_rate),
        p95,
        match mode.bottleneck {
            Bottleneck::Cores => "its cores bind",
            Bottleneck::HottestPartition => "the hottest partition binds",
            Bottleneck::Memory => "memory bandwidth binds",
            Bottleneck::Network => "the network binds",
        },
        short(mode.throughput),
    );
    let second = format!(
        "The {} {gib:.1} GiB for items, of the {:.1} GiB that it has{}.",
        if fleet.servers == 1 { "server needs" } else { "server with most keys needs" },
        machine.memory_gib,
        match plan.batching.iter().rfind(|(_, delay)| *delay <= 0.1 * p95) {
            Some((batch, delay)) =>
                format!(", and clients may batch {batch} requests, which delays them by {delay:.1} us"),
            None =>
                ", and clients should not batch: even two requests cost them more than a tenth".to_owned(),
        },
    );
    let third = match fleet.loss {
        None => "The loss of the server loses everything; a second one keeps half of the hits.".to_owned(),
        Some(loss) => format!(
            "The loss of a server takes {:.1} % of the keys, leaves {:.1} % hits until they are stored \
             again, and makes the busiest of the others {:.2} times as busy, which {}.",
            loss.keys_lost * 100.0,
            loss.hit_ratio * 100.0,
            loss.load_factor,
            if loss.is_carried { "is within the target" } else { "misses the target: add a server" },
        ),
    };
    (vec![first, second, third], commands(plan, machine, mode.mode))
}

/// Returns the command lines that start a server and load it; none for the engine without a port.
fn commands(plan: &Plan, machine: &Machine, mode: Mode) -> Vec<String> {
    let (fleet, load) = (&plan.fleet, &plan.load);
    let (listen, url, together) = match plan.port.as_str() {
        "native" => ("--native 11300", "native://SERVER:11300", format!("--batch {}", load.batch)),
        "stream" => {
            ("-p 11211", "memcached://SERVER:11211", format!("--batch {} --connections 8", load.batch))
        }
        _ => return Vec::new(),
    };
    let mib = (fleet.largest_memory_bytes / f64::from(1 << 20)).ceil().max(64.0);
    let access = match mode {
        Mode::Erew | Mode::ErewTurbo => "erew",
        Mode::Crew | Mode::CrewTurbo => "crew",
    };
    let threads = machine.cores_in_all() * machine.threads;
    let law = if load.zipf > 0.0 { format!("zipf:{}", load.zipf) } else { "uniform".to_owned() };
    vec![
        format!("micanite serve -t {threads} -m {mib} --access {access} {listen}"),
        format!(
            "micanite load {url} --rate {:.0} {together} --arrivals batches --dataset {:.0}/{:.0} --items {} \
             --popularity {law} --get {:.0} --fill",
            fleet.busiest_rate,
            load.key_bytes.ceil().max(8.0),
            load.value_bytes.ceil(),
            (load.items as f64 / fleet.servers as f64).ceil(),
            load.get * 100.0,
        ),
    ]
}
