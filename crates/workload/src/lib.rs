//! Key popularity, sizes and operation mixes.
