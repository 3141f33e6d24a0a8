//! Sends prepared UDP frames to an echo at the other end of a port, and counts the replies. At most
//! one window of frames is in flight.
//!
//! ```text
//! cargo run --release --features dpdk --example blast -- PORT MAC FROM TO:UDP [SECONDS [PAYLOAD [WINDOW]]]
//! cargo run --release --features dpdk --example blast -- \
//!     dpdk:net_memif0,role=client 02:00:00:00:00:01 10.0.0.2/24 10.0.0.1:11300 5 64 512
//! ```

use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use micanite_net::bypass::{Bypass, BypassOptions, BypassQueue};
use micanite_net::frames::{FramePort, FrameQueue, Header, Local, MacAddress, ReplyTo};
use micanite_net::limits::FRAME_BURST_MAX;

/// Time after which a window without replies counts as lost.
const LOST_AFTER: Duration = Duration::from_millis(100);
const FROM_PORT: u16 = 40_000;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [port, mac, from, to, rest @ ..] = words.as_slice() else {
        return Err("blast PORT MAC FROM/PREFIX TO:UDP [SECONDS [PAYLOAD [WINDOW]]]".into());
    };
    let number = |at: usize, default: usize| rest.get(at).map_or(Ok(default), |word| word.parse());
    let (from, prefix) = from.split_once('/').ok_or("an address needs its prefix")?;
    let (from, to): (IpAddr, SocketAddr) = (from.parse()?, to.parse()?);
    let (seconds, payload_bytes, window) = (number(0, 5)?, number(1, 64)?, number(2, 512)?);
    let options = BypassOptions {
        name: port.parse()?,
        addresses: vec![(from, prefix.parse()?)],
        gateway: None,
        ports: FROM_PORT..=FROM_PORT,
        queues: 1,
        payload_bytes_max: payload_bytes.max(1452),
        busy_poll_us: 0,
        dpdk_arguments: Vec::new(),
    };
    let (bypass, queues) = Bypass::open(&options)?;
    println!("{}", bypass.description);
    let blast = Blast {
        header: Header::new((bypass.mac, (from, FROM_PORT).into()), (parse_mac(mac)?, to), None),
        local: Local { addresses: vec![from], ports: FROM_PORT..=FROM_PORT },
        payload: (0..payload_bytes).map(|byte| byte as u8).collect(),
        window,
        lasts: Duration::from_secs(seconds as u64),
    };
    for queue in queues {
        match queue {
            BypassQueue::Xdp(queue) => blast.run(queue)?,
            BypassQueue::Dpdk(queue) => blast.run(queue)?,
        }
    }
    Ok(())
}

fn parse_mac(text: &str) -> Result<MacAddress, Box<dyn Error>> {
    let bytes: Result<Vec<u8>, _> = text.split(':').map(|byte| u8::from_str_radix(byte, 16)).collect();
    bytes?.try_into().map_err(|_| "a MAC address has six bytes".into())
}

struct Blast {
    header: Header,
    local: Local,
    payload: Vec<u8>,
    window: usize,
    lasts: Duration,
}

impl Blast {
    fn run<Q: FrameQueue>(&self, queue: Q) -> Result<(), Box<dyn Error>> {
        let mut port = FramePort::new(queue, self.local.clone(), self.payload.len());
        let (begun, mut answered) = (Instant::now(), Instant::now());
        let (mut under_way, mut sent, mut came, mut lost) = (0usize, 0u64, 0u64, 0u64);
        let mut rounds = 0u32;
        loop {
            let back = port.recv()?;
            came += back as u64;
            under_way = under_way.saturating_sub(back);
            rounds = rounds.wrapping_add(1);
            if rounds.is_multiple_of(64) || back == 0 {
                let now = Instant::now();
                if back > 0 {
                    answered = now;
                } else if now - answered > LOST_AFTER && under_way > 0 {
                    lost += under_way as u64;
                    (under_way, answered) = (0, now);
                }
                if now - begun > self.lasts {
                    break;
                }
            }
            let (_, mut replies) = port.split();
            let burst = FRAME_BURST_MAX.min(self.window - under_way);
            for _ in 0..burst {
                replies.open(ReplyTo::Header(&self.header));
                replies.slot()[..self.payload.len()].copy_from_slice(&self.payload);
                replies.commit(self.payload.len());
            }
            port.send()?;
            under_way += burst;
            sent += burst as u64;
        }
        let rate = came as f64 / begun.elapsed().as_secs_f64() / 1e6;
        println!("{rate:.3} M/s answered; sent {sent}, answered {came}, given up {lost}");
        println!("{:?}", port.counters());
        println!("unsent {}", port.queue().unsent());
        Ok(())
    }
}
