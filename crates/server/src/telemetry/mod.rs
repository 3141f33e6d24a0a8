//! Counters, and everything that tells about requests.
//!
//! | module | what it does |
//! |---|---|
//! | [`table`] | the table of statistics: counters, levels and their names |
//! | [`stats`] | `stats` in all groups |
//! | `admin` | metrics, health and a page over HTTP |
//! | [`latency`] | how long requests take, as histograms |
//! | [`loads`], [`costs`] | requests by worker and partition, and what they take |
//! | [`peer`], `outcome` | peers, requests and outcomes as the others tell them apart |
//! | [`hot`] | the keys that are asked for most |
//! | `log` | events on standard error: text or JSON, limits of what a client can provoke |
//! | `watch` | lines about requests, evictions and connections |
//! | [`record`] | requests of sampled keys, written to a file |

pub(crate) mod admin;
pub mod costs;
pub mod hot;
pub mod latency;
pub mod loads;
pub(crate) mod log;
pub(crate) mod outcome;
pub mod peer;
pub mod record;
pub mod stats;
pub mod table;
pub(crate) mod watch;
