//! Figures that need hardware which a machine may lack, and how to make them where it is.

use micanite_control::cores;

use crate::report::machine;
use crate::report::section::{Command, Exhibit, Form, Results, Table};
use crate::results::measurement::Record;

/// Cores that show whether something scales: workers on some, the client on another.
const CORES: usize = 4;

pub(super) fn commands(form: Form) -> Vec<Command> {
    let words = form.pick("tables --quick --rounds 2 --items 2097152", "tables --rounds 3 --items 8388608");
    let cpus = cores::allowed().len();
    let command = Command::lab("tables", words)
        .with("--case")
        .with(format!("fed from memory, {} workers", cpus.clamp(2, WORKERS_MAX)));
    vec![match cpus < CORES {
        true => command.lacking(format!(
            "It needs {CORES} cores at least to say how load spreads over them and how throughput grows; \
             this machine has {cpus}."
        )),
        false => command,
    }]
}

/// Limit of the lab's `tables`.
const WORKERS_MAX: usize = 16;

pub(super) fn draw(results: &Results) -> Result<Vec<Exhibit>, String> {
    let mut shown = vec![Exhibit::Table(needs())];
    if let Ok(records) = results.records("tables") {
        shown.push(Exhibit::Table(measured(&records)));
    }
    Ok(shown)
}

fn needs() -> Table {
    let cpus = cores::allowed().len();
    let interfaces = machine::interfaces();
    let queues = interfaces.iter().map(|(_, queues)| *queues).max();
    let network = match queues {
        None => "no network card".to_owned(),
        Some(_) => {
            let names = interfaces.iter().map(|(name, queues)| format!("{name}: {queues} queues"));
            names.collect::<Vec<_>>().join(", ")
        }
    };
    let rdma = machine::rdma_devices();
    let yes = |has: bool, what: &str| match has {
        true => what.to_owned(),
        false => format!("no {what}"),
    };
    let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
    Table {
        title: "What each figure needs, and the command that makes it there".to_owned(),
        columns: row(["figure", "needs", "this machine", "command"]),
        rows: vec![
            row([
                "MICA 11 and 14: throughput by core, and with more cores",
                "more cores",
                &format!("{cpus} cores"),
                "micanite-lab tables --case 'fed from memory'; micanite-lab evaluation --case cores",
            ]),
            row([
                "MICA 15, billion-rps 5 and 6: cores and ports in balance",
                "several ports with a hardware queue for each core, and client machines with the same",
                &network,
                "server: micanite serve --native 11300 --bypass xdp:INTERFACE -t QUEUES; clients: micanite \
                 load native://SERVER:11300 --fill --port xdp:INTERFACE --threads QUEUES --pipeline 64 \
                 --json result.json",
            ]),
            row([
                "billion-rps 7 and 8: cache misses per operation, direct cache access by the network card",
                "performance counters of the CPU, and perf",
                &yes(machine::has_cpu_counters(), "counters of the CPU"),
                "perf stat -e instructions,LLC-loads,LLC-load-misses -p SERVER-PID sleep 10, while micanite \
                 load native://SERVER:11300 --fill --popularity zipf:0.99 runs",
            ]),
            row([
                "InnerCache 3 and 4: latency over RDMA",
                "InfiniBand or RoCE; the server has no RDMA transport, so its figure is that of TCP on the \
                 same cards",
                &match rdma[..] {
                    [] => "no RDMA device".to_owned(),
                    _ => rdma.join(", "),
                },
                "micanite load memcached://SERVER --workload innercache-zipf-50-512k --fill --json \
                 result.json (and the other eight, with and without -512k)",
            ]),
            row([
                "Hippos, table 3.4; billion-rps, section 5.7: energy",
                "energy meters (RAPL) that can be read",
                &yes(machine::has_energy_meters(), "energy meters"),
                "micanite-lab report (throughput, latency, ports and Facebook's pools show the column then)",
            ]),
            row([
                "billion-rps, table 6; all end-to-end figures without the client's share",
                "clients on machines of their own",
                "server and client share this machine",
                "micanite load native://SERVER:11300 --fill --search 100us --rate 1m --threads CORES --json \
                 result.json",
            ]),
        ],
    }
}

/// Shows what was measured where the hardware is there.
fn measured(records: &[Record]) -> Table {
    let row = |record: &Record| {
        vec![
            record.case.clone(),
            record.metric.clone(),
            micanite_workload::figure::short(record.value),
            record.unit.clone(),
        ]
    };
    let alone = records.iter().filter(|record| record.peer.is_none());
    Table {
        title: "One worker on each core, fed from memory".to_owned(),
        columns: ["case", "table", "value", "unit"].map(str::to_owned).into(),
        rows: alone.map(row).collect(),
    }
}
