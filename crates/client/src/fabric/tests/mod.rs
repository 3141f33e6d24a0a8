//! The client over a fabric, against a server without a network.

mod client;
mod messages;
mod model;
mod reads;
#[cfg(feature = "libfabric")]
mod real;
mod server;
mod sessions;
mod world;
