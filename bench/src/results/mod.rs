//! Results of a benchmark, and how they are shown.
//!
//! | file | subject |
//! |---|---|
//! | `measurement.rs` | records, the table of a run and its files |
//! | `statistics.rs` | medians and spreads |
//! | `charts.rs` | bars of records |
//! | `document.rs` | tables of committed documents |

pub(crate) mod charts;
pub(crate) mod document;
pub(crate) mod measurement;
pub(crate) mod statistics;
