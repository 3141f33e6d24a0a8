//! Damaged images, of caches and stores, closed and left: opened, served, walked, closed.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| micanite_engine::fuzz::images(data));
