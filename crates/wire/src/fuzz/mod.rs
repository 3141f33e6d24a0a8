//! Bodies of fuzz targets. Each takes any bytes and panics when an invariant is broken.

mod binary;
mod native;
mod native_fabric;
#[cfg(test)]
mod tests;
mod text;
mod udp;

pub use binary::binary_parser;
pub use native::{native_replies, native_requests};
pub use native_fabric::native_fabric;
pub use text::text_parser;
pub use udp::udp_frames;
