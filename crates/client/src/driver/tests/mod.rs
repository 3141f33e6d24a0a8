//! The driver against simulated servers and networks.

mod basics;
mod faults;
mod interfaces;
mod overload;
mod servers;

pub(crate) mod fake;
pub(crate) mod world;

use crate::options::Options;
use fake::Fake;
use micanite_wire::native::PartitionAccess;

/// Creates one server with two cores and four partitions.
fn erew() -> Fake {
    Fake::new("10.0.0.1:1000", 2, 4, PartitionAccess::Erew)
}

fn options() -> Options {
    Options::default()
}
