//! Prints the median latency of one-sided and of two-sided gets, taken in turns.
//! `cargo run --release -p micanite-client --features libfabric --example fabric_latency -- URL [BYTES...]`

use std::time::{Duration, Instant};

use micanite_client::{Builder, Client, Error, FabricOptions, Reads};

const ROUNDS: usize = 40;
const GETS: usize = 50;

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().unwrap_or_else(|| "fabric://127.0.0.1".to_owned());
    let mut lengths: Vec<usize> = arguments.filter_map(|bytes| bytes.parse().ok()).collect();
    if lengths.is_empty() {
        lengths = vec![64, 1 << 10, 16 << 10, 512 << 10];
    }
    let connect = |reads| {
        let options = FabricOptions { reads, ..FabricOptions::default() };
        Builder::default().server(&url).fabric(options).connect()
    };
    let (mut one_sided, mut two_sided) = (connect(Reads::OneSided)?, connect(Reads::TwoSided)?);
    println!("bytes one-sided_us two-sided_us ratio share");
    for bytes in lengths {
        one_sided.set(b"key", &vec![7; bytes], 0, 0)?;
        let mut taken = [Vec::new(), Vec::new()];
        let before = counted(&one_sided);
        for _ in 0..ROUNDS {
            for (client, taken) in [&mut one_sided, &mut two_sided].into_iter().zip(&mut taken) {
                for _ in 0..GETS {
                    taken.push(get(client, bytes)?);
                }
            }
        }
        let share = (counted(&one_sided) - before) as f64 / (ROUNDS * GETS) as f64;
        let [one, two] = taken.map(|mut taken| {
            taken.sort_unstable();
            taken[taken.len() / 2].as_nanos() as f64 / 1e3
        });
        println!("{bytes} {one:.1} {two:.1} {:.2} {share:.3}", two / one);
    }
    Ok(())
}

fn counted(client: &Client) -> u64 {
    client.fabric_link().map_or(0, |link| link.counters().gets_one_sided)
}

fn get(client: &mut Client, bytes: usize) -> Result<Duration, Error> {
    let started = Instant::now();
    let value = client.get(b"key")?;
    let taken = started.elapsed();
    assert_eq!(value.map_or(0, |value| value.bytes.len()), bytes);
    Ok(taken)
}
