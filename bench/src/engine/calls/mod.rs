//! Calls of the engine: by the length of the batch, one request at a time, new keys, and a look-aside load of
//! one thread and of two.

mod batches;
mod inserts;
mod look_aside;
mod single;
mod two_threads;

pub(crate) use look_aside::{LookAside, SharedLookAside, one_by_one};
pub(crate) use two_threads::run as two_threads;

use super::Options;
use crate::Result;
use crate::results::measurement::Measurement;

pub(crate) fn run(options: &Options, report: &mut Measurement) -> Result<()> {
    batches::run(options, report)?;
    single::run(options, report)?;
    inserts::run(options, report)?;
    look_aside::run(options, report)
}
