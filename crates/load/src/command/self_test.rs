//! Measures the generator itself: the same loops and connections, and a thread that answers at
//! once.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;

use crate::plan::Plan;
use crate::run::run;

/// Length of each measurement.
const DURATION: Duration = Duration::from_millis(800);
const WARMUP: Duration = Duration::from_millis(200);
/// Requests in flight if the person did not ask for more: one would measure the waiting.
const PIPELINE: usize = 64;

/// The rate of one core.
#[derive(Clone, Debug, Serialize)]
pub struct Ability {
    /// Protocol, and requests in flight.
    pub what: String,
    /// Operations per second of a core that does nothing else.
    pub ops_per_core_second: f64,
}

/// Measures over TCP and over UDP. Every GET of `plan` is answered by a miss: what checking values
/// costs comes on top, a few nanoseconds for short ones.
///
/// # Errors
/// When no socket can be had on the loopback interface.
pub fn self_test(plan: &Plan) -> Result<Vec<Ability>, String> {
    let mut abilities = Vec::new();
    let mut pipelines = vec![plan.pipeline.max(plan.batch)];
    if pipelines[0] < PIPELINE {
        pipelines.push(PIPELINE);
    }
    for pipeline in pipelines {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(describe)?;
        let address = listener.local_addr().map_err(describe)?;
        let rate = with_answers(
            |end| answer_streams(&listener, end),
            || measure(plan, &format!("memcached://{address}"), pipeline),
        )?;
        abilities.push(Ability {
            what: format!("memcached over TCP, {pipeline} in flight"),
            ops_per_core_second: rate,
        });
        if plan.batch == 1 {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(describe)?;
            let address = socket.local_addr().map_err(describe)?;
            let rate = with_answers(
                |end| answer_datagrams(&socket, end),
                || measure(plan, &format!("memcached+udp://{address}"), pipeline),
            )?;
            abilities.push(Ability {
                what: format!("memcached over UDP, {pipeline} in flight"),
                ops_per_core_second: rate,
            });
        }
    }
    Ok(abilities)
}

fn describe(error: std::io::Error) -> String {
    format!("no socket on the loopback interface: {error}")
}

/// Measures while a thread answers.
fn with_answers(
    answer: impl FnOnce(&AtomicBool) + Send,
    measure: impl FnOnce() -> Result<f64, String>,
) -> Result<f64, String> {
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| answer(&end));
        let measured = measure();
        end.store(true, Ordering::Relaxed);
        measured
    })
}

fn measure(plan: &Plan, target: &str, pipeline: usize) -> Result<f64, String> {
    let plan = Plan {
        targets: vec![target.parse()?],
        rate_ops: None,
        rate_profile: None,
        connections: 1,
        threads: 1,
        pipeline,
        get_percent: 100.0,
        mix_percent: plan.operations().map(|_| [1.0, 0.0, 0.0]),
        demand_fill: false,
        tcp_writes: false,
        warmup: WARMUP,
        duration: DURATION,
        fill: false,
        own_fill: false,
        read_all: false,
        operations_max: None,
        server_pid: None,
        ..plan.clone()
    };
    let report = run(&plan)?;
    report.generator.ops_per_core_second.ok_or_else(|| "nothing was answered".to_owned())
}

/// Answers every line by a miss, one connection after the other.
fn answer_streams(listener: &TcpListener, end: &AtomicBool) {
    if listener.set_nonblocking(true).is_err() {
        return;
    }
    while !end.load(Ordering::Relaxed) {
        match listener.accept() {
            // It ends when the generator leaves.
            Ok((stream, _)) => drop(answer_stream(stream, end)),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

fn answer_stream(mut stream: TcpStream, end: &AtomicBool) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    let mut input = vec![0; 1 << 16];
    let mut output = Vec::new();
    while !end.load(Ordering::Relaxed) {
        let received = stream.read(&mut input)?;
        if received == 0 {
            break;
        }
        output.clear();
        for _ in memchr::memchr_iter(b'\n', &input[..received]) {
            output.extend_from_slice(b"END\r\n");
        }
        stream.write_all(&output)?;
    }
    Ok(())
}

/// Answers every datagram by a miss.
fn answer_datagrams(socket: &UdpSocket, end: &AtomicBool) {
    let mut datagram = [0; 2048];
    let _ = socket.set_read_timeout(Some(Duration::from_millis(50)));
    while !end.load(Ordering::Relaxed) {
        let Ok((received, from)) = socket.recv_from(&mut datagram) else {
            continue;
        };
        if received >= 8 {
            answer_datagram(socket, &mut datagram, from);
        }
    }
}

fn answer_datagram(socket: &UdpSocket, datagram: &mut [u8], to: SocketAddr) {
    datagram[8..13].copy_from_slice(b"END\r\n");
    // A reply that is lost costs a timeout, no more.
    let _ = socket.send_to(&datagram[..13], to);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn self_test_measures_every_protocol() {
        // A machine may stand still for as long as one of its four parts takes.
        let measures = || {
            let abilities = self_test(&Plan::new(Vec::new()));
            let is_some = |ability: &Ability| ability.ops_per_core_second > 0.0;
            abilities.is_ok_and(|all| all.len() == 4 && all.iter().all(is_some))
        };
        assert!((0..5).any(|_| measures()));
    }
}
