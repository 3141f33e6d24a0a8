//! A pool of equal blocks with a fixed maximum. Memory is allocated when blocks are first used.

/// Number of blocks per allocation.
const CHUNK_BLOCKS: usize = 16;

/// A pool. Only this pool can resolve its [`Block`]s.
#[derive(Debug)]
pub struct Blocks {
    /// All blocks that were ever used, in chunks. They are never freed.
    chunks: Vec<Box<[u8]>>,
    block_bytes: usize,
    blocks_max: u32,
    /// Number of blocks that were ever taken.
    used: u32,
    /// Returned blocks. The last one returned is the first one taken, which keeps used blocks
    /// dense.
    free: Vec<u32>,
}

/// The right to use one block until it is given back.
#[derive(Debug)]
#[must_use = "a block that is dropped is lost to its pool"]
pub struct Block(u32);

impl Blocks {
    /// Creates a pool of at most `blocks_max` blocks.
    ///
    /// # Panics
    /// If `blocks_max` is 2^32 or more.
    pub fn new(blocks_max: usize, block_bytes: usize) -> Self {
        Self {
            chunks: Vec::with_capacity(blocks_max.div_ceil(CHUNK_BLOCKS)),
            block_bytes,
            blocks_max: u32::try_from(blocks_max).expect("fewer than 2^32 blocks"),
            used: 0,
            free: Vec::with_capacity(blocks_max),
        }
    }

    /// Takes a block with arbitrary contents; `None` if all are in use.
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

    pub fn give_back(&mut self, block: Block) {
        self.free.push(block.0);
    }

    pub fn bytes(&self, block: &Block) -> &[u8] {
        let (chunk, from) = self.place(block);
        &self.chunks[chunk][from..from + self.block_bytes]
    }

    pub fn bytes_mut(&mut self, block: &Block) -> &mut [u8] {
        let (chunk, from) = self.place(block);
        &mut self.chunks[chunk][from..from + self.block_bytes]
    }

    fn place(&self, block: &Block) -> (usize, usize) {
        let number = block.0 as usize;
        (number / CHUNK_BLOCKS, number % CHUNK_BLOCKS * self.block_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_disjoint_and_reused() {
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
