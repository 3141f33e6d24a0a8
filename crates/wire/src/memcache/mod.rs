//! memcached's protocols.

pub mod binary;
pub mod text;
