//! A fixed pool of equal blocks, mapped at start and touched when first used.

/// A pool. Its blocks are named by [`Block`]s, which only this pool can resolve.
#[derive(Debug)]
pub struct Blocks {
    /// All blocks. The allocator maps a piece of this size from the kernel: pages of blocks that
    /// were never used take no memory.
    bytes: Vec<u8>,
    block_bytes: usize,
    /// The last one returned is the first one taken: what is in use stays dense.
    free: Vec<u32>,
}

/// The right to use one block, until it is given back.
#[derive(Debug)]
#[must_use = "a block that is dropped is lost to its pool"]
pub struct Block(u32);

impl Blocks {
    /// A pool of `count` blocks.
    ///
    /// # Panics
    /// With more than 2^32 blocks.
    pub fn new(count: usize, block_bytes: usize) -> Self {
        let last = u32::try_from(count).expect("at most 2^32 blocks");
        Self {
            bytes: vec![0; count * block_bytes],
            block_bytes,
            free: (0..last).rev().collect(),
        }
    }

    /// A block, whose bytes are whatever was left there; `None` when all are in use.
    pub fn take(&mut self) -> Option<Block> {
        self.free.pop().map(Block)
    }

    /// Returns a block.
    pub fn give_back(&mut self, block: Block) {
        self.free.push(block.0);
    }

    /// The bytes of a block.
    pub fn bytes(&self, block: &Block) -> &[u8] {
        let from = block.0 as usize * self.block_bytes;
        &self.bytes[from..from + self.block_bytes]
    }

    /// The bytes of a block, to be written.
    pub fn bytes_mut(&mut self, block: &Block) -> &mut [u8] {
        let from = block.0 as usize * self.block_bytes;
        &mut self.bytes[from..from + self.block_bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_apart_and_come_back() {
        let mut blocks = Blocks::new(2, 8);
        let (first, second) = (blocks.take().unwrap(), blocks.take().unwrap());
        assert!(blocks.take().is_none());
        blocks.bytes_mut(&first).fill(1);
        blocks.bytes_mut(&second).fill(2);
        assert_eq!(blocks.bytes(&first), [1; 8]);
        assert_eq!(blocks.bytes(&second), [2; 8]);
        blocks.give_back(first);
        let again = blocks.take().unwrap();
        assert_eq!(blocks.bytes(&again), [1; 8]);
    }
}
