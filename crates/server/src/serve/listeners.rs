//! Opens what the settings say is listened on.

use std::fmt::Display;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use micanite_net::Listener;
use micanite_net::datagram::{UdpOptions, UdpSocket};

use super::Failure;
use super::inheritance::Inheritance;
use crate::configuration::Settings;
use crate::limits::RECEIVE_BUFFER_BYTES;
use crate::native::Sockets;

/// Opens the TCP listeners, or says which could not be. Root may take low ports.
pub(super) fn open_tcp(
    settings: &Settings,
    inheritance: &mut Inheritance,
) -> Result<Vec<Listener>, Failure> {
    let open = |address: &SocketAddr| match inheritance.take_tcp(address) {
        Some(listener) => Ok(listener),
        None => Listener::tcp(*address, settings.backlog)
            .map_err(|error| failure(format_args!("TCP {address}"), &error)),
    };
    settings.listen.addresses.iter().map(open).collect()
}

/// Opens the sockets of the native protocol: by worker, then by address. All addresses of a worker
/// have one port.
pub(super) fn open_native(
    settings: &Settings,
    inheritance: &mut Inheritance,
) -> Result<Option<Sockets>, Failure> {
    let Some(native) = &settings.native else {
        return Ok(None);
    };
    let options = UdpOptions {
        gro: native.gro,
        gso: native.gro,
        receive_buffer_bytes: native.queue_bytes,
        send_buffer_bytes: RECEIVE_BUFFER_BYTES,
        busy_poll_us: (native.busy_poll_us > 0).then_some(native.busy_poll_us),
        reuse_port: false,
    };
    let mut open = |ip: IpAddr, port: u16| {
        let address = SocketAddr::new(ip, port);
        let opened = match inheritance.take_native(&address) {
            Some(socket) => UdpSocket::adopt(socket, &options),
            None => UdpSocket::bind(address, &options),
        };
        opened.map_err(|error| failure(format_args!("UDP {address} (--native)"), &error))
    };
    let mut workers = Vec::new();
    for worker in 0..settings.threads {
        let mut sockets = Vec::new();
        let mut port = u16::try_from(native.port).map_or(0, |base| base + worker as u16);
        for ip in &native.addresses {
            let socket = open(*ip, port)?;
            let address = socket.local_addr();
            port = address.map_or(port, |address| address.port());
            sockets.push(socket);
        }
        workers.push(sockets.into());
    }
    Ok(Some(workers.into()))
}

/// Opens the Unix socket, if there is to be one. It belongs to the user that serves.
pub(super) fn open_unix(
    settings: &Settings,
    inheritance: &mut Inheritance,
) -> Result<Option<Listener>, Failure> {
    let Some(path) = &settings.unix_socket else {
        return Ok(None);
    };
    if let Some(listener) = inheritance.take_unix(path) {
        return Ok(Some(listener));
    }
    match Listener::unix(path, settings.unix_mode, settings.backlog) {
        Ok(listener) => Ok(Some(listener)),
        Err(error) => Err(failure(
            format_args!("Unix socket {}", path.display()),
            &error,
        )),
    }
}

fn failure(what: impl Display, error: &io::Error) -> Failure {
    let text = match error.kind() {
        io::ErrorKind::AddrInUse => "Address already in use".into(),
        io::ErrorKind::PermissionDenied => "Permission denied".into(),
        _ => error.to_string(),
    };
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => {
            "Another server is there: end it, or choose another port (-p, --native) or socket (-s)."
        }
        io::ErrorKind::PermissionDenied => {
            "Ports below 1024, and some directories, are for root: choose another one."
        }
        io::ErrorKind::AddrNotAvailable => "This machine has no such address: see -l.",
        _ => "See -l, -p, -s and --native.",
    };
    Failure::system(format!("failed to listen on {what}: {text}\n  {advice}"))
}

/// Writes the file that the environment variable MEMCACHED_PORT_FILENAME names: a line for each
/// TCP listener, all at once.
pub(super) fn write_ports(path: &Path, listeners: &[Listener]) -> io::Result<()> {
    let mut text = String::new();
    for address in listeners.iter().filter_map(Listener::address) {
        let family = if address.is_ipv4() { "INET" } else { "INET6" };
        text.push_str(&format!("TCP {family}: {}\n", address.port()));
    }
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".lck");
    std::fs::write(&unfinished, text)?;
    std::fs::rename(&unfinished, path)
}
