//! Ports that a test names itself, as `tests/harness/network/claims.py` finds them: they stay this process's,
//! and the kernel gives them to nobody.

use std::hash::{BuildHasher, RandomState};
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::Mutex;

const LEAST_PORT: u16 = 10_000;

/// Abstract sockets whose names stand for ports. The kernel frees the names when the process ends.
static CLAIMS: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());

/// Returns the ports that nobody gets who leaves the choice to the kernel; all, if it chooses from all.
fn unassigned() -> Vec<u16> {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
    let ends: Vec<u16> = range.split_whitespace().map(|end| end.parse().unwrap()).collect();
    let all = LEAST_PORT..=u16::MAX;
    let found: Vec<_> = all.clone().filter(|port| !(ends[0]..=ends[1]).contains(port)).collect();
    if found.is_empty() { all.collect() } else { found }
}

/// Claims a port, unless another test has it or somebody uses it.
fn claim(port: u16) -> Option<UnixListener> {
    let name = SocketAddr::from_abstract_name(format!("micanite-test-port-{port}")).unwrap();
    let claimed = UnixListener::bind_addr(&name).ok()?;
    let is_free = TcpListener::bind(("0.0.0.0", port)).is_ok() && UdpSocket::bind(("0.0.0.0", port)).is_ok();
    is_free.then_some(claimed)
}

/// Returns the first of this many consecutive ports that no other test gets until this process ends.
pub fn free_ports(count: u16) -> u16 {
    let ports = unassigned();
    loop {
        let first = ports[RandomState::new().hash_one(0) as usize % ports.len()];
        let claimed = (0..count).map(|number| claim(first.checked_add(number)?));
        if let Some(claimed) = claimed.collect::<Option<Vec<_>>>() {
            CLAIMS.lock().unwrap().extend(claimed);
            return first;
        }
    }
}
