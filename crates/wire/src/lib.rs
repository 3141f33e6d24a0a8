//! What a client and a server must agree on.
//!
//! Everything here is sans-I/O: codecs borrow their input, write into the caller's buffer and
//! allocate nothing.
//!
//! - [`hash`]: the 64-bit key hash and its split into partition, bucket and tag.
//! - [`memcache`]: memcached's protocols.
//! - [`native`]: Micanite's own, over datagrams.

#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod hash;
pub mod memcache;
pub mod native;
