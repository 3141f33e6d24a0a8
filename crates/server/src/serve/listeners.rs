//! Opens what the settings say is listened on.

use std::fmt::Display;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use micanite_memory::folder::Folder;
use micanite_net::Listener;
use micanite_net::datagram::{UdpOptions, UdpSocket};

use super::Failure;
use super::inheritance::Inheritance;
use crate::configuration::{NativeSettings, Settings};
use crate::limits::{RECEIVE_BUFFER_BYTES, UDP_QUEUE_BYTES};
use crate::native::Sockets;
use crate::udp::UdpSockets;

/// Connections that may wait for the admin side.
const ADMIN_BACKLOG: u32 = 64;

/// Opens the TCP listeners, or says which could not be. Root may take low ports.
pub(super) fn open_tcp(settings: &Settings, inheritance: &mut Inheritance) -> Result<Vec<Listener>, Failure> {
    let open = |address: &SocketAddr| match inheritance.take_tcp(address) {
        Some(listener) => Ok(listener),
        None => tcp(*address, settings.backlog),
    };
    settings.listen.addresses.iter().map(open).collect()
}

/// Opens a TCP listener.
pub(super) fn tcp(address: SocketAddr, backlog: u32) -> Result<Listener, Failure> {
    Listener::tcp(address, backlog).map_err(|error| failure(format_args!("TCP {address}"), &error))
}

/// Opens the sockets of the native protocol: by worker, then by address. All addresses of a worker
/// have one port. Not with ports around the kernel.
pub(super) fn open_native(
    settings: &Settings,
    inheritance: &mut Inheritance,
) -> Result<Option<Sockets>, Failure> {
    let Some(native) = settings.native.as_ref().filter(|it| it.bypass.is_none()) else {
        return Ok(None);
    };
    let options = native_options(native);
    let mut open = |ip: IpAddr, port: u16| {
        let address = SocketAddr::new(ip, port);
        match inheritance.take_native(&address) {
            Some(socket) => UdpSocket::adopt(socket, &options).map_err(|error| no_native(address, &error)),
            None => bind_native(address, &options),
        }
    };
    let mut workers = Vec::new();
    for worker in 0..settings.threads {
        let mut sockets = Vec::new();
        let mut port = native.port_of(worker);
        for ip in native.addresses_of(worker) {
            let socket = open(*ip, port)?;
            let address = socket.local_addr();
            port = address.map_or(port, |address| address.port());
            sockets.push(socket);
        }
        workers.push(sockets.into());
    }
    Ok(Some(workers.into()))
}

pub(super) fn native_options(native: &NativeSettings) -> UdpOptions {
    UdpOptions {
        gro: native.gro,
        gso: native.gro,
        receive_buffer_bytes: native.queue_bytes,
        send_buffer_bytes: RECEIVE_BUFFER_BYTES,
        busy_poll_us: (native.busy_poll_us > 0).then_some(native.busy_poll_us),
        reuse_port: false,
    }
}

/// Opens a socket of the native protocol.
pub(super) fn bind_native(address: SocketAddr, options: &UdpOptions) -> Result<UdpSocket, Failure> {
    UdpSocket::bind(address, options).map_err(|error| no_native(address, &error))
}

fn no_native(address: SocketAddr, error: &io::Error) -> Failure {
    failure(format_args!("UDP {address} (--native)"), error)
}

/// Options of a socket of memcached's protocols that alone has its port.
const ALONE: UdpOptions = UdpOptions {
    receive_buffer_bytes: UDP_QUEUE_BYTES,
    send_buffer_bytes: UDP_QUEUE_BYTES,
    gro: true,
    gso: true,
    busy_poll_us: None,
    reuse_port: false,
};
/// Options of one that shares it with those of the other workers.
const SHARED: UdpOptions = UdpOptions { reuse_port: true, ..ALONE };

/// Opens the sockets of memcached's protocols over UDP: by worker, then by address, all workers at the
/// same ones.
pub(super) fn open_udp(
    settings: &Settings,
    inheritance: &mut Inheritance,
) -> Result<Option<UdpSockets>, Failure> {
    let Some(udp) = &settings.udp else {
        return Ok(None);
    };
    let mut workers = Vec::from_iter((0..settings.threads).map(|_| Vec::new()));
    for address in &udp.addresses {
        let mut address = *address;
        let mut inherited = inheritance.take_udp(&address);
        address = match &inherited {
            Some(socket) => socket.local_addr().unwrap_or(address),
            None => free_udp(address)?,
        };
        for sockets in &mut workers {
            sockets.push(match inherited.take() {
                Some(socket) => UdpSocket::adopt(socket, &SHARED).map_err(|error| no_udp(address, &error))?,
                None => bind_udp(address)?,
            });
            inherited = inheritance.take_udp(&address);
        }
    }
    Ok(Some(workers.into_iter().map(Vec::into_boxed_slice).collect()))
}

/// Returns an address whose port no other server has: sockets that share a port would share it with another
/// server of this user as well.
pub(super) fn free_udp(address: SocketAddr) -> Result<SocketAddr, Failure> {
    let socket = UdpSocket::bind(address, &ALONE).map_err(|error| no_udp(address, &error))?;
    Ok(socket.local_addr().unwrap_or(address))
}

/// Opens a socket that shares the port of an address with those of the other workers.
pub(super) fn bind_udp(address: SocketAddr) -> Result<UdpSocket, Failure> {
    UdpSocket::bind(address, &SHARED).map_err(|error| no_udp(address, &error))
}

fn no_udp(address: SocketAddr, error: &io::Error) -> Failure {
    failure(format_args!("UDP {address} (-U)"), error)
}

/// Keeps these sockets open for the program after a restart, whatever the workers do with theirs.
pub(super) fn keep_udp(sockets: Option<&UdpSockets>) -> io::Result<Vec<OwnedFd>> {
    let sockets = sockets.into_iter().flatten().flatten();
    sockets.map(|socket| socket.as_fd().try_clone_to_owned()).collect()
}

/// Opens the listener for metrics and health, if there is to be one.
pub(super) fn open_admin(
    settings: &Settings,
    inheritance: &mut Inheritance,
) -> Result<Option<Listener>, Failure> {
    let open = |address: SocketAddr| match inheritance.take_admin(&address) {
        Some(listener) => Ok(listener),
        None => admin(address),
    };
    settings.admin.map(open).transpose()
}

/// Opens the listener of the admin side.
pub(super) fn admin(address: SocketAddr) -> Result<Listener, Failure> {
    let failed = |error| failure(format_args!("TCP {address} (--admin)"), &error);
    Listener::tcp(address, ADMIN_BACKLOG).map_err(failed)
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
        // The permissions may have changed. A socket whose file has gone is unreachable, so a new one
        // replaces it.
        if micanite_net::set_socket_mode(path, settings.unix_mode).is_ok() {
            return Ok(Some(listener));
        }
    }
    unix(path, settings).map(Some)
}

/// Opens a listener on a Unix socket.
pub(super) fn unix(path: &Path, settings: &Settings) -> Result<Listener, Failure> {
    let failed = |error| failure(format_args!("Unix socket {}", path.display()), &error);
    Listener::unix(path, settings.unix_mode, settings.backlog).map_err(failed)
}

/// Part of the text of a failure.
pub(super) const IN_USE: &str = "Address already in use";

fn failure(what: impl Display, error: &io::Error) -> Failure {
    let text = match error.kind() {
        io::ErrorKind::AddrInUse => IN_USE.into(),
        io::ErrorKind::PermissionDenied if error.raw_os_error().is_some() => "Permission denied".into(),
        _ => error.to_string(),
    };
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => {
            "Another server is there: end it, or choose another port (-p, -U, --native) or socket (-s)."
        }
        io::ErrorKind::PermissionDenied => {
            "Ports below 1024, and some directories, are for root: choose another one."
        }
        io::ErrorKind::AddrNotAvailable => "This machine has no such address: see -l.",
        _ => "See -l, -p, -s, -U and --native.",
    };
    Failure::system(format!("failed to listen on {what}: {text}\n  {advice}"))
}

/// Writes the file that the environment variable MEMCACHED_PORT_FILENAME names: a line for each
/// TCP listener and each UDP address, all at once.
pub(super) fn write_ports(path: &Path, listeners: &[Listener], udp: &[SocketAddr]) -> io::Result<()> {
    let mut text = String::new();
    let tcp = listeners.iter().filter_map(Listener::address);
    let tcp = tcp.map(|address| ("TCP", address));
    let udp = udp.iter().map(|address| ("UDP", *address));
    for (protocol, address) in tcp.chain(udp) {
        let family = if address.is_ipv4() { "INET" } else { "INET6" };
        text.push_str(&format!("{protocol} {family}: {}\n", address.port()));
    }
    let (folder, name) = Folder::of(path)?;
    folder.replace(name, text.as_bytes()).map(drop)
}
