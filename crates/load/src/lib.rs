//! The load generator, and the replay of traces against live servers.
//!
//! ```text
//!  command line -> Plan -> [ sweep, search ] -> run -> Report -> table, JSON, histogram, figure
//!                                                |
//!      thread 0..n   Feed (closed loop, open loop, filling) --requests--> Connection
//!                    Recorder <--answers, checked--                         |
//!                                                                  format, socket
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | `command` | the command `micanite load`, and what makes several runs of one |
//! | `plan`, `address` | one run, completely described |
//! | `target` | connections of every protocol behind one trait |
//! | `requests` | which request is sent when |
//! | `run` | connecting, threads, their loop, counts and latencies, the server's CPU time |
//! | `report` | the results, as a table and as a figure |
//! | `replay` | a trace against a live server |

mod address;
mod command;
mod output;
mod parse;
mod plan;
mod replay;
mod report;
mod requests;
mod run;
mod target;

pub use command::{LoadOptions, load};
pub use replay::{ReplayOptions, replay};
