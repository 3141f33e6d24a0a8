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
            let said = String::from_utf8_lossy(&output.stderr);
            let said = if said.trim().is_empty() { "nothing was answered" } else { said.trim_end() };
            return Err(failed(&said));
        }
        serde_json::from_slice(&output.stdout).map_err(|error| failed(&error))
    }

    /// Loads it several times; returns the least cost and its report. A run in which nothing was answered, on
    /// a busy machine, does not count if another one was better.
    fn best(&self, words: &[&str], cost: impl Fn(&Value) -> f64) -> Result<(f64, Value), String> {
        let mut best = Err("the measured server answered nothing".to_owned());
        for _ in 0..RUNS {
            match (self.load(words), &best) {
                (Ok(report), Ok((least, _))) if cost(&report) >= *least => {}
                (Ok(report), _) => best = Ok((cost(&report), report)),
                (Err(reason), Err(_)) => best = Err(reason),
                (Err(_), Ok(_)) => {}
            }
        }
        best.and_then(|(least, report)| match least.is_finite() && least > 0.0 {
            true => Ok((least, report)),
            false => Err("the measured server answered nothing".to_owned()),
        })
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
    server.load(&["--fill"])?;
    let mut ns = [0.0; 2];
    for (at, batch) in batches.into_iter().enumerate() {
        let batch = batch.to_string();
        ns[at] = server.best(&busy(port, &batch), |report| 1e9 / number(report, "/throughput_ops"))?.0;
    }
    let [few, many] = batches.map(f64::from);
    let datagram_ns = ((ns[0] - ns[1]) / (1.0 / few - 1.0 / many)).max(0.0);
    let request_ns = (ns[1] - datagram_ns / many).max(1.0);
    let (rate, batch) = (format!("{:.0}", 0.25e9 / ns[0]), batches[0].to_string());
    let mut words = vec!["--rate", &rate, "--batch", &batch];
    if port == Port::Stream {
        words.extend(["--connections", CONNECTIONS]);
    }
    let (_, report) = server.best(&words, |report| number(report, "/latency_us/p95"))?;
    Ok(Measured { request_ns, datagram_ns, round_trip_us: round_trips(&report["latency_us"]) })
}

/// Returns a number of a report; what is missing is the worst.
fn number(report: &Value, pointer: &str) -> f64 {
    report.pointer(pointer).and_then(Value::as_f64).unwrap_or(f64::INFINITY)
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
