//! Sections of the report on ports around the kernel.

pub(crate) mod bound;
pub(crate) mod ports;
