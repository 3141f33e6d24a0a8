//! The native protocol: requests directed to their core beside those that another core hands over, access
//! modes, cores under skew, and what balancing makes of it.

mod balance;
pub(crate) mod direction;
mod feed;
mod modes;
mod skew;
mod stream;

use clap::Args;
use micanite_control::cores;

use crate::harness::peers::Binaries;
use crate::{Common, Result};

#[derive(Args, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub binaries: Binaries,
    /// Items
    #[arg(long)]
    pub items: Option<u64>,
}

impl Options {
    fn items(&self) -> u64 {
        let default = if self.common.quick { 1 << 20 } else { 1 << 22 };
        self.items.unwrap_or(default)
    }
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let cpus = cores::allowed();
    let (mut report, [server_cpu, _]) = options.common.begin_servers("net")?;
    direction::run(options, &cpus, &mut report)?;
    modes::run(options, &cpus, &mut report)?;
    skew::run(options, server_cpu, &mut report)?;
    balance::run(options, &cpus, &mut report)?;
    report.finish()
}
