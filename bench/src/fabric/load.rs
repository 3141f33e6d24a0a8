//! A run of `micanite load`.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::Options;
use super::server::Server;
use crate::Result;

/// Ways of reading, and the other protocols of the same server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    InnerCache,
    OneSided,
    TwoSided,
    /// The native protocol over UDP.
    Native,
    /// memcached's protocol over TCP.
    Tcp,
}

impl Way {
    /// Ways over the fabric.
    pub const READS: [Self; 3] = [Self::InnerCache, Self::OneSided, Self::TwoSided];

    pub const fn name(self) -> &'static str {
        match self {
            Self::InnerCache => "innercache",
            Self::OneSided => "one-sided",
            Self::TwoSided => "two-sided",
            Self::Native => "native UDP",
            Self::Tcp => "memcached TCP",
        }
    }

    fn target(self, server: &Server) -> String {
        match self {
            Self::Native => server.native(),
            Self::Tcp => server.tcp(),
            _ => server.fabric(),
        }
    }

    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::InnerCache => &["--reads", "innercache"],
            Self::OneSided => &["--reads", "one-sided"],
            Self::TwoSided => &["--reads", "two-sided"],
            Self::Native | Self::Tcp => &[],
        }
    }
}

/// Latencies in microseconds; NaN of none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Latency {
    pub mean: f64,
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    pub get: Latency,
    pub set: Latency,
    /// GETs that were read one-sided, and the median of these.
    pub one_sided: f64,
    pub one_sided_p50: f64,
    pub hits: f64,
    pub gets: f64,
    pub push_bytes: f64,
}

/// Loads a server with these options.
pub(super) fn run(options: &Options, server: &Server, way: Way, flags: &[String]) -> Result<Figures> {
    let output = Command::new(&options.binaries.server)
        .args(["load", &way.target(server), "--quiet", "--json", "-", "--warmup", "0s", "--timeout", "20s"])
        .args(way.flags())
        .args(flags)
        .stdin(Stdio::null())
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("load of {}: {}", way.name(), said.trim_end()).into());
    }
    let report = serde_json::from_slice(&output.stdout)?;
    figures(&report).map_err(|reason| format!("load of {}: {reason}", way.name()).into())
}

/// Reads the report of `micanite load`; refuses one of a run that lost something.
fn figures(report: &Value) -> std::result::Result<Figures, String> {
    let number = |pointer: &str| report.pointer(pointer).and_then(Value::as_f64).unwrap_or(f64::NAN);
    for (pointer, what) in [("/lost", "lost"), ("/refused", "refused"), ("/wrong_values", "wrong")] {
        if number(pointer) > 0.0 {
            let refusal = report.pointer("/refusal").unwrap_or(&Value::Null);
            return Err(format!("{} of the requests: {what} {refusal}", number(pointer)));
        }
    }
    let latency = |kind: &str| {
        let of = |name: &str| number(&format!("/{kind}_latency_us/{name}"));
        Latency { mean: of("mean"), p50: of("p50"), p95: of("p95"), p99: of("p99") }
    };
    Ok(Figures {
        get: latency("get"),
        set: latency("set"),
        one_sided: number("/fabric/one_sided_ratio"),
        one_sided_p50: number("/fabric/one_sided_latency_us/p50"),
        hits: number("/hit_ratio"),
        gets: number("/read_operations"),
        push_bytes: number("/fabric/push_bytes"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_and_losses_are_refused() {
        let mut report = serde_json::json!({
            "lost": 0, "refused": 0, "wrong_values": 0, "hit_ratio": 1.0,
            "read_operations": 9, "get_latency_us": {"mean": 3.0, "p50": 2.0, "p95": 4.0, "p99": 5.0},
            "set_latency_us": null, "fabric": {"one_sided_ratio": 0.5, "push_bytes": 64},
        });
        let read = figures(&report).unwrap();
        assert_eq!((read.get.mean, read.get.p99, read.one_sided, read.push_bytes), (3.0, 5.0, 0.5, 64.0));
        assert!(read.set.mean.is_nan() && read.one_sided_p50.is_nan());
        report["lost"] = 1.into();
        assert!(figures(&report).unwrap_err().contains("lost"));
    }
}
