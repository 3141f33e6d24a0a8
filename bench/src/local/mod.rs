//! Readers on the same host (`serve --local`): their gets beside the engine's own and beside memcached's over
//! its Unix socket, and what they cost the server.

mod cost;
mod place;
mod reads;
mod sockets;

use clap::Args;

use crate::harness::peers::Binaries;
use crate::{Common, Result};

#[derive(Args, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub binaries: Binaries,
    /// Items of the large set (default 16777216, quick 1048576)
    #[arg(long)]
    pub items: Option<u64>,
}

impl Options {
    fn items(&self) -> u64 {
        self.items.unwrap_or(if self.common.quick { 1 << 20 } else { 16 << 20 })
    }
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let (mut report, [server_cpu, client_cpu]) = options.common.begin_servers("local")?;
    let done = reads::run(options, server_cpu, &mut report);
    report.part(done);
    let done = sockets::run(options, server_cpu, &mut report);
    report.part(done);
    let done = cost::run(options, [server_cpu, client_cpu], &mut report);
    report.part(done);
    report.finish()?;
    report.complete()
}
