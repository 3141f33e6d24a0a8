//! Calls of the engine: by the length of the batch, and one request at a time.

mod batches;
mod single;

use super::Options;
use crate::Result;
use crate::results::measurement::Measurement;

pub(crate) fn run(options: &Options, report: &mut Measurement) -> Result<()> {
    batches::run(options, report)?;
    single::run(options, report)
}
