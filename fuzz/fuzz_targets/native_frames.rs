//! Datagrams in raw frames with flipped bits, through the server: the same answers as without frames.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| micanite_server::testing::fuzz::native_frames(data));
