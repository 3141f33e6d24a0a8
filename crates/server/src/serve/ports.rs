//! Opens the ports around the kernel's network stack (`--port xdp:...`, `dpdk:...`), and says what was
//! got.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::Path;

use micanite_net::bypass::{Bypass, BypassOptions, BypassQueue, PortName};
use micanite_net::frames::{Local, Neighbours};
use micanite_wire::native::PAYLOAD_BYTES_MIN;

use super::{EXIT_USAGE, Failure};
use crate::configuration::{NativeSettings, PortSettings, Settings};
use crate::log::log;
use crate::native::QueueOfPort;

/// The queues of all workers, in their order, and what is for them.
pub(super) type Queues = Vec<QueueOfPort>;

/// IPv6 has longer headers than IPv4.
const IPV4_MORE_BYTES: usize = 20;

/// Opens them all, or says which could not be. Datagrams become no longer than all of them carry.
pub(super) fn open(settings: &mut Settings) -> Result<(Vec<Bypass>, Queues), Failure> {
    let (mut ports, mut queues) = (Vec::new(), Vec::new());
    let Some(native) = &mut settings.native else {
        return Ok((ports, queues));
    };
    let Some(bypass) = &native.bypass else {
        return Ok((ports, queues));
    };
    for port in &bypass.ports {
        let udp_ports = udp_ports(native, port);
        let options = BypassOptions {
            name: port.name.clone(),
            addresses: port.addresses.clone(),
            gateway: bypass.gateway,
            ports: udp_ports.clone(),
            queues: port.workers.len(),
            payload_bytes_max: native.payload_bytes,
            busy_poll_us: bypass.busy_poll_us,
            dpdk_arguments: bypass.dpdk_arguments.clone(),
        };
        let (opened, its_queues) = Bypass::open(&options)
            .map_err(|what| Failure::system(format!("cannot open --port {what}")))?;
        let local = Local {
            addresses: opened.addresses.iter().map(|(ip, _)| *ip).collect(),
            ports: udp_ports,
        };
        queues.extend(its_queues.into_iter().map(|queue| {
            QueueOfPort {
                // Beside AF_XDP the kernel is the one who knows neighbours.
                neighbours: matches!(queue, BypassQueue::Dpdk(_))
                    .then(|| Neighbours::new(opened.mac, &opened.addresses, bypass.gateway)),
                queue,
                local: local.clone(),
            }
        }));
        ports.push(opened);
    }
    let memory_bytes = ports.iter().map(|port| port.memory_bytes).sum();
    fit_payload(native, &ports)?;
    if let Some(bypass) = &mut native.bypass {
        bypass.memory_bytes = memory_bytes;
    }
    Ok((ports, queues))
}

/// UDP ports of a port's workers.
fn udp_ports(native: &NativeSettings, port: &PortSettings) -> RangeInclusive<u16> {
    let of = |worker: usize| native.port as u16 + worker as u16;
    of(port.workers.start)..=of(port.workers.end - 1)
}

/// The longest payload that a port carries to every client of its addresses.
fn payload_bytes_max(port: &Bypass) -> usize {
    let is_ipv4 = |(ip, _): &(IpAddr, u8)| ip.is_ipv4();
    match port.addresses.iter().all(is_ipv4) {
        true => port.payload_bytes_max + IPV4_MORE_BYTES,
        false => port.payload_bytes_max,
    }
}

fn fit_payload(native: &mut NativeSettings, ports: &[Bypass]) -> Result<(), Failure> {
    let names = native.bypass.iter().flat_map(|bypass| &bypass.ports);
    for (port, PortSettings { name, .. }) in ports.iter().zip(names) {
        let (most, wanted) = (payload_bytes_max(port), native.payload_bytes);
        if most < PAYLOAD_BYTES_MIN {
            let text = format!(
                "--port {name}: its MTU leaves {most} bytes for a datagram, and the native protocol needs \
                 {PAYLOAD_BYTES_MIN}: set its MTU to 1280 or more"
            );
            return Err(Failure::system(text));
        }
        if most < wanted && !native.payload_is_default {
            return Err(Failure {
                code: EXIT_USAGE,
                text: format!(
                    "--native-payload: {wanted} bytes do not fit a frame of {name}, whose MTU allows {most}"
                ),
            });
        }
        if most < wanted {
            log!("datagrams have at most {most} bytes instead of {wanted}: the MTU of {name}");
            native.payload_bytes = most;
        }
    }
    Ok(())
}

/// A line for each port.
pub(super) fn texts(ports: &[Bypass], settings: &Settings) -> Vec<String> {
    let names = settings.bypass().map_or(&[][..], |bypass| &bypass.ports);
    let text = |(port, PortSettings { name, workers, .. }): (&Bypass, &PortSettings)| {
        let ips: Vec<_> = port
            .addresses
            .iter()
            .map(|(ip, _)| ip.to_string())
            .collect();
        let rules = rules(name, workers.len());
        format!("{name} at {}: {}{rules}", ips.join(", "), port.description)
    };
    ports.iter().zip(names).map(text).collect()
}

/// How each UDP port comes to its queue, where that is not the port's own business.
fn rules(name: &PortName, workers: usize) -> String {
    let PortName::Xdp { interface } = name else {
        return String::new();
    };
    if workers == 1 {
        return String::new();
    }
    // An interface without a device is made of software (veth), which has no flow rules.
    match Path::new("/sys/class/net")
        .join(interface)
        .join("device")
        .exists()
    {
        true => format!(
            "; `micanite ctl nic {interface} --apply` brings the datagrams of each worker to its queue"
        ),
        false => "; there are no flow rules, so datagrams come to any queue".into(),
    }
}

/// Why a server cannot be restarted in place: the port needs rights that it has given up.
pub(super) fn cannot_come_back(settings: &Settings) -> String {
    let names = settings.bypass().map_or(&[][..], |bypass| &bypass.ports);
    let names: Vec<_> = names.iter().map(|port| port.name.to_string()).collect();
    format!(
        "--port {} was opened by root, and the user '{}' (-u) cannot open it again: end the server and start \
         it, or run it as that user with the capabilities that docs/bypass.md names",
        names.join(", "),
        settings.user.as_deref().unwrap_or_default(),
    )
}
