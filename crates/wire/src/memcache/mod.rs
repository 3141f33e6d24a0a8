//! memcached's protocols.

pub mod binary;
pub mod text;
pub mod udp;
