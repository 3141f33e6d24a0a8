//! GETs answered in the kernel, before its network stack, out of the partition image that the server
//! writes (Hippos, chapter 3 of the dissertation, with XDP in the place of a kernel module).
//!
//! ```text
//!  interface --> bpf/get.c (XDP)  hash.h, image.h (the reader), memcached.h, reply.h
//!                  | GET, and all of it understood: the reply leaves in the request's packet
//!                  | everything else: the stack, and the server's sockets, as ever
//!                partitions: one mmapable array each, which is the image       maps.rs
//!                configuration (frozen), control, reports per CPU              configuration.rs, counters.rs
//! ```
//!
//! The program writes nothing of the image. It is attached by a link that is pinned nowhere: when
//! the process ends, however it ends, the stack has all packets again.

#![expect(
    unsafe_code,
    reason = "the counters and samples of the program are memory that it shares with us"
)]

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
