//! The program on frames (BPF_PROG_TEST_RUN), over an image that the engine has written.

mod bed;
mod beside;
mod lines;
mod maps;
mod memcached;
mod native;
mod property;
mod signals;
mod twin;
