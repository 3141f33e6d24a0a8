//! Whole ports: a server of this program, loaded by `micanite load`.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A port of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// Datagrams of the native protocol.
    Native,
    /// memcached's text protocol over TCP.
    Stream,
}

/// Costs of a port with items in the caches, on one core of the server.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Nanoseconds of a request.
    pub request_ns: f64,
    /// Nanoseconds of a datagram, or of a turn of a stream.
    pub datagram_ns: f64,
    /// Equally likely round trips at a quarter of the throughput.
    pub round_trip_us: Vec<f64>,
}

/// Items that the caches hold.
const ITEMS: &str = "16384";
/// Length of a run; the best of several counts, because other programs only slow it down.
const LENGTH: &str = "700ms";
const RUNS: usize = 3;
const PATIENCE: Duration = Duration::from_secs(20);
/// Round trips that stand for the distribution.
const ROUND_TRIPS: usize = 100;
/// Connections of a stream load: enough that the server always has something to do.
const CONNECTIONS: &str = "8";

/// Ends with this value.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(port: Port) -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| format!("cannot start a server to measure: {error}");
        let program = std::env::current_exe().map_err(|error| failed(&error))?;
        let local = (Ipv4Addr::LOCALHOST, 0);
        let tcp = TcpListener::bind(local).and_then(|listener| listener.local_addr());
        let tcp = tcp.map_err(|error| failed(&error))?;
        let udp = UdpSocket::bind(local).and_then(|socket| socket.local_addr());
        let udp = udp.map_err(|error| failed(&error))?.port();
        let mut command = Command::new(program);
        command.args(["serve", "-t", "1", "-m", "256", "-l", "127.0.0.1", "--control-socket", "none"]);
        command.args(["-p", &tcp.port().to_string(), "--native", &udp.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|error| failed(&error))?;
        let url = match port {
            Port::Native => format!("native://127.0.0.1:{udp}"),
            Port::Stream => format!("memcached://{tcp}"),
        };
        let server = Self { child, url };
        let end = Instant::now() + PATIENCE;
        while std::net::TcpStream::connect(tcp).is_err() {
            if Instant::now() > end {
                return Err(failed(&"it does not listen"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// Loads it; returns the report.
    fn load(&self, words: &[&str]) -> Result<Value, String> {
        let failed = |error: &dyn std::fmt::Display| format!("cannot load a server: {error}");
        let program = std::env::current_exe().map_err(|error| failed(&error))?;
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let mut command = Command::new(program);
        command.args(["load", &self.url, "--quiet", "--json", "-", "--items", ITEMS, "--duration", LENGTH]);
        command.args(["--warmup", "200ms", "--cpu", &(cpus - 1).to_string()]).args(words);
        let output = command.output().map_err(|error| failed(&error))?;
        if !output.status.success() {
            return Err(failed(&String::from_utf8_lossy(&output.stderr).trim_end()));
        }
        serde_json::from_slice(&output.stdout).map_err(|error| failed(&error))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that has ended already is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the words of a load that keeps the server busy.
fn busy(port: Port, batch: &str) -> Vec<&str> {
    match port {
        Port::Native => vec!["--batch", batch, "--pipeline", "1024"],
        Port::Stream => vec!["--batch", batch, "--pipeline", batch, "--connections", CONNECTIONS],
    }
}

/// Measures a port at two batches, and its round trips.
pub fn measure(port: Port, batches: [u32; 2]) -> Result<Measured, String> {
    let server = Server::start(port)?;
    let mut ns = [0.0; 2];
    for (at, batch) in batches.into_iter().enumerate() {
        let batch = batch.to_string();
        let mut words = busy(port, &batch);
        if at == 0 {
            words.push("--fill");
        }
        let mut throughput = 0.0f64;
        for run in 0..RUNS {
            if run == 1 {
                words.retain(|word| *word != "--fill");
            }
            throughput = throughput.max(server.load(&words)?["throughput_ops"].as_f64().unwrap_or(0.0));
        }
        if throughput <= 0.0 {
            return Err("the measured server answered nothing".to_owned());
        }
        ns[at] = 1e9 / throughput;
    }
    let [few, many] = batches.map(f64::from);
    let datagram_ns = ((ns[0] - ns[1]) / (1.0 / few - 1.0 / many)).max(0.0);
    let request_ns = (ns[1] - datagram_ns / many).max(1.0);
    let rate = format!("{:.0}", 0.25e9 / ns[0]);
    let batch = batches[0].to_string();
    let mut words = vec!["--rate", &rate, "--batch", &batch];
    if port == Port::Stream {
        words.extend(["--connections", CONNECTIONS]);
    }
    let mut best = server.load(&words)?;
    let p95 = |report: &Value| report["latency_us"]["p95"].as_f64().unwrap_or(f64::INFINITY);
    for _ in 1..RUNS {
        let report = server.load(&words)?;
        best = if p95(&report) < p95(&best) { report } else { best };
    }
    let round_trip_us = round_trips(&best["latency_us"]);
    Ok(Measured { request_ns, datagram_ns, round_trip_us })
}

/// Returns equally likely times from percentiles, by straight lines between them.
fn round_trips(latency: &Value) -> Vec<f64> {
    let of = |name: &str| latency[name].as_f64().unwrap_or(0.0);
    let known = [(0.0, of("min")), (0.5, of("p50")), (0.95, of("p95")), (0.99, of("p99")), (1.0, of("p999"))];
    let at = |part: f64| {
        let after = known.iter().position(|(known, _)| *known >= part).unwrap_or(known.len() - 1).max(1);
        let ((part0, us0), (part1, us1)) = (known[after - 1], known[after]);
        us0 + (us1 - us0) * (part - part0) / (part1 - part0)
    };
    (0..ROUND_TRIPS).map(|number| at((number as f64 + 0.5) / ROUND_TRIPS as f64)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Round trips rise, and have the percentiles that they come from.
    #[test]
    fn round_trips_have_their_percentiles() {
        let latency = serde_json::json!({"min": 10.0, "p50": 20.0, "p95": 40.0, "p99": 80.0, "p999": 200.0});
        let times = round_trips(&latency);
        assert!(times.is_sorted() && times.len() == ROUND_TRIPS);
        assert!((times[50] - 20.0).abs() < 1.0 && (times[95] - 40.0).abs() < 6.0);
    }
}
