//! Other tables behind the same port.

use crate::report::section::{Command, Exhibit, Form, Results, Section};
use crate::results::charts;

pub(super) const SECTION: Section = Section {
    id: "tables",
    title: "The same port over other tables",
    question: "How much of the throughput is the engine's, when port, protocol and batches are the same?",
    source: "MICA (NSDI 2014), table 2 and section 5.2; billion-rps (TOCS 2016), section 5.2",
    published: "Behind MICA's network stack, partitioned Masstree reached 8.2 to 27.3 % of MICA's throughput under skewed loads of tiny items; MICA did 65.6 to 76.9 million requests per second, Masstree, the next best, 16.5 million, the others less than 6.1 million. With DPDK under it, memcached with its mutexes did 3.1 million where MICA did 120.5 million.",
    differs: "The others are a hash map per core and one in shards with mutexes (hashbrown, keys and values in place, no eviction, no expiry, the client's hash used), and quick_cache: tables that do less than ours, and are faster than memcached's or Masstree's. A cache of millions of items, not 192 Mi; one or two cores of a virtual machine, so mutexes are hardly contended.",
    commands,
    draw,
};

/// Fed by threads that are the workers themselves.
const MEMORY: &str = "fed from memory, ";

fn commands(form: Form) -> Vec<Command> {
    let words = form.pick("tables --quick --rounds 2 --items 2097152", "tables --rounds 3 --items 4194304");
    vec![Command::lab("tables", words)]
}

fn draw(results: &Results) -> Result<Vec<Exhibit>, String> {
    let records = results.records("tables")?;
    let mut shown = Vec::new();
    for (title, prefix) in [
        ("Requests per second, datagrams from memory", MEMORY),
        (
            "Requests per second over the kernel's UDP, full datagrams",
            "over UDP, as many as fit per datagram, ",
        ),
        ("Requests per second over the kernel's UDP, one per datagram", "over UDP, 1 per datagram, "),
    ] {
        let chart = charts::values((title, "requests/s"), &records, |record| {
            let case = record.case.strip_prefix(prefix)?;
            let is_shown = record.peer.is_none();
            is_shown.then_some((case, record.metric.as_str()))
        });
        if !chart.groups.is_empty() {
            shown.push(Exhibit::Bars(chart));
        }
    }
    let ratios = charts::ratios(
        ("Our engine beside other tables, datagrams from memory", "ratio to the other table"),
        &records,
        |record| {
            let case = record.case.strip_prefix(MEMORY)?;
            Some((case, record.peer.as_deref()?))
        },
    );
    shown.insert(shown.len().min(1), Exhibit::Bars(ratios));
    shown.push(Exhibit::Note("Over UDP the kernel's work per datagram is the same for all, and hides part of what the tables differ by. 'micanite' there is the whole server: proofs of addresses, statistics, TCP beside it.".to_owned()));
    Ok(shown)
}
