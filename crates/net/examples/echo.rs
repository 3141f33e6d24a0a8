//! Returns every datagram over a port that bypasses the kernel's network stack: the port's limit when
//! the data costs nothing to process.
//!
//! `echo --port xdp:eth0 [--port-ip 10.0.0.2/24,..] [--ports 11300-11300] [--queues 1] [--busy-poll US]
//! [--dpdk-args ".."] [--wait spin|yield|block]`. It ends at the end of its input and prints its
//! counters.

use std::collections::HashMap;
use std::io::Read as _;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use micanite_net::bypass::{Bypass, BypassOptions, BypassQueue};
use micanite_net::frames::{FrameCounters, FramePort, FrameQueue, Local, ReplyTo};
use micanite_net::{Interest, Poller};

static STOP: AtomicBool = AtomicBool::new(false);

/// Behaviour of an idle thread.
#[derive(Clone, Copy)]
enum Wait {
    Spin,
    Yield,
    Block,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("echo: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let (options, wait) = options()?;
    let (port, queues) = Bypass::open(&options)?;
    let addresses: Vec<_> = port.addresses.iter().map(|(address, _)| *address).collect();
    let local = Local { addresses, ports: options.ports.clone() };
    println!("ready: {}", port.description);
    let threads: Vec<_> = queues
        .into_iter()
        .map(|queue| {
            let (local, bytes) = (local.clone(), port.payload_bytes_max);
            std::thread::spawn(move || match queue {
                BypassQueue::Xdp(queue) => echo(FramePort::new(queue, local, bytes), wait),
                BypassQueue::Dpdk(queue) => echo(FramePort::new(queue, local, bytes), wait),
            })
        })
        .collect();
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    STOP.store(true, Ordering::Relaxed);
    for (number, thread) in threads.into_iter().enumerate() {
        let (counters, lost, unsent) = thread.join().map_err(|_| "a thread has panicked")?;
        println!("queue {number}: {counters:?} lost {lost} unsent {unsent}");
    }
    println!("filter: {:?}", port.filter_counters());
    Ok(())
}

/// Returns bursts until [`STOP`].
fn echo<Q: FrameQueue>(mut port: FramePort<Q>, wait: Wait) -> (FrameCounters, u32, u64) {
    let mut poller = Poller::new().expect("epoll");
    if let Some(descriptor) = port.queue().descriptor() {
        poller.add(descriptor, 0, Interest::Read).expect("epoll");
    }
    let can_block = port.queue().descriptor().is_some();
    while !STOP.load(Ordering::Relaxed) {
        match port.recv() {
            Ok(0) => match wait {
                Wait::Block if can_block => {
                    let _ = poller.wait(100);
                }
                Wait::Spin => std::hint::spin_loop(),
                _ => std::thread::yield_now(),
            },
            Ok(_) => {
                let (datagrams, mut replies) = port.split();
                for datagram in datagrams {
                    replies.open(ReplyTo::Datagram(datagram.number));
                    let bytes = datagram.bytes.len().min(replies.slot().len());
                    replies.slot()[..bytes].copy_from_slice(&datagram.bytes[..bytes]);
                    replies.commit(bytes);
                }
                if let Err(error) = port.send() {
                    eprintln!("echo: {error}");
                    break;
                }
            }
            Err(error) => {
                eprintln!("echo: {error}");
                break;
            }
        }
    }
    let lost = port.queue_mut().lost();
    (port.counters(), lost, port.queue().unsent())
}

fn options() -> Result<(BypassOptions, Wait), String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut values = HashMap::new();
    for pair in words.chunks(2) {
        let [name, value] = pair else {
            return Err(format!("{} without a value", pair[0]));
        };
        values.insert(name.trim_start_matches("--").to_owned(), value.clone());
    }
    let mut take = |name: &str, default: &str| values.remove(name).unwrap_or(default.to_owned());
    let number = |text: String| text.parse().map_err(|_| format!("'{text}' is not a number"));
    let ports = take("ports", "11300-11300");
    let (first, last) = ports.split_once('-').unwrap_or((&ports, &ports));
    let number_16 = |text: &str| number(text.to_owned()).map(|number: u32| number as u16);
    let mut addresses = Vec::new();
    for text in take("port-ip", "").split(',').filter(|text| !text.is_empty()) {
        let (address, prefix) = text.split_once('/').ok_or("--port-ip ADDRESS/PREFIX")?;
        let address = address.parse().map_err(|_| format!("'{text}': no address"))?;
        addresses.push((address, number(prefix.to_owned())? as u8));
    }
    let wait = match take("wait", "yield").as_str() {
        "spin" => Wait::Spin,
        "block" => Wait::Block,
        _ => Wait::Yield,
    };
    let options = BypassOptions {
        name: take("port", "xdp:eth0").parse()?,
        addresses,
        gateway: None,
        ports: number_16(first)?..=number_16(last)?,
        queues: number(take("queues", "1"))? as usize,
        payload_bytes_max: 1452,
        busy_poll_us: number(take("busy-poll", "0"))?,
        dpdk_arguments: take("dpdk-args", "").split_whitespace().map(str::to_owned).collect(),
    };
    match values.keys().next() {
        None => Ok((options, wait)),
        Some(unknown) => Err(format!("--{unknown} is unknown")),
    }
}
