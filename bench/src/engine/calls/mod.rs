//! Calls of the engine: by the length of the batch, one request at a time, and new keys.

mod batches;
mod inserts;
mod single;

use super::Options;
use crate::Result;
use crate::results::measurement::Measurement;

pub(crate) fn run(options: &Options, report: &mut Measurement) -> Result<()> {
    batches::run(options, report)?;
    single::run(options, report)?;
    inserts::run(options, report)
}
