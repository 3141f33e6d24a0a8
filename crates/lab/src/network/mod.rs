//! The native protocol: requests directed to their core beside those that another core hands over, and cores
//! under skew.

pub(crate) mod direction;
mod skew;

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
    skew::run(options, server_cpu, &mut report)?;
    report.finish()
}
