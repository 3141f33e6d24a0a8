//! Size classes of blocks: each class has one free list.
//!
//! Up to the largest block that can be requested, and at most [`CLASS_UNITS_EXACT`], the class is
//! the size. Above, a class holds the sizes that agree in their highest bit and the six after it.

/// Smallest block: a free one has a header, links and a footer.
pub(crate) const BLOCK_UNITS_MIN: usize = 3;
/// Largest block that can be requested: its header holds its size, with the rest that was too small
/// to be split off.
pub(super) const BLOCK_UNITS_MAX: usize = (1 << 28) - BLOCK_UNITS_MIN;
/// Largest size with a class of its own: a value of 1 MiB, its key and header, and a little more.
pub(super) const CLASS_UNITS_EXACT: usize = 131_200;
/// Bits of a position, and of the size of the largest free block: 32 GiB.
pub(super) const POSITION_BITS: u32 = 32;

/// Classes per doubling of the size, as a power of two. Loom pays for every word.
const STEP_BITS: u32 = if cfg!(loom) { 0 } else { 6 };

/// Returns the largest size with a class of its own, in a heap whose largest block is `units_max`.
#[inline]
pub(super) const fn units_exact(units_max: usize) -> usize {
    if units_max < CLASS_UNITS_EXACT { units_max } else { CLASS_UNITS_EXACT }
}

/// Returns the size as a tiny floating-point number: it grows with the size, coarsely.
#[inline]
const fn magnitude(units: usize) -> usize {
    let exponent = units.ilog2();
    ((exponent as usize) << STEP_BITS) + ((units << STEP_BITS) >> exponent) - (1 << STEP_BITS)
}

/// Returns the class of blocks of `units`; larger blocks never have a smaller class.
#[inline]
pub(super) const fn class(units: usize, units_exact: usize) -> usize {
    if units <= units_exact { units } else { units_exact + 1 + magnitude(units) - magnitude(units_exact + 1) }
}

/// Returns the number of classes of a heap.
#[inline]
pub(super) const fn count(units_exact: usize) -> usize {
    class((1 << POSITION_BITS) - 1, units_exact) + 1
}
