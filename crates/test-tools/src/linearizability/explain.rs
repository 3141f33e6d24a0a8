//! A violation in words: what was found, and the operations around it.

use std::fmt::Write;

use super::check::Violation;
use super::operation::{Action, Found, Operation, State, ValueId};

/// Operations that are shown before the one that cannot be explained.
const SHOWN: usize = 24;

fn state(state: &State) -> String {
    state.map_or_else(|| "absent".to_owned(), |value| format!("{value:#x}"))
}

fn stored(action: Action) -> Option<ValueId> {
    match action {
        Action::Set(value) | Action::Add(value) | Action::LateCopy(Some(value)) => Some(value),
        Action::Cas { stored, .. } => Some(stored),
        _ => None,
    }
}

/// Describes a violation of a key's history. `names`: ports of the clients by their numbers.
pub(super) fn explain(
    key: &str,
    history: &[Operation],
    violation: &Violation,
    names: impl Fn(u32) -> String,
) -> String {
    let wrong = &history[violation.operation];
    let start_ns = history.iter().map(|operation| operation.called_ns).min().unwrap_or(0);
    let states: Vec<_> = violation.states.iter().map(state).collect();
    let mut text = format!(
        "key {key}: no order of its operations explains \"{wrong}\" of client {} ({}). \
         The key could be: {}\n",
        wrong.client,
        names(wrong.client),
        states.join(", ")
    );
    let mut shown: Vec<_> =
        history.iter().filter(|operation| operation.called_ns <= wrong.returned_ns).collect();
    shown.sort_by_key(|operation| (operation.returned_ns.min(wrong.returned_ns), operation.called_ns));
    let is_writer = |operation: &&&Operation| match wrong.found {
        Found::Value(value) => stored(operation.action) == Some(value),
        _ => false,
    };
    let skipped = shown.len().saturating_sub(SHOWN);
    let writers: Vec<_> = shown[..skipped].iter().filter(is_writer).copied().collect();
    let _ = writeln!(text, "  {:>12} {:>12}  client", "called us", "returned us");
    for operation in writers.iter().chain(&shown[skipped..]) {
        let us = |ns: u64| match ns {
            u64::MAX => "never".to_owned(),
            ns => format!("{:.3}", ns.saturating_sub(start_ns) as f64 / 1e3),
        };
        let _ = writeln!(
            text,
            "{} {:>12} {:>12}  {:>3} {:12} {operation}",
            if *operation == wrong { ">" } else { " " },
            us(operation.called_ns),
            us(operation.returned_ns),
            operation.client,
            names(operation.client),
        );
    }
    text
}
