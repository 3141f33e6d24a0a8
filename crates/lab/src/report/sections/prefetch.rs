//! Prefetching on and off.

use super::grid;
use crate::report::section::{Command, Exhibit, Form, Results, Section};
use crate::results::charts;

pub(super) const SECTION: Section = Section {
    id: "prefetch",
    title: "Prefetching on and off",
    question: "What do the stages of prefetching gain when the items are far more than the CPU's caches hold?",
    source: "billion-rps (TOCS 2016), figure 7",
    published: "71 % more requests per second with prefetching; cache misses of the last level 57 % without, 8 % with it.",
    differs: "One core of a virtual machine instead of 24 of two sockets; the whole server gets multi-gets of 100 over TCP, whose cost prefetching cannot lessen, the engine alone GETs from memory. No counters of cache misses.",
    commands,
    draw,
};

fn commands(form: Form) -> Vec<Command> {
    let words = form.pick("evaluation --case prefetch --rounds 3 --quick", "evaluation --case prefetch");
    vec![
        Command::lab("server", words),
        super::engine(form).with("--case").with("tiny 8/8 uniform 100 % GET, prefetch"),
    ]
}

fn draw(results: &Results) -> Result<Vec<Exhibit>, String> {
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
