//! Protocols that clients and servers share.
//!
//! Everything here is sans-I/O: codecs borrow their input, write into the caller's buffer and
//! allocate nothing.
//!
//! - [`hash`]: the 64-bit key hash, whose first bits choose the partition.
//! - [`memcache`]: memcached's protocols.
//! - [`native`]: Micanite's own protocol, over datagrams.

#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod hash;
pub mod memcache;
pub mod native;

/// Runs the example of the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
