//! Measures what requests cost on this machine, in under a minute.
//!
//! | file | what it measures |
//! |---|---|
//! | `memory.rs` | latency and bandwidth of memory |
//! | `stages.rs` | parts of a request, alone: receive, parse, index, item, reply |
//! | `ports.rs` | servers of this program under `micanite load` |

mod memory;
mod ports;
mod stages;

use std::collections::BTreeMap;

use micanite_control::stderr;

use crate::machine::{Machine, Packet, PortCost, this};
use ports::Port;

/// Requests per datagram and per pipeline, that costs are computed from.
const NATIVE_BATCHES: [u32; 2] = [2, 32];
const STREAM_BATCHES: [u32; 2] = [8, 64];

/// Packets of memcached's text protocol over TCP: Ethernet, IPv4 and TCP with time stamps (14 + 20 + 32), the
/// words around a key, and those around a value, with a key of eight bytes.
const TEXT: Packet =
    Packet { datagram_bytes: 66.0, request_bytes: 6.0, reply_bytes: 29.0, framing_bytes: 24.0 };

/// Measures, and returns this machine with what was found.
///
/// # Errors
/// When a server cannot be started or loaded: a sentence.
pub fn calibrate(is_quiet: bool) -> Result<Machine, String> {
    let say = |what: &str| {
        if !is_quiet {
            stderr::say(format_args!("micanite plan: measuring {what}"));
        }
    };
    let busy = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let busy: f64 = busy.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0.0);
    let mut machine = this::described()?;
    if busy > f64::from(machine.cores_in_all()) / 2.0 {
        stderr::say(format_args!(
            "micanite plan: {busy:.1} processes run beside this one: costs come out too high, calibrate \
             again on an idle machine"
        ));
    }
    say("memory");
    let memory = memory::measure();
    machine.memory_gb_s = memory.gb_s / f64::from(machine.sockets);
    let cycles = |ns: f64| ns * machine.clock_ghz;
    say("stages of a request");
    let stages = stages::measure()?;
    // Further cost of a request for an item outside of the caches, in a batch. Even of many items some are
    // inside.
    let further_ns = (stages.engine_cold_ns - stages.engine_hot_ns).max(0.0);
    machine.cost.stall_cycles = cycles(further_ns / stages::missed_share(machine.cache_bytes()));
    say("the native port");
    let native = ports::measure(Port::Native, NATIVE_BATCHES)?;
    say("the stream port");
    let stream = ports::measure(Port::Stream, STREAM_BATCHES)?;
    let stall_cycles = machine.cost.stall_cycles;
    // Ports are measured with items in the caches.
    let cost = |port: &ports::Measured, packet| PortCost {
        request_cycles: cycles(port.request_ns) + stall_cycles,
        datagram_cycles: cycles(port.datagram_ns),
        round_trip_us: port.trips[0].round_trip_us.clone(),
        loaded: port.trips.clone(),
        packet,
    };
    let native_cost = cost(&native, None);
    let engine = PortCost {
        request_cycles: cycles(stages.engine_hot_ns) + stall_cycles,
        datagram_cycles: 0.0,
        round_trip_us: vec![0.0],
        loaded: Vec::new(),
        packet: Some(Packet::NONE),
    };
    machine.other_ports =
        BTreeMap::from([("stream".to_owned(), cost(&stream, Some(TEXT))), ("engine".to_owned(), engine)]);
    machine.cost.request_cycles = native_cost.request_cycles;
    machine.cost.datagram_cycles = native_cost.datagram_cycles;
    machine.latency.round_trip_us = native_cost.round_trip_us;
    machine.latency.loaded = native_cost.loaded;
    machine.latency.pause_us = 0.0;
    machine.stages_ns = stages.named();
    machine.stages_ns.insert("memory latency".to_owned(), memory.latency_ns);
    machine.stages_ns.insert("native, a request".to_owned(), native.request_ns);
    machine.stages_ns.insert("native, a datagram".to_owned(), native.datagram_ns);
    machine.stages_ns.insert("stream, a request".to_owned(), stream.request_ns);
    machine.stages_ns.insert("stream, a turn".to_owned(), stream.datagram_ns);
    for (field, source) in [
        ("memory_gb_s", "a copy of memory, counted in both directions, by all cores"),
        ("stall_cycles", "the engine with items in and out of the caches"),
        ("request_cycles", "micanite load, native port, 2 and 32 requests per datagram"),
        ("datagram_cycles", "micanite load, native port, 2 and 32 requests per datagram"),
        ("round_trip_us", "micanite load, native port, a tenth, a quarter and half of the throughput"),
    ] {
        machine.origin.insert(field.to_owned(), format!("measured: {source}"));
    }
    let inside = "measured: housekeeping is in the round trips";
    machine.origin.insert("pause_us".to_owned(), inside.to_owned());
    machine.check()?;
    Ok(machine)
}
