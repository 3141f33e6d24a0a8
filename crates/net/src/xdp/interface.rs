//! Properties of an interface, from the kernel.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::ifaddrs::getifaddrs;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, socket};

use crate::frames::{MacAddress, ReceiveChecksums};

const ETHTOOL_DRIVER: u32 = 0x3;
const ETHTOOL_CHANNELS: u32 = 0x3c;
/// Drivers whose frames come from senders on the same machine, without a complete checksum.
const VIRTUAL_DRIVERS: [&str; 6] = ["veth", "virtio_net", "tun", "netkit", "vif", "bridge"];

/// An interface of this network namespace.
#[derive(Debug)]
pub struct Interface {
    pub name: String,
    /// Number of the interface.
    pub index: u32,
    pub mac: MacAddress,
    pub mtu: usize,
    /// Name of its driver.
    pub driver: String,
    /// Number of receive queues in use.
    pub queues: usize,
    /// Name of the queues for `ethtool -L`.
    pub(crate) queues_word: &'static str,
    /// Addresses that are reachable from other machines, with prefix lengths.
    pub addresses: Vec<(IpAddr, u8)>,
}

impl Interface {
    /// Finds an interface.
    ///
    /// # Errors
    /// Describes the problem for users: there is none of this name.
    pub fn find(name: &str) -> Result<Self, String> {
        let index = if_nametoindex(name)
            .map_err(|_| format!("there is no interface {name}; `ip link` lists them"))?;
        let inner = || -> io::Result<Self> {
            let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
            let (queues, queues_word) = queues(&socket, name);
            Ok(Self {
                name: name.to_owned(),
                index,
                mac: mac(&socket, name)?,
                mtu: mtu(&socket, name)?,
                driver: driver(&socket, name).unwrap_or_else(|_| "of unknown name".to_owned()),
                queues,
                queues_word,
                addresses: addresses(name)?,
            })
        };
        inner().map_err(|error| format!("the interface {name} cannot be queried: {error}"))
    }

    /// Returns whether its frames may come from senders on the same machine, without a complete
    /// checksum.
    pub fn has_partial_checksums(&self) -> bool {
        VIRTUAL_DRIVERS.contains(&self.driver.as_str())
    }

    /// Returns the state of its frames' checksums. XDP does not pass on the hardware's results.
    pub(super) fn checksums(&self) -> ReceiveChecksums {
        match self.has_partial_checksums() {
            true => ReceiveChecksums::UnverifiedOrPartial,
            false => ReceiveChecksums::Unverified,
        }
    }
}

/// Returns the name of the interface that has an address.
pub fn at_address(wanted: IpAddr) -> Option<String> {
    let found = getifaddrs().ok()?.find(|entry| entry.address.and_then(ip_of) == Some(wanted));
    found.map(|entry| entry.interface_name)
}

fn ip_of(address: SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
}

/// Lists the addresses that are reachable from other machines.
fn addresses(name: &str) -> io::Result<Vec<(IpAddr, u8)>> {
    let ip = |address: Option<SockaddrStorage>| address.and_then(ip_of);
    let prefix = |mask: IpAddr| match mask {
        IpAddr::V4(mask) => mask.to_bits().count_ones() as u8,
        IpAddr::V6(mask) => mask.to_bits().count_ones() as u8,
    };
    let is_link_local = |address: &IpAddr| match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    Ok(getifaddrs()?
        .filter(|entry| entry.interface_name == name)
        .filter_map(|entry| Some((ip(entry.address)?, prefix(ip(entry.netmask)?))))
        .filter(|(address, _)| !is_link_local(address))
        .collect())
}

fn mtu(socket: &OwnedFd, name: &str) -> io::Result<usize> {
    let request = ioctl(socket, libc::SIOCGIFMTU, request(name)?)?;
    // SAFETY: the kernel has filled in this field.
    Ok(unsafe { request.ifr_ifru.ifru_mtu } as usize)
}

fn mac(socket: &OwnedFd, name: &str) -> io::Result<MacAddress> {
    let request = ioctl(socket, libc::SIOCGIFHWADDR, request(name)?)?;
    // SAFETY: the kernel has filled in this field.
    let address = unsafe { request.ifr_ifru.ifru_hwaddr };
    // Loopback's frames have Ethernet headers, with zeros for addresses.
    if ![libc::ARPHRD_ETHER, libc::ARPHRD_LOOPBACK].contains(&address.sa_family) {
        let text = "it is not an Ethernet interface";
        return Err(io::Error::new(io::ErrorKind::Unsupported, text));
    }
    Ok(std::array::from_fn(|at| address.sa_data[at] as u8))
}

fn driver(socket: &OwnedFd, name: &str) -> io::Result<String> {
    // struct ethtool_drvinfo: the command, then the driver's name.
    let mut info = [0u32; 49];
    info[0] = ETHTOOL_DRIVER;
    ethtool(socket, name, &mut info)?;
    let bytes: Vec<u8> = info[1..9].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let text = CStr::from_bytes_until_nul(&bytes).map_err(io::Error::other)?;
    Ok(text.to_string_lossy().into_owned())
}

/// Returns the number of receive queues in use, and their name for `ethtool -L`.
fn queues(socket: &OwnedFd, name: &str) -> (usize, &'static str) {
    // struct ethtool_channels: the command; most rx, tx, other, combined; rx, tx, other, combined.
    let mut channels = [0u32; 9];
    channels[0] = ETHTOOL_CHANNELS;
    if ethtool(socket, name, &mut channels).is_ok() && channels[5] + channels[8] > 0 {
        let word = match channels[4] {
            0 => "rx",
            _ => "combined",
        };
        return ((channels[5] + channels[8]) as usize, word);
    }
    let queues = fs::read_dir(format!("/sys/class/net/{name}/queues"));
    let count = queues.map_or(1, |queues| {
        let names = queues.flatten().map(|entry| entry.file_name());
        names.filter(|name| name.to_string_lossy().starts_with("rx-")).count()
    });
    (count.max(1), "combined")
}

fn ethtool(socket: &OwnedFd, name: &str, structure: &mut [u32]) -> io::Result<()> {
    let mut request = request(name)?;
    request.ifr_ifru.ifru_data = structure.as_mut_ptr().cast();
    // The structure is as long as the command in its first word requires.
    ioctl(socket, libc::SIOCETHTOOL, request).map(drop)
}

fn request(name: &str) -> io::Result<libc::ifreq> {
    let mut text = [0; libc::IFNAMSIZ];
    if name.len() >= text.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in text.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(libc::ifreq { ifr_name: text, ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_mtu: 0 } })
}

fn ioctl(socket: &OwnedFd, command: libc::c_ulong, mut request: libc::ifreq) -> io::Result<libc::ifreq> {
    // SAFETY: these commands take such a structure; a pointer in it is to what the command fills
    // in.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), command as _, &raw mut request) };
    match result {
        0.. => Ok(request),
        _ => Err(io::Error::last_os_error()),
    }
}
