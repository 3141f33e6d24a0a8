//! One thread per core, run to completion: streams, protocol and engine joined.
//!
//! ```text
//!  main thread   options -> settings -> listeners, cache, threads
//!                accept -> the worker with the fewest connections; signals -> the end
//!  worker 0..n   wait -> [ recv -> session -> engine -> send ] for each connection -> upkeep
//!                work for partitions of theirs, asked by other workers, comes in between
//!  control       a line from `micanite ctl` -> routes, statistics, snapshots
//!  admin         HTTP: metrics, health, a page to look at
//!  balance       loads, once a second -> at most one change of a route
//!  log           writes lines to standard error
//!  local         lets readers on this host in, takes their notes
//!  numa          moves the memory of partitions to the nodes of their owners
//!  pages         puts huge pages under the logs as they fill
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | [`configuration`] | options, files and environment, and the settings derived from them |
//! | [`session`] | a conversation without a socket: bytes in, engine batches, replies out |
//! | [`output`] | the bytes that replies, statistics and watchers fill |
//! | [`native`] | datagrams of the native protocol: rounds, directory, cookies, rings; fabrics |
//! | [`udp`] | memcached's protocols in datagrams: frames, an allow-list, numbered replies |
//! | [`connection`] | a session on a stream, and the buffers that it may hold |
//! | [`worker`] | the loop of a thread over its connections |
//! | [`serve()`] | the process: listeners, signals, threads, from start to end |
//! | [`shared`] | the state that threads share: what batches touch, and what control needs; the clock |
//! | [`security`] | users and passwords, certificates |
//! | [`control`] | control socket; restart; balancing; NUMA; program in the kernel; readers on this host |
//! | [`telemetry`] | counters and `stats`, metrics over HTTP, latencies, hot keys, `watch`, recordings |
//!
//! Nothing on the way of a request allocates, locks, or makes a system call; a turn of a
//! connection is one `recv` and one `send`. A panic ends the process (see `Cargo.toml`).

pub mod configuration;
pub mod connection;
pub mod control;
pub mod limits;
pub mod native;
pub mod output;
pub mod security;
mod serve;
pub mod session;
pub mod shared;
pub mod telemetry;
#[cfg(any(test, feature = "fuzz"))]
pub mod testing;
pub mod udp;
pub mod worker;

/// Reply to `version`. Some clients, such as libmemcached's tools, decide by it which commands they send, so
/// it begins with the version of memcached whose replies these are.
pub const VERSION: &str = concat!("1.6.45-micanite-", env!("CARGO_PKG_VERSION"));

pub use serve::{EXIT_DAMAGED, EXIT_NO_USER, EXIT_SYSTEM, EXIT_USAGE, SIGNALS, memory_limit_bytes, serve};
pub use telemetry::admin::statistics_reference;
pub use telemetry::log::report_panic;
