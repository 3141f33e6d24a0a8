//! Answers GETs in the kernel, before its network stack, from the partition image that the server
//! writes (Hippos, chapter 3 of the dissertation, with XDP in place of a kernel module).
//!
//! ```text
//!  interface --> bpf/get.c (XDP)  hash.h, image.h (the reader), memcached.h, reply.h
//!                  | complete GET: the reply leaves in the request's packet
//!                  | everything else: to the stack and the server's sockets
//!                partitions: one mmapable array each, the image        maps.rs
//!                configuration (frozen), control, reports per CPU      configuration.rs, counters.rs
//! ```
//!
//! The program never writes to the image. It is attached by an unpinned link. So when the process
//! ends, however it ends, the stack gets all packets again.

#![expect(unsafe_code, reason = "the counters and samples of the program are memory that it shares with us")]

mod configuration;
mod counters;
mod maps;
mod program;
mod shared;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(all(test, get_program))]
mod tests;

pub use configuration::{GetOptions, NativeOptions, Network};
pub use counters::Counters;
pub use maps::{IMAGE_BYTES_MAX, ImageMaps};
pub use program::{IS_BUILT, KernelGet};
