//! Access modes on all cores.

use super::grid;
use crate::report::section::{Command, Exhibit, Form, Results, Section};

pub(super) const SECTION: Section = Section {
    id: "modes",
    title: "Access modes",
    question: "What is it worth that each partition has an owner: exclusive (EREW), read by all (CREW), or read and written by all (CRCW)?",
    source: "MICA (NSDI 2014), figure 16",
    published: "EREW is consistently good; CREW is slightly better with many GETs on skewed workloads; CRCW has no benefit over the others. The talk's slide 10 has 65.6 to 76.9 million requests per second for exclusive access and 21.6 to 69.4 for concurrent access. billion-rps has the skewed workload at about 84 million under EREW and 108 million under CREW, beside 120 under uniform popularity.",
    differs: "The engine alone on all cores of this machine, which are few, instead of 16 or 24 cores behind network cards: requests come from memory as clients would direct them, to the owner (EREW), writes to the owner and reads to anybody (CREW), or all to anybody (CRCW). The whole load counts: the core with the most of it says how much. With two cores a skewed load is nearly even, so there is little for CREW to gain.",
    commands,
    draw,
};

fn commands(form: Form) -> Vec<Command> {
    let command = super::engine(form).with("--case").with("modes, ");
    vec![match super::cores() {
        1 => command.lacking("Access modes need two cores."),
        _ => command,
    }]
}

fn draw(results: &Results) -> Result<Vec<Exhibit>, String> {
    let records = results.records("engine")?;
    let title = "Operations per second of all cores by access mode";
    let metric = ("throughput", "operations/s");
    let chart = grid::bars(&records, title, metric, "modes, ");
    let beside = grid::ratios(&records, "EREW beside the others");
    let mut shown = vec![Exhibit::Bars(chart), Exhibit::Table(beside)];
    let cores = super::cores();
    let case = format!("modes, zipf 0.99, 50 % GET, {cores} cores");
    let what = format!("Exclusive beside shared access, {cores} cores, Zipf 0.99, half SETs (EREW, CRCW)");
    let published = "MICA: 65.6 at least (exclusive), 21.6 at least (concurrent) million requests per second";
    let place = (case.as_str(), "throughput", "CRCW");
    shown.extend(grid::headline(&records, &what, place, published));
    Ok(shown)
}
