//! Captured packets in any order, with bounded memory.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| micanite_workload::trace::fuzz::trace_packets(data));
