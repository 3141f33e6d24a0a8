//! A pool of equal blocks: never more than it was made for, and memory for them when first used.

/// Blocks that are allocated together.
const CHUNK_BLOCKS: usize = 16;

/// A pool. Its blocks are named by [`Block`]s, which only this pool can resolve.
#[derive(Debug)]
pub struct Blocks {
    /// The blocks that were ever used, in chunks; they stay.
    chunks: Vec<Box<[u8]>>,
    block_bytes: usize,
    blocks_max: u32,
    /// Blocks taken for the first time so far.
    used: u32,
    /// The last one returned is the first one taken: what is in use stays dense.
    free: Vec<u32>,
}

/// The right to use one block, until it is given back.
#[derive(Debug)]
#[must_use = "a block that is dropped is lost to its pool"]
pub struct Block(u32);

impl Blocks {
    /// A pool of at most `blocks_max` blocks.
    ///
    /// # Panics
    /// With 2^32 blocks or more.
    pub fn new(blocks_max: usize, block_bytes: usize) -> Self {
        Self {
            chunks: Vec::with_capacity(blocks_max.div_ceil(CHUNK_BLOCKS)),
            block_bytes,
            blocks_max: u32::try_from(blocks_max).expect("fewer than 2^32 blocks"),
            used: 0,
            free: Vec::with_capacity(blocks_max),
        }
    }

    /// A block, whose bytes are whatever was left there; `None` when all are in use.
    pub fn take(&mut self) -> Option<Block> {
        if let Some(number) = self.free.pop() {
            return Some(Block(number));
        }
        if self.used == self.blocks_max {
            return None;
        }
        if self.used as usize == self.chunks.len() * CHUNK_BLOCKS {
            let chunk = vec![0; CHUNK_BLOCKS * self.block_bytes];
            self.chunks.push(chunk.into());
        }
        self.used += 1;
        Some(Block(self.used - 1))
    }

    /// Returns a block.
    pub fn give_back(&mut self, block: Block) {
        self.free.push(block.0);
    }

    /// The bytes of a block.
    pub fn bytes(&self, block: &Block) -> &[u8] {
        let (chunk, from) = self.place(block);
        &self.chunks[chunk][from..from + self.block_bytes]
    }

    /// The bytes of a block, to be written.
    pub fn bytes_mut(&mut self, block: &Block) -> &mut [u8] {
        let (chunk, from) = self.place(block);
        &mut self.chunks[chunk][from..from + self.block_bytes]
    }

    fn place(&self, block: &Block) -> (usize, usize) {
        let number = block.0 as usize;
        (
            number / CHUNK_BLOCKS,
            number % CHUNK_BLOCKS * self.block_bytes,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_apart_and_come_back() {
        let count = 2 * CHUNK_BLOCKS + 3;
        let mut blocks = Blocks::new(count, 8);
        let mut taken: Vec<_> = (0..count).map(|_| blocks.take().unwrap()).collect();
        assert!(blocks.take().is_none());
        for (number, block) in taken.iter().enumerate() {
            blocks.bytes_mut(block).fill(number as u8);
        }
        for (number, block) in taken.iter().enumerate() {
            assert_eq!(blocks.bytes(block), [number as u8; 8]);
        }
        blocks.give_back(taken.remove(20));
        let again = blocks.take().unwrap();
        assert_eq!(blocks.bytes(&again), [20; 8]);
        assert!(blocks.take().is_none());
    }
}
