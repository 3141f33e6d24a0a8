//! The recipe for several interfaces: how the server is started, so that each worker is at one of them only.

use std::net::IpAddr;

use super::options::{NicOptions, Worker};
use super::print::say;
use super::share::Shares;

/// An interface with its addresses and the lengths of their prefixes.
pub type Addressed<'a> = (&'a str, Vec<(IpAddr, u8)>);

/// Number of the first routing table that is proposed.
const TABLE_FIRST: usize = 101;

/// Prints the recipe, unless a server runs that has divided its workers like this.
pub fn print(options: &NicOptions, workers: &[Worker], shares: &Shares, is_running: bool) {
    for line in lines(options, workers, shares, is_running) {
        say(&format!("# {line}"));
    }
}

fn lines(options: &NicOptions, workers: &[Worker], shares: &Shares, is_running: bool) -> Vec<String> {
    let names: Vec<&str> = shares.order.iter().map(|at| options.interfaces[*at].as_str()).collect();
    let mut lines = vec!["".to_owned()];
    for at in &shares.order {
        let numbers: Vec<_> = shares.of[*at].iter().map(|worker| worker.number.to_string()).collect();
        lines.push(format!("workers {} at {}", numbers.join(" "), options.interfaces[*at]));
    }
    if is_running {
        lines.push("The server has divided them like this.".to_owned());
        return lines;
    }
    let (count, base) = (workers.len(), workers.first().map_or(0, |worker| worker.port));
    let is_in_a_row = workers.iter().enumerate().all(|(at, worker)| worker.port == base + at as u16);
    let base = if is_in_a_row { base.to_string() } else { "PORT".to_owned() };
    let start = format!("  micanite serve -t {count} --access erew --native {base}");
    let bypass: Vec<_> = names.iter().map(|name| format!("--bypass xdp:{name}")).collect();
    lines.push("Start the server like this, or it answers with every worker at every address:".to_owned());
    if !options.xdp {
        lines.push(format!("{start} --native-at {}", names.join(",")));
        lines.push("or around the kernel, with the plan of --xdp instead of this one:".to_owned());
    }
    lines.push(format!("{start} {}", bypass.join(" ")));
    lines.push(
        "Clients are given an address of any of them, and find the others in the directory.".to_owned(),
    );
    lines
}

/// Prints what two interfaces of one network need, so that replies leave by the one that was asked.
pub fn networks(interfaces: &[Addressed<'_>]) {
    for line in routing(interfaces) {
        say(&format!("# {line}"));
    }
}

fn routing(interfaces: &[Addressed<'_>]) -> Vec<String> {
    let mut lines = Vec::new();
    for (at, (name, own)) in interfaces.iter().enumerate() {
        for (ip, bits) in own {
            let IpAddr::V4(address) = ip else {
                continue;
            };
            let mask = u32::MAX.checked_shl(32 - u32::from(*bits)).unwrap_or(0);
            let is_inside = |other: &IpAddr| match other {
                IpAddr::V4(other) => (other.to_bits() ^ address.to_bits()) & mask == 0,
                IpAddr::V6(_) => false,
            };
            let before = interfaces[..at].iter();
            let Some((other, _)) =
                before.clone().find(|(_, theirs)| theirs.iter().any(|(ip, _)| is_inside(ip)))
            else {
                continue;
            };
            let network = std::net::Ipv4Addr::from_bits(address.to_bits() & mask);
            let table = TABLE_FIRST + at;
            lines.push(format!(
                "{other} and {name} are in one network: the kernel would send all replies through {other}:"
            ));
            lines.push(format!("  ip route add {network}/{bits} dev {name} src {ip} table {table}"));
            lines.push(format!("  ip rule add from {ip} table {table}"));
            lines.push(
                "  sysctl -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2".to_owned(),
            );
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addressed<'a>(name: &'a str, ips: &[(&str, u8)]) -> Addressed<'a> {
        (name, ips.iter().map(|(ip, bits)| (ip.parse().unwrap(), *bits)).collect())
    }

    #[test]
    fn interfaces_of_one_network_get_a_table_each() {
        let one = || addressed("eth0", &[("10.0.0.2", 24), ("fd00::2", 64)]);
        assert!(routing(&[one(), addressed("eth1", &[("10.0.1.2", 24)])]).is_empty());
        let lines = routing(&[one(), addressed("eth1", &[("10.0.0.3", 24)])]);
        assert_eq!(lines[1], "  ip route add 10.0.0.0/24 dev eth1 src 10.0.0.3 table 102");
        assert_eq!(lines[2], "  ip rule add from 10.0.0.3 table 102");
        assert!(routing(&[one(), addressed("eth1", &[("10.0.0.3", 32)])]).is_empty());
    }
}
