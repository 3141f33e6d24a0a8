//! Sends every UDP datagram back in its frame: what a port alone can do.
//!
//! ```text
//! cargo run --release --features dpdk --example echo -- PORT ADDRESS/PREFIX UDP-PORT [QUEUES]
//! cargo run --release --features dpdk --example echo -- \
//!     dpdk:net_memif0,role=server,mac=02:00:00:00:00:01 10.0.0.1/24 11300
//! ```

use std::error::Error;
use std::net::IpAddr;
use std::thread;

use micanite_net::bypass::{Bypass, BypassOptions, BypassQueue};
use micanite_net::frames::{FramePort, FrameQueue, Local, ReplyTo};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [port, address, udp_port, rest @ ..] = words.as_slice() else {
        return Err("echo PORT ADDRESS/PREFIX UDP-PORT [QUEUES]".into());
    };
    let (address, prefix) = address
        .split_once('/')
        .ok_or("an address needs its prefix")?;
    let (address, udp_port): (IpAddr, u16) = (address.parse()?, udp_port.parse()?);
    let queues: u16 = rest.first().map_or(Ok(1), |word| word.parse())?;
    let ports = udp_port..=udp_port + queues - 1;
    let options = BypassOptions {
        name: port.parse()?,
        addresses: vec![(address, prefix.parse()?)],
        gateway: None,
        ports: ports.clone(),
        queues: queues.into(),
        payload_bytes_max: 1452,
        busy_poll_us: 0,
        dpdk_arguments: Vec::new(),
    };
    let (bypass, queues) = Bypass::open(&options)?;
    println!("{}", bypass.description);
    let local = Local {
        addresses: vec![address],
        ports,
    };
    let echo = |queue| match queue {
        BypassQueue::Xdp(queue) => echo(FramePort::new(queue, local.clone(), 1452)),
        BypassQueue::Dpdk(queue) => echo(FramePort::new(queue, local.clone(), 1452)),
    };
    thread::scope(|scope| {
        for queue in queues {
            scope.spawn(|| echo(queue).expect("the port is of no use any more"));
        }
    });
    Ok(())
}

fn echo<Q: FrameQueue>(mut port: FramePort<Q>) -> std::io::Result<()> {
    loop {
        if port.recv()? == 0 {
            thread::yield_now();
            continue;
        }
        let (datagrams, mut replies) = port.split();
        for datagram in datagrams {
            replies.open(ReplyTo::Datagram(datagram.number));
            let bytes = datagram.bytes.len();
            replies.slot()[..bytes].copy_from_slice(datagram.bytes);
            replies.commit(bytes);
        }
        port.send()?;
    }
}
