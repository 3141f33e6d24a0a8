//! Prints the cost of a checksum and of a copy, beside that of reading a header again from memory: the shares
//! of a processor in the two ways to accept a chunk. `cargo run --release --example measure`

use std::hint::black_box;
use std::time::Instant;

use micanite_chunks::layout::{HEADER_BYTES, Header};
use micanite_memory::{Region, WORD_BYTES};

/// Memory of chunks that stays in the processor's cache, and memory that does not.
const REGIONS_BYTES: [usize; 2] = [1 << 20, 256 << 20];
const MEASURED_BYTES: usize = 512 << 20;
const ROUNDS: usize = 5;

fn main() {
    let regions = REGIONS_BYTES.map(|bytes| Region::private(bytes).expect("memory"));
    regions.iter().for_each(Region::populate);
    println!("ns            checksum    copy of 1 MiB, of 256 MiB    header again");
    for bytes in [64, 1 << 10, 4 << 10, 32 << 10, 128 << 10, 512 << 10] {
        let mut value = vec![1; bytes];
        let header = Header {
            version: 1,
            incarnation: 2,
            void: 3,
            hash: 4,
            expiry_s: 0,
            flags: 0,
            key_bytes: 0,
            // A checked item's length, so that longer values are measured, too.
            value_bytes: bytes.min(32 << 10) as u32 - HEADER_BYTES as u32,
        };
        let checksum = measure(&regions[0], bytes, |_, _| {
            black_box(header.checksum(b"", black_box(&value)));
        });
        let copies = regions
            .each_ref()
            .map(|region| measure(region, bytes, |region, at| region.copy_out(at, black_box(&mut value))));
        let mut again = [0; HEADER_BYTES];
        let again = measure(&regions[1], 64, |region, at| region.copy_out(at, black_box(&mut again)));
        println!("{bytes:>8} {checksum:>13.0} {:>16.0} {:>12.0} {again:>15.0}", copies[0], copies[1]);
    }
}

/// Returns the shortest mean time in ns of some rounds. `run` gets the offset of a random chunk.
fn measure(region: &Region, bytes: usize, mut run: impl FnMut(&Region, usize)) -> f64 {
    let times = MEASURED_BYTES / bytes.max(4096);
    let chunks = region.words() * WORD_BYTES / bytes;
    let mut place = 1_usize;
    let rounds = (0..ROUNDS).map(|_| {
        let start = Instant::now();
        for _ in 0..times {
            place = place.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            run(region, (place >> 20) % chunks * bytes);
        }
        start.elapsed().as_nanos() as f64 / times as f64
    });
    rounds.fold(f64::INFINITY, f64::min)
}
