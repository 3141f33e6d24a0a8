//! The buffers of a worker.

use micanite_net::{Blocks, ValueBuffers};

use crate::limits::{INPUT_BYTES, OUTPUT_BYTES};

/// Scratch buffers that connections use in turn, and pools of buffers that outlive a turn.
#[derive(Debug)]
pub struct Buffers {
    pub(super) input: Box<[u8]>,
    pub(super) output: Box<[u8]>,
    pub(super) input_blocks: Blocks,
    pub(super) output_blocks: Blocks,
    /// Value buffers, for long requests and long values.
    pub values: ValueBuffers,
}

impl Buffers {
    /// Most bytes of a connection's blocks.
    pub const CONNECTION_BYTES: usize = INPUT_BYTES + OUTPUT_BYTES;
    /// Bytes of the scratch buffers.
    pub const SCRATCH_BYTES: usize = INPUT_BYTES + OUTPUT_BYTES;

    /// Makes buffers for `connections`, each of which can have its blocks whatever the others hold.
    pub fn new(connections: usize, value_buffer_bytes: usize) -> Self {
        Self {
            input: vec![0; INPUT_BYTES].into(),
            output: vec![0; OUTPUT_BYTES].into(),
            input_blocks: Blocks::new(connections, INPUT_BYTES),
            output_blocks: Blocks::new(connections, OUTPUT_BYTES),
            values: ValueBuffers::new(value_buffer_bytes),
        }
    }
}
