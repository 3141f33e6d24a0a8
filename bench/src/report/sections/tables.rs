//! Other tables behind the same port.

use crate::report::section::{Command, Exhibit, Form, Results};
use crate::results::charts;

/// Fed by threads that are the workers themselves.
const MEMORY: &str = "fed from memory, ";

pub(super) fn commands(form: Form) -> Vec<Command> {
    let words = form.pick("tables --quick --rounds 2 --items 2097152", "tables --rounds 3 --items 4194304");
    vec![Command::lab("tables", words)]
}

pub(super) fn draw(results: &Results) -> Result<Vec<Exhibit>, String> {
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
    shown.push(Exhibit::Note(
        "Over UDP the kernel's work per datagram is the same for all, and hides part of \
                              what the tables differ by. 'micanite' there is the whole server: proofs of \
                              addresses, statistics, TCP beside it."
            .to_owned(),
    ));
    Ok(shown)
}
