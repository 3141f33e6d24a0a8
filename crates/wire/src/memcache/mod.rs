//! memcached's protocols.

pub mod text;
