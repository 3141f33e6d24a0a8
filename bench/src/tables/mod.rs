//! Other tables behind our port (MICA table 2; billion-rps 5.2): the same datagrams, codec and
//! batches, and our engine, a hash map per core, a hash map of all cores in shards with a mutex
//! each, or quick_cache under them.
//!
//! | file | what |
//! |---|---|
//! | `table.rs` | the tables, and who owns which keys |
//! | `engine.rs`, `maps.rs` | ours and the others |
//! | `round.rs`, `answers.rs` | datagrams to batches, and back |
//! | `memory.rs` | fed from memory, by one worker and by one on each CPU |
//! | `udp.rs`, `server.rs` | behind the kernel's UDP, beside our own server |

mod answers;
mod engine;
mod maps;
mod memory;
mod round;
mod server;
mod table;
#[cfg(test)]
mod tests;
mod udp;

use std::path::PathBuf;

use clap::Args;
use micanite_control::cores;
use micanite_workload::Popularity;

use crate::{Common, Result};

pub(crate) use server::{Options as ServerOptions, run as run_server};

/// Seed of the drawn requests.
const SEED: u64 = 21;

#[derive(Args, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    pub common: Common,
    /// Micanite's binary
    #[arg(long, default_value_os_t = crate::harness::system::target("release/micanite"))]
    pub server: PathBuf,
    /// Tiny items (default 2^24, quick 2^22)
    #[arg(long)]
    pub items: Option<u64>,
}

impl Options {
    fn items(&self) -> u64 {
        let default = if self.common.quick { 1 << 22 } else { 1 << 24 };
        self.items.unwrap_or(default)
    }
}

/// Popularity and mix of a case.
#[derive(Clone, Copy, Debug)]
struct Load {
    law: &'static str,
    popularity: Popularity,
    get_percent: u64,
}

impl Load {
    const ALL: [Self; 4] = [
        Self::new("uniform", Popularity::Uniform, 95),
        Self::new("uniform", Popularity::Uniform, 50),
        Self::new("zipf 0.99", Popularity::Zipf(0.99), 95),
        Self::new("zipf 0.99", Popularity::Zipf(0.99), 50),
    ];

    const fn new(law: &'static str, popularity: Popularity, get_percent: u64) -> Self {
        Self { law, popularity, get_percent }
    }

    /// Reads of all items alike, or writes to few.
    fn is_extreme(self) -> bool {
        (self.popularity == Popularity::Uniform) == (self.get_percent == 95)
    }

    fn name(self, way: &str) -> String {
        format!("{way}, {}, {} % GET", self.law, self.get_percent)
    }
}

pub(crate) fn run(options: &Options) -> Result<()> {
    // This thread is pinned from then on.
    let all_cpus = cores::allowed();
    let (mut report, cpus) = options.common.begin("tables")?;
    memory::run(options, &all_cpus, &mut report)?;
    udp::run(options, cpus, &mut report)?;
    report.finish()
}
