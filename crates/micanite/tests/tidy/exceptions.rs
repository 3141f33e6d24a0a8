//! Places that may pass a limit, with reasons. A size is what the place has today: lower it with the place.

use super::verdict::Exception;

/// Sizes are numbers of lines.
pub const LONG_LINES: &[Exception] = &[];

pub const LONG_FILES: &[Exception] = &[];

pub const LONG_FUNCTIONS: &[Exception] = &[];

pub const FULL_FOLDERS: &[Exception] = &[];

/// Folders that are flat by design, with reasons: they may grow.
pub const FLAT_FOLDERS: &[(&str, &str)] = &[
    (".", "tools look for their files in the root"),
    ("crates", "a folder for each crate"),
    ("docs", "a page for each subject, by the names that links elsewhere have"),
];

/// Pairs of modules that import each other.
pub const CIRCLES: &[Exception] = &[
    circle("crates/client: client, local"),
    circle("crates/client: fabric, local"),
    circle("crates/engine: cache, image"),
    circle("crates/engine: operations, partition"),
    circle("crates/engine: partition, writer"),
    circle("crates/fabric: domain, endpoint"),
    circle("crates/fabric: domain, given_up"),
    circle("crates/fabric: domain, memory"),
    circle("crates/fabric: domain, provider"),
    circle("crates/load: report, run"),
    circle("crates/load: requests, run"),
    circle("crates/load: run, target"),
    circle("crates/net: bypass, dpdk"),
    circle("crates/net: bypass, xdp"),
    circle("crates/net: stream, tls"),
    circle("crates/server: configuration, control"),
    circle("crates/server: configuration, telemetry"),
    circle("crates/server: control, shared"),
    circle("crates/server: control, telemetry"),
    circle("crates/server: native, shared"),
    circle("crates/server: native, telemetry"),
    circle("crates/server: security, telemetry"),
    circle("crates/server: shared, telemetry"),
    circle("crates/server: telemetry, udp"),
];

const fn circle(place: &'static str) -> Exception {
    Exception { place, size: 1, reason: "older than the check: to be untied" }
}

pub const STALE_PATHS: &[Exception] =
    &[Exception { place: "CONTRIBUTING.md", size: 1, reason: "an example of a bad name" }];
