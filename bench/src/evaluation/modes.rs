//! Access modes of a whole server over the native port, with two workers, as a cache and as a store. Where
//! two workers and a client's two threads do not fit the cores they share them, and only what a request
//! costs the server is of interest.

use super::Options;
use super::load::{Client, Data};
use super::rounds::{self, RATES};
use super::sides::Side;
use crate::Result;
use crate::harness::cpus::Sides;
use crate::results::measurement::Measurement;

const NAME: &str = "modes over UDP";
const WORKERS: usize = 2;
const MODES: [(&str, &str); 3] = [("EREW", "erew"), ("CREW", "crew"), ("CRCW", "crcw")];
/// Datagrams of 16 requests. So many are in flight that workers hardly ever wait for more, which would
/// count.
const BUSY: [&str; 4] = ["--batch", "16", "--pipeline", "4096"];

pub(super) fn run(options: &Options, cpus: &Sides, report: &mut Measurement) -> Result<()> {
    let shared = cpus.first();
    let (server_cpus, client_cpus) = match cpus.server.len().min(cpus.client.len()) {
        0 | 1 => (&shared[..], &shared[..]),
        _ => (&cpus.server[..WORKERS], &cpus.client[..WORKERS]),
    };
    for semantics in ["cache", "store"] {
        let mut cases = Vec::new();
        for law in ["uniform", "zipf:0.99"] {
            for get_percent in ["50", "95"] {
                let name = format!("{NAME}, {semantics}, {}, {get_percent} % GET", law.replace(':', " "));
                if options.common.wants(&name) {
                    cases.push((name, (law, get_percent)));
                }
            }
        }
        if cases.is_empty() {
            continue;
        }
        if server_cpus[0] == server_cpus[1] {
            report.note_once("one CPU only: access modes were not measured");
            return Ok(());
        }
        let start = |(name, access): &(&str, &str)| {
            let flags = ["-m", "1024", "-t", "2", "--access", access, "--semantics", semantics];
            let side = Side::native(options, &flags, server_cpus)?;
            Ok(Side { name: (*name).to_owned(), ..side })
        };
        let sides = MODES.iter().map(start).collect::<Result<Vec<_>>>()?;
        let data = Data { set: "tiny", items: options.items() };
        let client = Client { options, cpus: client_cpus, data };
        for side in &sides {
            client.fill(side)?;
        }
        let turn = (&sides[..], options.common.rounds());
        rounds::in_turns(turn, &cases, &RATES, report, |(law, get_percent), side| {
            let mut flags = vec!["--popularity", law, "--get", get_percent];
            flags.extend(BUSY);
            client.slice(side, &flags)
        })?;
    }
    Ok(())
}
