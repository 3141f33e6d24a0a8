//! Measures what it costs to register memory, beside copying as many bytes.
//!
//! `registration [PROVIDER..]` prints a table in microseconds: the median of `ROUNDS` interleaved rounds. A
//! registration ends within its round. "new" is a new buffer, as a server makes one for a client: its memory
//! is allocated, registered, written once and freed.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use micanite_fabric::{Addressing, Endpoint, EndpointOptions, FabricAddress, PROVIDERS, Provider};
use micanite_memory::{PAGE_BYTES, Region};

const ROUNDS: usize = 201;
const SIZES: [usize; 7] = [1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];

fn main() {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let is_wanted = |provider: &&Provider| {
        !provider.needs_device && (names.is_empty() || names.iter().any(|name| name == provider.name))
    };
    println!("| provider | bytes | copy | register | new |");
    println!("|---|---|---|---|---|");
    for provider in PROVIDERS.iter().filter(is_wanted) {
        match provider.probe() {
            Ok(()) => measure(provider),
            Err(why) => eprintln!("{}: {why}", provider.name),
        }
    }
}

fn measure(provider: &'static Provider) {
    let (host, port) = match provider.addressing {
        Addressing::Internet => ("127.0.0.1".to_owned(), Some(0)),
        Addressing::Name => (format!("micanite-registration-{}", std::process::id()), None),
    };
    let address = FabricAddress { provider, host, port };
    for bytes in SIZES {
        // Areas keep their memory until the endpoint is closed.
        let endpoint = Endpoint::listen(&address, &EndpointOptions::default()).unwrap();
        let region = Arc::new(Region::private(bytes).unwrap());
        let from = vec![1_u8; bytes];
        let mut to = vec![0_u8; bytes];
        let mut times: [Vec<Duration>; 3] = Default::default();
        for _ in 0..ROUNDS {
            let began = Instant::now();
            black_box(&mut to).copy_from_slice(black_box(&from));
            times[0].push(began.elapsed());
            let began = Instant::now();
            drop(black_box(endpoint.area(Arc::clone(&region)).unwrap()));
            times[1].push(began.elapsed());
            let began = Instant::now();
            let mut buffer = endpoint.buffer(bytes).unwrap();
            buffer.iter_mut().step_by(PAGE_BYTES).for_each(|byte| *byte = 1);
            drop(black_box(buffer));
            times[2].push(began.elapsed());
        }
        let [copy, register, new] = times.map(|mut times| {
            times.sort_unstable();
            times[ROUNDS / 2].as_secs_f64() * 1e6
        });
        println!("| `{}` | {bytes} | {copy:.2} | {register:.2} | {new:.2} |", provider.name);
    }
}
