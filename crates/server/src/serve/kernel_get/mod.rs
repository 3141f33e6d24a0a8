//! Starts with `--kernel-get`: memory that a program in the kernel reads, the cache in it, and the
//! program. Where that cannot be had the server says why, and serves as ever.

pub(super) mod pins;

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use micanite_control::cores;
use micanite_engine::{Cache, Layout, Maps};
use micanite_kernel::{GetOptions, IS_BUILT, ImageMaps, KernelGet, NativeOptions, Network};
use micanite_net::xdp::{Interface, Mode};

use super::{Failure, cache};
use crate::configuration::{KernelGetSettings, Settings};
use crate::control::kernel_get::KernelGetState;
use crate::control::restart::Trial;
use crate::native::{NativeShared, Sockets};
use crate::shared::clock::Clock;
use crate::telemetry::log::start;
use crate::udp::UdpSockets;

/// Sockets that take datagrams from the kernel's stack.
#[derive(Clone, Copy)]
pub(super) struct Listening<'a> {
    pub udp: Option<&'a UdpSockets>,
    pub native: Option<(&'a Sockets, &'a NativeShared)>,
}

/// Opens the cache, and the program over it if `--kernel-get` asks for one. `left` is the memory that the
/// previous program has left.
pub(super) fn open(
    settings: &Settings,
    left: Vec<Arc<OwnedFd>>,
    listening: Listening<'_>,
    clock: Clock,
) -> Result<(Arc<Cache>, Option<KernelGetState>), Failure> {
    let Some(kernel_get) = &settings.kernel_get else {
        return Ok((cache(settings, maps(left))?, None));
    };
    let off = |reason: String| {
        start!(WARN, "GETs are not answered in the kernel (--kernel-get): {reason}");
        Some(KernelGetState::new(Err(reason)))
    };
    let memory = match Memory::get(settings, kernel_get, left.clone()) {
        Ok(memory) => memory,
        // Without the pinned memory the server would write elsewhere, and the next start would find old
        // items.
        Err(NoMemory::Without(reason)) if kernel_get.pin.is_some() => {
            return Err(Failure::system(format!(
                "--kernel-get-pin: {reason}\n  Without --kernel-get-pin the server would start, and not \
                 keep what it stores."
            )));
        }
        Err(NoMemory::Without(reason)) => {
            return Ok((cache(settings, maps(left))?, off(reason)));
        }
        Err(NoMemory::Refused(reason)) => return Err(Failure::system(reason)),
    };
    let in_maps = cache(settings, Some(memory.maps()))?;
    let options = options(settings, &in_maps, listening, clock);
    match KernelGet::open(&modes(kernel_get), &options, &memory.image) {
        Ok(program) => Ok((in_maps, Some(KernelGetState::new(Ok(program))))),
        // Items in the maps, or items that are to stay there, are worth more than large pages.
        Err(reason) if memory.kept || kernel_get.pin.is_some() => Ok((in_maps, off(reason))),
        Err(reason) => {
            drop((in_maps, memory));
            Ok((cache(settings, None)?, off(reason)))
        }
    }
}

/// Returns the memory that the previous program has left, if it has.
fn maps(left: Vec<Arc<OwnedFd>>) -> Option<Maps> {
    (!left.is_empty()).then_some(Maps { descriptors: left, kept: true })
}

fn modes(kernel_get: &KernelGetSettings) -> Vec<(String, Mode)> {
    let names = kernel_get.interfaces.iter();
    names.map(|name| (name.clone(), kernel_get.mode)).collect()
}

/// Reason why there is no memory that both sides read.
enum NoMemory {
    /// The server starts without it.
    Without(String),
    /// The server does not start.
    Refused(String),
}

/// Memory that both sides read.
struct Memory {
    image: ImageMaps,
    /// It may hold an image.
    kept: bool,
}

impl Memory {
    fn get(
        settings: &Settings,
        kernel_get: &KernelGetSettings,
        left: Vec<Arc<OwnedFd>>,
    ) -> Result<Self, NoMemory> {
        if let Some(name) = kernel_get.interfaces.iter().find(|name| is_loopback(name)) {
            return Err(NoMemory::Without(format!(
                "{name} is loopback, whose datagrams are left to the stack; a pair of virtual interfaces \
                 (veth) will do"
            )));
        }
        if !IS_BUILT {
            let text = "this program was built without clang; apt-get install clang, build again";
            return Err(NoMemory::Without(text.into()));
        }
        let layout = Layout::of(&settings.engine(0));
        let layout = layout.map_err(|error| NoMemory::Refused(error.to_string()))?;
        let (count, bytes) = (layout.partitions, layout.partition_bytes);
        if !left.is_empty() {
            let image = ImageMaps::of(left, bytes).map_err(NoMemory::Without)?;
            if let Some(directory) = &kernel_get.pin {
                // The options may differ from those of the previous program.
                image
                    .pin_as(directory)
                    .map_err(|reason| NoMemory::Refused(format!("--kernel-get-pin: {reason}")))?;
            }
            return Ok(Self { image, kept: true });
        }
        // Creating maps takes seconds for each GiB, so a small one shows first whether the kernel allows any.
        ImageMaps::create(1, PROBE_BYTES).map_err(NoMemory::Without)?;
        let began = Instant::now();
        let (image, kept) = match &kernel_get.pin {
            Some(directory) => ImageMaps::pinned(directory, count, bytes)
                .map_err(|reason| NoMemory::Refused(format!("--kernel-get-pin: {reason}")))?,
            None => {
                let image = ImageMaps::create(count, bytes);
                (image.map_err(NoMemory::Without)?, false)
            }
        };
        if !kept {
            let (mib, ms) = (settings.memory_bytes >> 20, began.elapsed().as_millis());
            start!(INFO, "{mib} MiB that the kernel reads, too, were made in {ms} ms");
        }
        Ok(Self { image, kept })
    }

    fn maps(&self) -> Maps {
        Maps { descriptors: self.image.descriptors().to_vec(), kept: self.kept }
    }
}

fn is_loopback(name: &str) -> bool {
    let found = Interface::find(name);
    found.is_ok_and(|interface| interface.mac == [0; 6])
}

/// Size of the map that shows whether the kernel allows any.
const PROBE_BYTES: usize = 4096;

/// Returns the options of the program.
fn options(settings: &Settings, cache: &Cache, listening: Listening<'_>, clock: Clock) -> GetOptions {
    // Text is not executed where only the binary protocol is spoken.
    let udp = listening.udp.filter(|_| !settings.speaks_binary_only());
    let (memcached_port, mut listened) = memcached(udp);
    let native = listening.native.and_then(|(sockets, shared)| {
        let (ports, ips) = native(sockets)?;
        // The program looks at addresses and ports apart from each other: those of one port may be
        // another server's at the other one. What it leaves out is answered by the sockets.
        if memcached_port.is_none() {
            listened.extend(ips);
        }
        Some(NativeOptions {
            ports,
            payload_bytes_max: shared.payload_bytes,
            cookie_key: shared.cookie_key.0,
            generation: shared.generation(cache),
        })
    });
    let networks = settings.udp.iter().flat_map(|udp| udp.allow.networks());
    GetOptions {
        geometry: cache.geometry(),
        clock_offset_ms: clock.offset_ms(),
        memcached_port,
        native,
        addresses: addresses(settings, &listened),
        networks: networks.map(|(address, bits)| Network { address, bits }).collect(),
        spread_cpus: match &settings.kernel_get {
            Some(of) if of.spread_percent > 0 => cores::allowed(),
            _ => Vec::new(),
        },
    }
}

/// The first UDP port of memcached's protocols, and the addresses that it is listened on.
fn memcached(sockets: Option<&UdpSockets>) -> (Option<u16>, Vec<IpAddr>) {
    let of_worker = sockets.and_then(|sockets| sockets.first());
    let locals = of_worker.into_iter().flatten();
    let locals: Vec<SocketAddr> = locals.flat_map(|socket| socket.local_addr()).collect();
    let port = locals.first().map(SocketAddr::port);
    let here = locals.iter().filter(|local| Some(local.port()) == port);
    (port, here.map(SocketAddr::ip).collect())
}

/// The UDP ports of the native protocol, as far as one follows the other, and the addresses. Of several
/// interfaces (`--native-at`) those of the first one: the same ports at another one are not ours.
fn native(workers: &Sockets) -> Option<((u16, u16), Vec<IpAddr>)> {
    let locals = workers.iter().map(|of| of.iter().flat_map(|it| it.local_addr()));
    let locals: Vec<Vec<SocketAddr>> = locals.map(Iterator::collect).collect();
    let ips = |of: &Vec<SocketAddr>| of.iter().map(SocketAddr::ip).collect::<Vec<_>>();
    let first = ips(locals.first()?);
    let same = locals.iter().take_while(|of| ips(of) == first);
    let ports = following(same.flat_map(|of| of.first()).map(SocketAddr::port))?;
    Some((ports, first))
}

/// The first port and the last one, as far as each follows the one before.
fn following(mut ports: impl Iterator<Item = u16>) -> Option<(u16, u16)> {
    let first = ports.next()?;
    let last = ports.fold(first, |last, port| match last.checked_add(1) {
        Some(next) if next == port => port,
        _ => last,
    });
    Some((first, last))
}

/// Returns the addresses of the interfaces that are listened on. If there are none, returns all listened
/// ones, because an empty list means every address.
fn addresses(settings: &Settings, listened: &[IpAddr]) -> Vec<IpAddr> {
    let names = settings.kernel_get.iter().flat_map(|of| &of.interfaces);
    // Attaching the program reports an interface that has gone.
    let interfaces = names.flat_map(|name| Interface::find(name));
    let own = interfaces.flat_map(|interface| interface.addresses);
    let is_listened = |ip: &IpAddr| {
        listened.iter().any(|there| there == ip || there.is_unspecified() && there.is_ipv4() == ip.is_ipv4())
    };
    let mut addresses: Vec<_> = own.map(|(ip, _)| ip).filter(is_listened).collect();
    if addresses.is_empty() {
        addresses.extend(listened);
    }
    addresses
}

/// Refuses a restart that could not go on with what is stored.
pub(super) fn try_out(settings: &Settings, trial: &Trial) -> Result<(), Failure> {
    match trial.has_maps && settings.image.is_some() {
        true => Err(Failure::system(
            "what is stored lies in maps of the kernel (--kernel-get), and a restart in place does not \
             make the files of --image out of them: end the server and start it again (ctl snapshot DIR \
             keeps what is stored, for --image DIR)"
                .into(),
        )),
        false => Ok(()),
    }
}

/// Returns whether a restart in place needs the rights that the start had: for the program, or to ensure that
/// its memory is the pinned one.
pub(super) fn needs_rights(settings: &Settings, state: &KernelGetState) -> bool {
    let kernel_get = settings.kernel_get.as_ref();
    state.program().is_some() || kernel_get.is_some_and(|of| of.pin.is_some())
}

/// Describes why a server cannot be restarted in place: the program needs rights that it has given up.
pub(super) fn cannot_come_back(settings: &Settings) -> String {
    let user = settings.user.as_deref().unwrap_or_default();
    format!(
        "--kernel-get was opened by root, and the user '{user}' (-u) cannot open it again: end the server \
         and start it, or run it as that user with the capabilities that docs/kernel.md names"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_that_follow_each_other_to_the_highest_one() {
        for (ports, ends) in [
            (&[11300, 11301, 11302][..], Some((11300, 11302))),
            (&[11300, 11302], Some((11300, 11300))),
            (&[65534, 65535], Some((65534, 65535))),
            (&[65535, 40000], Some((65535, 65535))),
            (&[], None),
        ] {
            assert_eq!(following(ports.iter().copied()), ends, "{ports:?}");
        }
    }
}
