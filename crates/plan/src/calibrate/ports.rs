//! Whole ports: a server of this program, loaded by `micanite load`.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use micanite_control::cores;
use serde_json::Value;

use crate::machine::LoadedTrips;
use crate::simulate::{Arrivals, Core, Service};

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
    /// Equally likely round trips for each batch at [`LOADS`], less the time that the simulation of the
    /// server's core explains.
    pub trips: Vec<LoadedTrips>,
}

/// Items that the caches hold.
const ITEMS: &str = "16384";
/// Length of a run; the median of several counts.
const LENGTH: &str = "300ms";
const RUNS: usize = 5;
/// Shares of the throughput at which round trips are measured.
const LOADS: [f64; 3] = [0.1, 0.25, 0.5];
/// As in the reference machine.
const RECEIVE_MAX: usize = 32;
const PATIENCE: Duration = Duration::from_secs(20);
/// Round trips that stand for the distribution.
const ROUND_TRIPS: usize = 200;
/// Requests of a simulation.
const SIMULATED: u64 = 1_000_000;
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
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    /// Fills it and loads it; returns the report.
    fn load(&self, words: &[&str]) -> Result<Value, String> {
        let failed = |error: &dyn std::fmt::Display| format!("cannot load a server: {error}");
        let program = std::env::current_exe().map_err(|error| failed(&error))?;
        // The server's worker keeps to the first CPU.
        let cpu = cores::by_core().last().map_or(0, |core| core[0]);
        let mut command = Command::new(program);
        command.args(["load", &self.url, "--quiet", "--json", "-", "--items", ITEMS, "--duration", LENGTH]);
        command.args(["--warmup", "100ms", "--fill", "--cpu", &cpu.to_string()]).args(words);
        let output = command.output().map_err(|error| failed(&error))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = if said.trim().is_empty() { "nothing was answered" } else { said.trim_end() };
            return Err(failed(&said));
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

/// Measures a port at two batches, and its round trips with them.
pub fn measure(port: Port, batches: [u32; 2]) -> Result<Measured, String> {
    let (mut ns, mut trips) = ([0.0; 2], Vec::new());
    for (at, batch) in batches.into_iter().enumerate() {
        let words = batch.to_string();
        ns[at] = median(port, &busy(port, &words), |report| 1e9 / number(report, "/throughput_ops"))?.0;
        for load in LOADS {
            let rate = format!("{:.0}", load * 1e9 / ns[at]);
            let mut words = vec!["--rate", &rate, "--batch", &words, "--arrivals", "batches"];
            if port == Port::Stream {
                words.extend(["--connections", CONNECTIONS]);
            }
            let (_, report) = median(port, &words, |report| number(report, "/latency_us/p95"))?;
            trips.push(LoadedTrips { batch, load, round_trip_us: round_trips(&report["latency_us"]) });
        }
    }
    let [few, many] = batches.map(f64::from);
    let datagram_ns = ((ns[0] - ns[1]) / (1.0 / few - 1.0 / many)).max(0.0);
    let request_ns = (ns[1] - datagram_ns / many).max(1.0);
    for trips in &mut trips {
        let service_ns = datagram_ns + request_ns * f64::from(trips.batch);
        take_queue(trips, service_ns * 1e-9);
    }
    Ok(Measured { request_ns, datagram_ns, trips })
}

/// Loads servers; returns the run with the median cost. Each run has a server of its own, because some serve
/// a stream a quarter faster than others. A run in which nothing was answered, on a busy machine, does not
/// count if another one was better.
fn median(port: Port, words: &[&str], cost: impl Fn(&Value) -> f64) -> Result<(f64, Value), String> {
    let (mut runs, mut failure) = (Vec::new(), "the measured server answered nothing".to_owned());
    for _ in 0..RUNS {
        match Server::start(port)?.load(words) {
            Ok(report) if cost(&report).is_finite() && cost(&report) > 0.0 => {
                runs.push((cost(&report), report));
            }
            Ok(_) => {}
            Err(reason) => failure = reason,
        }
    }
    runs.sort_by(|one, other| one.0.total_cmp(&other.0));
    let middle = runs.len() / 2;
    if runs.is_empty() { Err(failure) } else { Ok(runs.swap_remove(middle)) }
}

/// Returns a number of a report; what is missing is the worst.
fn number(report: &Value, pointer: &str) -> f64 {
    report.pointer(pointer).and_then(Value::as_f64).unwrap_or(f64::INFINITY)
}

/// Takes the time in the queue and in the service from round trips: the plan simulates it for each load.
fn take_queue(trips: &mut LoadedTrips, service_s: f64) {
    let core = Core {
        rate: trips.load / service_s,
        batch: trips.batch,
        service: Service::Fixed(service_s),
        receive_max: RECEIVE_MAX,
        arrivals: Arrivals::Poisson,
        pause: None,
    };
    let times = core.simulate(SIMULATED, 1, &mut |_| ()).times;
    let mut least_us = 0.0;
    for (number, us) in trips.round_trip_us.iter_mut().enumerate() {
        let queue_us = times.quantile((number as f64 + 0.5) / ROUND_TRIPS as f64) * 1e6;
        // A tenth of a microsecond is more precise than the measurement.
        least_us = ((*us - queue_us).max(least_us) * 10.0).round() / 10.0;
        *us = least_us;
    }
}

/// Returns equally likely times from percentiles, by straight lines between their logarithms.
fn round_trips(latency: &Value) -> Vec<f64> {
    let of = |name: &str| latency[name].as_f64().unwrap_or(0.0).max(0.1);
    let known = [(0.0, of("min")), (0.5, of("p50")), (0.95, of("p95")), (0.99, of("p99")), (1.0, of("p999"))];
    let at = |part: f64| {
        let after = known.iter().position(|(known, _)| *known >= part).unwrap_or(known.len() - 1).max(1);
        let ((part0, us0), (part1, us1)) = (known[after - 1], known[after]);
        us0 * (us1 / us0).powf((part - part0) / (part1 - part0))
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
        assert!((times[100] - 20.0).abs() < 0.2 && (times[190] - 40.0).abs() < 2.0, "{times:?}");
    }

    /// What the simulation of the core explains is taken away, and nothing more.
    #[test]
    fn the_queue_is_taken_from_round_trips() {
        let mut trips = LoadedTrips { batch: 2, load: 0.5, round_trip_us: vec![50.0; ROUND_TRIPS] };
        take_queue(&mut trips, 10e-6);
        let times = &trips.round_trip_us;
        assert!(times.is_sorted() && times[0] >= 0.0, "{times:?}");
        assert!(times[ROUND_TRIPS - 1] <= 40.1, "a service takes ten microseconds: {times:?}");
    }
}
