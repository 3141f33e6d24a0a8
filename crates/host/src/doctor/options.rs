//! The command line of `micanite ctl doctor`.

use clap::Args;

/// Options of `ctl doctor`.
#[derive(Args, Clone, Debug)]
pub struct DoctorOptions {
    /// Network interfaces to look at [default: all]
    #[arg(value_name = "INTERFACE")]
    pub interfaces: Vec<String>,
    /// Print it for programs
    #[arg(long)]
    pub json: bool,
}
