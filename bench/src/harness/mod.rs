//! Servers, their processes and their networks, for all benchmarks.
//!
//! | file | subject |
//! |---|---|
//! | `cpus.rs` | CPUs of servers and of their clients |
//! | `launch.rs` | a program pinned to CPUs that ends with its parent |
//! | `process.rs` | a started program: its log, waiting until it is ready, pausing, its end |
//! | `namespace.rs` | network namespaces, and cables between them |
//! | `servers.rs` | servers on the loopback interface |
//! | `in_process.rs` | a server in this process, without sockets |
//! | `peers.rs` | binaries of other servers, and servers at addresses |
//! | `popularity.rs` | laws that items are drawn by |
//! | `filler.rs` | storing items over TCP before the clock runs |
//! | `energy.rs` | energy of the machine's packages |
//! | `system.rs` | pinning, priorities, CPU time of processes |
//! | `allocator.rs`, `huge_pages.rs` | huge pages for the peers, and whether they got them |

mod allocator;
pub(crate) mod cpus;
pub(crate) mod energy;
pub(crate) mod filler;
pub(crate) mod huge_pages;
pub(crate) mod in_process;
pub(crate) mod launch;
pub(crate) mod namespace;
pub(crate) mod peers;
pub(crate) mod popularity;
pub(crate) mod process;
pub(crate) mod servers;
pub(crate) mod system;
