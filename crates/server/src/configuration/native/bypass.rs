//! `--bypass`: ports around the kernel's network stack, which answer the native protocol. They share the
//! workers in blocks: each worker has one queue of one port (TOCS'16, 5.2).

use std::net::IpAddr;
use std::ops::Range;

use micanite_net::bypass::PortName;

use crate::configuration::{Options, UsageError, Value};

/// The UDP port of the first worker, unless `--native` says another one.
pub(super) const NATIVE_PORT_DEFAULT: i64 = 11300;

/// Ports around the kernel's network stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BypassSettings {
    /// In the order of their workers.
    pub ports: Vec<PortSettings>,
    /// Next hop to addresses outside of the prefixes (DPDK).
    pub gateway: Option<IpAddr>,
    /// Time for which the kernel polls the NIC (AF_XDP); 0: it does not poll.
    pub busy_poll_us: u32,
    /// Further arguments of DPDK's environment.
    pub dpdk_arguments: Vec<String>,
    /// Memory of the frames; 0 until the ports are open.
    pub memory_bytes: usize,
}

/// A port around the kernel's network stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSettings {
    pub name: PortName,
    /// Addresses with the lengths of their prefixes; none: those of the interface.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Workers that have a queue of the port.
    pub workers: Range<usize>,
}

/// Checks them and what is said of them, if there are any.
pub(super) fn bypass(options: &Options, threads: usize) -> Result<Option<BypassSettings>, UsageError> {
    let names: Result<Vec<PortName>, _> = options.bypass.parts().map(str::parse).collect();
    let names = names.map_err(|what| options.bypass.wrong(what))?;
    let is_dpdk = |name: &PortName| matches!(name, PortName::Dpdk { .. });
    let (some_dpdk, all_dpdk) = (names.iter().any(is_dpdk), names.iter().all(is_dpdk));
    for (option, has_port, kind) in [
        (&options.bypass_ip, !names.is_empty(), "xdp: or dpdk:"),
        (&options.bypass_gateway, some_dpdk, "dpdk:"),
        (&options.bypass_busy_poll, !all_dpdk, "xdp:"),
        (&options.bypass_dpdk_args, some_dpdk, "dpdk:"),
    ] {
        if option.is_said() && !has_port {
            return Err(option.wrong(format!("there is no --bypass {kind}... that it is for")));
        }
    }
    if names.is_empty() {
        return Ok(None);
    }
    if let Some(name) = (1..names.len()).find(|at| names[..*at].contains(&names[*at])) {
        return Err(options.bypass.wrong(format!("{} is named twice", names[name])));
    }
    if names.len() > threads {
        let (ports, workers) = (names.len(), count(threads, "worker"));
        return Err(options.bypass.wrong(format!("{ports} ports for {workers} (-t): each needs one")));
    }
    let addresses = addresses(&options.bypass_ip, &names).map_err(|what| options.bypass_ip.wrong(what))?;
    let shares = shares(threads, names.len());
    let ports = names.into_iter().zip(addresses).zip(shares);
    let gateway = options.bypass_gateway.text().map(|text| {
        text.parse().map_err(|_| options.bypass_gateway.wrong(format!("'{text}' is no IP address")))
    });
    let arguments = options.bypass_dpdk_args.text().unwrap_or_default();
    Ok(Some(BypassSettings {
        ports: ports.map(|((name, addresses), workers)| PortSettings { name, addresses, workers }).collect(),
        gateway: gateway.transpose()?,
        busy_poll_us: options.bypass_busy_poll.number()? as u32,
        dpdk_arguments: arguments.split_whitespace().map(String::from).collect(),
        memory_bytes: 0,
    }))
}

/// The native port of the first worker, as given, over ports around the kernel.
pub(super) fn native_port(options: &Options) -> Result<i64, UsageError> {
    let option = &options.native;
    if !option.is_said() {
        return Ok(NATIVE_PORT_DEFAULT);
    }
    match option.port()? {
        0 => Err(option.wrong("0 turns off what --bypass is for: leave one of the two out")),
        -1 => Err(option.wrong(
            "with --bypass nobody knows which ports are free: \
             name that of the first worker (11300 if you say nothing)",
        )),
        port => Ok(port),
    }
}

/// Returns the addresses of each port: a word of `--bypass-ip` for each port, or all words for the only one.
fn addresses(option: &Value, names: &[PortName]) -> Result<Vec<Vec<(IpAddr, u8)>>, String> {
    let of = |word: &String| {
        let parts = word.split([',', ' ']).filter(|part| !part.is_empty());
        parts.map(address).collect::<Result<Vec<_>, _>>()
    };
    let mut lists = option.words().iter().map(of).collect::<Result<Vec<_>, _>>()?;
    if names.len() == 1 {
        lists = vec![lists.concat()];
    } else if lists.is_empty() {
        lists = vec![Vec::new(); names.len()];
    } else if lists.len() != names.len() {
        let (lists, ports) = (lists.len(), names.len());
        return Err(format!("it is given {lists} times for {ports} ports: once for each, in their order"));
    }
    for (name, list) in names.iter().zip(&lists) {
        if list.is_empty() && matches!(name, PortName::Dpdk { .. }) {
            return Err(format!("{name} has no addresses of its own: say which, such as 10.0.0.2/24"));
        }
    }
    Ok(lists)
}

fn address(text: &str) -> Result<(IpAddr, u8), String> {
    let form = || format!("'{text}' is no address with the length of its prefix, such as 10.0.0.2/24");
    let (ip, bits) = text.split_once('/').ok_or_else(form)?;
    let ip: IpAddr = ip.parse().map_err(|_| form())?;
    let bits: u8 = bits.parse().map_err(|_| form())?;
    let most = if ip.is_ipv4() { 32 } else { 128 };
    if bits == 0 || bits > most {
        return Err(format!("'{text}': the length of the prefix is 1 to {most}"));
    }
    if ip.is_unspecified() || ip.is_multicast() || ip.is_loopback() {
        return Err(format!("'{text}' is no address of a host on a network"));
    }
    Ok((ip, bits))
}

/// Blocks of workers, as equal as can be, the larger ones first.
pub(super) fn shares(threads: usize, ports: usize) -> impl Iterator<Item = Range<usize>> {
    let (least, more) = (threads / ports, threads % ports);
    let start = move |port: usize| port * least + port.min(more);
    (0..ports).map(move |port| start(port)..start(port + 1))
}

fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_worker_is_on_one_port_and_blocks_are_as_equal_as_can_be() {
        let of = |threads, ports| -> Vec<Vec<usize>> { shares(threads, ports).map(Vec::from_iter).collect() };
        assert_eq!(of(4, 1).concat(), [0, 1, 2, 3]);
        assert_eq!(of(4, 2), [[0, 1], [2, 3]]);
        assert_eq!(of(5, 3), [vec![0, 1], vec![2, 3], vec![4]]);
        assert_eq!(of(3, 3), [[0], [1], [2]]);
    }

    #[test]
    fn addresses_of_ports() {
        for good in ["10.0.0.2/24", "fd00::2/64", "192.168.1.1/32"] {
            assert!(address(good).is_ok(), "{good}");
        }
        for bad in [
            "10.0.0.2",
            "10.0.0.2/33",
            "10.0.0.2/0",
            "x/24",
            "0.0.0.0/8",
            "224.0.0.1/4",
            "::1/128",
            "fd00::2/",
            "",
        ] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }
}
