//! The loads: SETs only.

use crate::Common;

/// Items of every case; all fit.
pub(super) const ITEMS: &str = "131072";

/// A shape of requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub name: &'static str,
    /// Options of `micanite load`.
    pub flags: &'static [&'static str],
}

pub(super) const CASES: [Case; 4] = [
    Case {
        name: "kernel-writes/50",
        flags: &["--connections", "50", "--dataset", "16/32"],
    },
    Case {
        name: "kernel-writes/4x32",
        flags: &["--connections", "4", "--batch", "32", "--dataset", "16/32"],
    },
    Case {
        name: "kernel-writes/1",
        flags: &["--connections", "1", "--dataset", "16/32"],
    },
    Case {
        name: "kernel-writes/50/1k",
        flags: &["--connections", "50", "--dataset", "16/1024"],
    },
];

/// The cases that were asked for.
pub(super) fn all(common: &Common) -> Vec<Case> {
    let mut cases = CASES.to_vec();
    cases.retain(|case| common.wants(case.name));
    if common.quick {
        cases.truncate(2);
    }
    cases
}
