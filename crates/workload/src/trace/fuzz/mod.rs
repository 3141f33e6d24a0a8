//! Bodies of fuzz targets: each takes any bytes and panics when an invariant is broken.

mod readers;
#[cfg(test)]
mod tests;

pub use readers::trace_readers;

/// The packets of a capture, their addresses and lengths being right.
pub fn trace_packets(data: &[u8]) {
    crate::trace::formats::pcap::fuzz::packets(data);
}
