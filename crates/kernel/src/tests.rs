//! Runs the program on frames (BPF_PROG_TEST_RUN), over an image written by the engine.

mod concurrent;
mod dirty;
mod fixture;
mod lines;
mod maps;
mod memcached;
mod model;
mod native;
mod packets;
mod property;
mod signals;
