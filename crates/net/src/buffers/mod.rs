//! Memory of waiting bytes: blocks of one length, and values of any length.

mod blocks;
mod value_buffers;

pub use blocks::{Block, Blocks};
pub use value_buffers::{ValueBuffer, ValueBuffers};
