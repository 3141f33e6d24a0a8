//! Measures the gets per second of one client thread, with a given number of requests per datagram:
//! `cargo run --release -p micanite-client --example rate -- 127.0.0.1:11300 16`
//! (`0`: the client chooses the number).

use micanite_client::{Batch, Error, Link, Operation, Options, Outcome, ServerAddress, UdpOptions};
use std::time::{Duration, Instant};

const ITEMS: u64 = 10_000;
const SECONDS: u64 = 2;

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().collect();
    let server = arguments.get(1).map_or("127.0.0.1:11300", String::as_str);
    let batch = arguments.get(2).and_then(|text| text.parse().ok());
    let servers = [ServerAddress::resolve(server)?];
    let batch = match batch.unwrap_or(16) {
        0 => Batch::Adaptive,
        requests => Batch::Fixed(requests),
    };
    let options = Options { batch, ..Options::default() };
    let mut link = Link::connect(&servers, options, &UdpOptions::default())?;

    for item in 0..ITEMS {
        let key = item.to_le_bytes();
        let now_ns = link.now_ns();
        while link.submit(now_ns, &Operation::set(&key, &key), item).is_err() {
            link.poll(now_ns, |_| {})?;
        }
        link.poll(now_ns, |_| {})?;
    }
    while link.driver().pending() > 0 {
        link.poll(link.now_ns(), |_| {})?;
    }

    let (mut found, mut item, mut idle) = (0_u64, 0_u64, 0_u64);
    let began = Instant::now();
    let end = began + Duration::from_secs(SECONDS);
    while Instant::now() < end {
        let now_ns = link.now_ns();
        for _ in 0..512 {
            let key = (item % ITEMS).to_le_bytes();
            if link.submit(now_ns, &Operation::get(&key), item).is_err() {
                break;
            }
            item += 1;
        }
        let received = link.poll(now_ns, |ended| {
            found += u64::from(ended.outcome == Outcome::Ok);
        })?;
        idle += u64::from(received == 0);
    }
    let rate = found as f64 / began.elapsed().as_secs_f64();
    let counters = link.counters();
    println!("{:.2} M gets per second, {idle} polls without a datagram", rate / 1e6);
    println!(
        "datagrams {} resent {} late {} cuts {} timed out {} round trip {} us",
        counters.sent,
        counters.resent,
        counters.late,
        counters.window_cuts,
        counters.timed_out,
        link.driver().rtt_ns(0, 0) / 1000
    );
    Ok(())
}
