//! Raw frames through a port that replies: finds datagrams, checks replies, loses no frame.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| micanite_net::frames::fuzz::frames(data));
