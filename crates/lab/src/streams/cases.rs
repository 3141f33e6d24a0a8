//! The loads.

use crate::Common;

/// Items of every case; all fit.
pub(super) const ITEMS: &str = "131072";
/// Bytes of keys and values.
pub(super) const DATASET: &str = "16/32";

/// A shape of requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub name: &'static str,
    /// Options of `micanite load`.
    pub flags: &'static [&'static str],
    /// Whether it makes sense at a rate: a batch at a rate waits for its last request.
    pub has_rate: bool,
}

const CASES: [Case; 4] = [
    Case {
        name: "50 connections, 1 GET in flight",
        flags: &["--connections", "50"],
        has_rate: true,
    },
    Case {
        name: "4 connections, pipelines of 32 GETs",
        flags: &["--connections", "4", "--batch", "32"],
        has_rate: false,
    },
    Case {
        name: "4 connections, multi-gets of 100",
        flags: &["--connections", "4", "--multiget", "100"],
        has_rate: true,
    },
    Case {
        name: "4 connections, pipelines of 32, half SET",
        flags: &["--connections", "4", "--batch", "32", "--get", "50"],
        has_rate: false,
    },
];

/// The cases that were asked for.
pub(super) fn all(common: &Common) -> Vec<Case> {
    let mut cases = CASES.to_vec();
    cases.retain(|case| common.wants(case.name));
    if common.quick {
        cases.truncate(3);
    }
    cases
}
