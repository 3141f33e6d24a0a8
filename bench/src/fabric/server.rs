//! Our server with a fabric, in a network of its own.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use micanite_fabric::FabricAddress;

use crate::Result;
use crate::generator::frames::Way;
use crate::harness::namespace::{self, SERVER_PORT, TCP_PORT};
use crate::harness::process::Process;
use crate::harness::servers::version_at;

const FABRIC_PORT: u16 = 11_400;
const PATIENCE: Duration = Duration::from_secs(30);
/// The paper's server has so many MB for data.
const MEMORY_MB: &str = "4096";

/// The number of a new cable, and its ends. The network of a server that has ended may still be there.
pub(super) fn next_number() -> (u8, Way) {
    static NEXT: AtomicU8 = AtomicU8::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed) % 250 + 1;
    (number, namespace::way(number))
}

/// Address of a server at the end of a cable.
pub(super) fn place(provider: &str, way: &Way) -> FabricAddress {
    let text = format!("{provider},{}:{FABRIC_PORT}", way.server.1.ip());
    text.parse().unwrap_or_else(|error| unreachable!("{text}: {error}"))
}

pub(super) struct Server {
    provider: String,
    way: Way,
    process: Process,
}

impl Server {
    /// Starts it with a cache area of so many bytes.
    pub fn start(binary: &Path, provider: &str, area_bytes: u64) -> Result<Self> {
        let (number, way) = next_number();
        let (own, address) = (way.server.1.ip().to_string(), place(provider, &way).to_string());
        let (tcp, native, area) = (TCP_PORT.to_string(), SERVER_PORT.to_string(), area_bytes.to_string());
        let serve = ["serve", "-t", "1", "-m", MEMORY_MB, "--control-socket", "none", "-l", &own, "-p", &tcp];
        let fabric = ["--native", &native, "--fabric", &address, "--fabric-cache", &area];
        let mut command = vec![OsString::from(binary)];
        command.extend(serve.iter().chain(&fabric).map(OsString::from));
        let mut process = namespace::start_inside((number, "fabric"), (), &command, false)?;
        let at = (way.server.1.ip(), TCP_PORT).into();
        process.wait_until(PATIENCE, || version_at(at))?;
        Ok(Self { provider: provider.to_owned(), way, process })
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Target for `micanite load` over the fabric.
    pub fn fabric(&self) -> String {
        format!("fabric://{}:{FABRIC_PORT}?provider={}", self.way.server.1.ip(), self.provider)
    }

    /// Target over the native protocol's UDP.
    pub fn native(&self) -> String {
        format!("native://{}", self.way.server.1)
    }

    /// Target over memcached's protocol and TCP.
    pub fn tcp(&self) -> String {
        format!("memcached://{}", self.tcp_address())
    }

    fn tcp_address(&self) -> SocketAddr {
        (self.way.server.1.ip(), TCP_PORT).into()
    }

    /// The numbers of `stats fabric`.
    pub fn stats(&self) -> Result<BTreeMap<String, f64>> {
        let mut stream = TcpStream::connect(self.tcp_address())?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"stats fabric\r\n")?;
        let mut stats = BTreeMap::new();
        for line in BufReader::new(stream).lines() {
            let line = line?;
            let mut words = line.split(' ');
            match (words.next(), words.next(), words.next()) {
                (Some("STAT"), Some(name), Some(value)) => {
                    if let Ok(value) = value.trim_end().parse() {
                        stats.insert(name.to_owned(), value);
                    }
                }
                (Some("END"), ..) => return Ok(stats),
                _ => return Err(format!("stats fabric: {line}").into()),
            }
        }
        Err("stats fabric: the connection has ended".into())
    }

    /// CPU time of the workers and of all other threads so far, in nanoseconds.
    pub fn cpu_ns(&self) -> Result<[u64; 2]> {
        let mut sums = [0; 2];
        for task in std::fs::read_dir(format!("/proc/{}/task", self.pid()))? {
            let folder = task?.path();
            let name = std::fs::read_to_string(folder.join("comm"))?;
            let stat = std::fs::read_to_string(folder.join("schedstat"))?;
            let used_ns: u64 = stat.split(' ').next().unwrap_or("0").parse()?;
            sums[usize::from(!name.starts_with("worker"))] += used_ns;
        }
        Ok(sums)
    }
}
