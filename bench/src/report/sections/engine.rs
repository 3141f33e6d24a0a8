//! The engine alone: on one core, with and without prefetching.

use super::grid;
use crate::report::section::{Command, Exhibit, Form, Results};
use crate::results::charts;

pub(super) fn commands(form: Form) -> Vec<Command> {
    let words = form.pick(
        "engine --quick --rounds 3 --items 4194304 --case",
        "engine --rounds 3 --items 16777216 --quick --case",
    );
    vec![Command::lab("engine", words).with("tiny 8/8 ")]
}

pub(super) fn draw(results: &Results) -> Result<Vec<Exhibit>, String> {
    let records = results.records("engine")?;
    let title = ("The engine beside others on one core", "ratio of operations per second");
    let beside_others = charts::ratios(title, &records, |record| {
        let peer = record.peer.as_deref()?;
        let is_other =
            ["two dependent lines", "hashbrown", "quick_cache"].iter().any(|name| peer.starts_with(name));
        is_other.then_some((record.case.as_str(), peer))
    });
    let title = "Operations of one core, in millions per second, beside others and beside each other";
    let own: Vec<_> = records.iter().filter(|record| !record.case.starts_with("backing")).cloned().collect();
    let mut shown = vec![Exhibit::Bars(beside_others), Exhibit::Table(grid::ratios(&own, title))];
    for peer in ["hashbrown", "quick_cache"] {
        let what = "Operations of the engine on one core, tiny items, uniform, 95 % GET";
        let place = ("tiny 8/8 uniform 95 % GET", "operations per core", peer);
        shown.extend(grid::headline(&records, what, place, ""));
    }
    Ok(shown)
}

pub(super) fn prefetch_commands(form: Form) -> Vec<Command> {
    let words = form.pick("evaluation --case prefetch --rounds 3 --quick", "evaluation --case prefetch");
    vec![
        Command::lab("server", words),
        super::engine(form).with("--case").with("tiny 8/8 uniform 100 % GET, prefetch"),
    ]
}

pub(super) fn draw_prefetch(results: &Results) -> Result<Vec<Exhibit>, String> {
    let records = grid::either(results, ["server", "engine"])?.concat();
    let title = ("Gets per second with prefetching, beside those without it", "ratio to prefetching off");
    let chart = charts::ratios(title, &records, |record| {
        record.peer.as_ref()?;
        let group = match record.metric.starts_with("operations per core") {
            true => "the engine alone, GETs",
            false => "the whole server, multi-gets",
        };
        Some((group, "with prefetching"))
    });
    let place = ("tiny 8/8 uniform 100 % GET, prefetch", "operations per core", "prefetch off");
    let what = "GETs of the engine with prefetching, tiny items";
    let mut shown = vec![
        Exhibit::Bars(chart),
        Exhibit::Note(
            "What prefetching does to the parts of a GET is under \"Time of a request by part\".".to_owned(),
        ),
    ];
    let published = "whole server: 1.71 times";
    shown.extend(grid::headline(&records, what, place, published));
    Ok(shown)
}
