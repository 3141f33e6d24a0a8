//! Raw frames through a port that replies: what is a datagram, what leaves, and that no frame is lost.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| micanite_net::frames::fuzz::frames(data));
