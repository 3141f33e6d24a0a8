//! The limits of the memory, and ways to look an item up beside them.
//!
//! One core reads random lines, and prototypes of the lookup run beside the limit of two
//! dependent lines, interleaved. The prototypes do what a GET has to: key bytes, hash, tag match,
//! key comparison, the value copied out. They are tables made for this measurement, without
//! eviction, expiry or other readers.

mod cases;
mod inline;
mod item;
mod lines;
mod pipeline;
mod rounds;
mod table;
mod tag_match;
mod two_lines;

use clap::Args;

use crate::{Common, Result};

pub(crate) use two_lines::TwoLines;

#[derive(Args, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    pub common: Common,
    /// Items of each table (default 16 Mi and 64 Mi, quick 16 Mi), a power of two
    #[arg(long)]
    pub items: Option<u64>,
}

impl Options {
    fn sizes(&self) -> Vec<u64> {
        match self.items {
            Some(items) => vec![items],
            None if self.common.quick => vec![16 << 20],
            None => vec![16 << 20, 64 << 20],
        }
    }
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let sizes = options.sizes();
    if sizes.iter().any(|items| !items.is_power_of_two() || !(1 << 10..=1 << 28).contains(items)) {
        return Err("--items must be a power of two from 2^10 to 2^28".into());
    }
    let (mut report, _) = options.common.begin("limits")?;
    for items in sizes {
        cases::run(items, options, &mut report)?;
    }
    report.finish()
}
