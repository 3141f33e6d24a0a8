//! The load generator.
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
//! | [`plan`], [`address`], [`profile`] | what is to be done |
//! | `target` | connections of every protocol behind one trait |
//! | `requests` | what is asked for |
//! | `feed`, `arrivals` | which request is sent when |
//! | `worker` | the loop of a thread: receive, send, wait |
//! | `port` | ports around the kernel's network stack |
//! | `recorder` | counts and latencies of a thread |
//! | [`run()`], `threads` | connecting, threads, the measured part, the server's CPU time |
//! | [`report`] | what came out |
//! | [`search`], [`sweep`] | several runs |
//! | [`self_test`] | what the generator itself can do |
//! | [`replay()`] | a trace against a live server |
//! | [`load`] | the command |
//!
//! A program uses it by way of [`Plan`], [`run()`] and [`Report`].

pub mod address;
mod arrivals;
mod awaited;
mod clock;
mod command;
mod feed;
mod latency_chart;
mod machine;
mod options;
mod output;
pub mod plan;
mod port;
pub mod profile;
mod progress;
mod recorder;
mod replay;
pub mod report;
mod requests;
mod run;
pub mod search;
pub mod self_test;
mod server_time;
pub mod sweep;
mod table;
mod target;
mod threads;
mod wait;
mod words;
mod worker;

pub use address::{Address, Endpoint, Protocol};
pub use command::load;
pub use options::{LoadOptions, Spacing};
pub use plan::Plan;
pub use port::PortReport;
pub use replay::{ReplayOptions, replay};
pub use report::Report;
pub use run::{fill, run};
