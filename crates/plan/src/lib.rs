//! `micanite plan`: how much machine a load needs.
//!
//! ```text
//! options, trace, server -> Load    \
//!                                     capacity, latency, fleet -> Plan -> text, JSON, CSV, SVG
//! preset, file, calibration -> Machine /      simulate
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | `command` | the command `micanite plan` |
//! | [`load`], `trace`, `server` | the load: from options, a trace, a running server |
//! | [`law`] | shares of keys under Zipf's law |
//! | [`machine`], [`calibrate`] | machines as data; the costs of this one |
//! | [`model`] | what can be computed |
//! | [`simulate`] | the queue of a core, event by event |
//! | [`report`] | the plan and its forms |
//! | [`paper`] | the published figures beside the model's |
//!
//! `docs/plan.md` explains the model.

pub mod calibrate;
mod command;
pub mod law;
pub mod load;
pub mod machine;
pub mod model;
pub mod paper;
pub mod report;
mod server;
pub mod simulate;
mod trace;

pub use command::{options::PlanOptions, plan};
