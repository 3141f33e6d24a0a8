//! The trial of a restart, in the next program (`crate::control::restart`). It does what a start does, in the
//! same order, as far as the running server leaves it room: it opens the sockets that are not inherited, and
//! hands them over; it compares the image with the options; it tries the places of files. What cannot succeed
//! is refused here, before the running server gives anything up.

use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use micanite_engine::{Cache, Config, Maps};
use micanite_net::bypass::PortName;
use micanite_net::xdp::Interface;
use micanite_net::{Inherited, Listener};

use super::opened::load_secrets;
use super::{
    EXIT_USAGE, Failure, fabric, growth_fits, hash_seed_fits, kernel_get, listeners, local, no_cache, process,
};
use crate::configuration::{ControlSocket, Settings};
use crate::control::restart::{Heirloom, Running, Trial, answer, place};
use crate::control::{NoSocket, Socket};

/// Fails if this program, with these settings, could not take over from a running server.
pub(super) fn run(settings: &mut Settings, trial: Trial) -> Result<(), Failure> {
    process::check_memory(settings)?;
    let opened = match &trial.running {
        Some(running) => Sockets::open(settings, running.clone())?,
        None => Vec::new(),
    };
    fabric::probe(settings)?;
    try_interfaces(settings)?;
    load_secrets(settings)?;
    kernel_get::try_out(settings, &trial)?;
    kernel_get::pins::try_out(settings, &trial)?;
    let Some(running) = &trial.running else {
        return Ok(());
    };
    process::become_user(settings)?;
    try_cache(settings, &trial, running)?;
    try_paths(settings, running)?;
    settings.io.probe()?;
    process::try_pidfile(settings)?;
    let Some(number) = trial.answer else {
        return Ok(());
    };
    let failed = |what: String| Failure::system(format!("the sockets cannot be handed over: {what}"));
    let socket = Inherited::take_any(number).map_err(failed)?;
    answer(socket, &opened).map_err(|error| failed(error.to_string()))
}

/// Sockets that the running server does not leave.
struct Sockets {
    /// Addresses that are still to be taken.
    running: Running,
    /// All addresses of the running server.
    addresses: Vec<(Heirloom, SocketAddr)>,
    opened: Vec<(Heirloom, OwnedFd)>,
}

impl Sockets {
    fn open(settings: &Settings, running: Running) -> Result<Vec<(Heirloom, OwnedFd)>, Failure> {
        let addresses = running.sockets.clone();
        let mut this = Self { running, addresses, opened: Vec::new() };
        if !this.running.is_activated {
            for address in &settings.listen.addresses {
                this.add(Heirloom::Own, address, || listeners::tcp(*address, settings.backlog))?;
            }
        }
        this.open_native(settings)?;
        this.open_udp(settings)?;
        if let Some(address) = &settings.admin {
            this.add(Heirloom::Admin, address, || listeners::admin(*address))?;
        }
        Ok(this.opened)
    }

    /// Opens a listener, unless the running server leaves it.
    fn add(
        &mut self,
        kind: Heirloom,
        address: &SocketAddr,
        open: impl FnOnce() -> Result<Listener, Failure>,
    ) -> Result<(), Failure> {
        match self.running.take(kind, address) {
            Some(_) => Ok(()),
            None => {
                let listener = open().map_err(|failure| self.explained(failure, kind, address))?;
                self.hand_over(kind, listener.as_fd())
            }
        }
    }

    /// Returns the failure to open an address. It may be in use by the running server itself: one of the two
    /// addresses is that of all interfaces.
    fn explained(&self, failure: Failure, kind: Heirloom, wanted: &SocketAddr) -> Failure {
        let overlaps = |(of, there): &&(Heirloom, SocketAddr)| {
            let is_any = there.ip().is_unspecified() || wanted.ip().is_unspecified();
            let same_family = there.is_ipv4() == wanted.is_ipv4();
            *of == kind && is_any && same_family && there.port() == wanted.port()
        };
        match self.addresses.iter().find(overlaps) {
            Some((_, there)) if failure.text.contains(listeners::IN_USE) => Failure::system(format!(
                "cannot listen on {wanted} beside the running server's {there}, which overlaps it\n  A \
                 restart in place opens new addresses before it ends the old ones: stop the server, and \
                 start it."
            )),
            _ => failure,
        }
    }

    fn hand_over(&mut self, kind: Heirloom, socket: BorrowedFd<'_>) -> Result<(), Failure> {
        let copied = socket.try_clone_to_owned().map_err(super::cannot_start)?;
        self.opened.push((kind, copied));
        Ok(())
    }

    /// Opens sockets as [`listeners::open_native`] does.
    fn open_native(&mut self, settings: &Settings) -> Result<(), Failure> {
        let Some(native) = settings.native.as_ref().filter(|it| it.bypass.is_none()) else {
            return Ok(());
        };
        let options = listeners::native_options(native);
        for worker in 0..settings.threads {
            let mut port = native.port_of(worker);
            for ip in native.addresses_of(worker) {
                let address = SocketAddr::new(*ip, port);
                port = match self.running.take(Heirloom::Native, &address) {
                    Some(there) => there.port(),
                    None => {
                        let socket = listeners::bind_native(address, &options);
                        let explained = |failure| self.explained(failure, Heirloom::Native, &address);
                        let socket = socket.map_err(explained)?;
                        self.hand_over(Heirloom::Native, socket.as_fd())?;
                        socket.local_addr().map_or(port, |address| address.port())
                    }
                };
            }
        }
        Ok(())
    }

    /// Opens sockets as [`listeners::open_udp`] does. Where there are some, more of them would take datagrams
    /// at once, so the next program adds them.
    fn open_udp(&mut self, settings: &Settings) -> Result<(), Failure> {
        for wanted in settings.udp.iter().flat_map(|udp| &udp.addresses) {
            if self.running.take(Heirloom::Udp, wanted).is_some() {
                continue;
            }
            let address = listeners::free_udp(*wanted);
            let address = address.map_err(|failure| self.explained(failure, Heirloom::Udp, wanted))?;
            for _ in 0..settings.threads {
                self.hand_over(Heirloom::Udp, listeners::bind_udp(address)?.as_fd())?;
            }
        }
        Ok(())
    }
}

/// Looks for the interfaces of `--bypass`. The running server may have their queues.
fn try_interfaces(settings: &Settings) -> Result<(), Failure> {
    let ports = settings.bypass().into_iter().flat_map(|bypass| &bypass.ports);
    ports.map(|port| &port.name).try_for_each(|name| match name {
        PortName::Xdp { interface } => Interface::find(interface)
            .map(drop)
            .map_err(|what| Failure::system(format!("cannot open --bypass {name}: {what}"))),
        PortName::Dpdk { .. } => Ok(()),
    })
}

/// Tries whether the image can be gone on with, or the memory in maps of the kernel.
fn try_cache(settings: &Settings, trial: &Trial, running: &Running) -> Result<(), Failure> {
    if running.image.is_some() && settings.image.is_none() && !trial.is_forced {
        let text = "the running server keeps its items in an image, and these options name none, so that \
                    the next one would begin empty\n  --image names it. ctl restart --force restarts \
                    without it, and leaves it where it is.";
        return Err(Failure { code: EXIT_USAGE, text: text.into() });
    }
    let take = |number: &i32| Inherited::take_any(*number).map(Arc::new);
    let descriptors = trial.maps.iter().map(take).collect::<Result<Vec<_>, _>>().map_err(Failure::system)?;
    let has_maps = !descriptors.is_empty();
    let maps = has_maps.then_some(Maps { descriptors, kept: true });
    let directory = settings.image.as_ref().and_then(|path| File::open(path).ok());
    let directory = directory.as_ref().and_then(place);
    let is_own = has_maps || directory.is_some() && directory == running.image;
    let config = Config { maps, ..settings.engine(settings.hash_seed.unwrap_or(0)) };
    let found = Cache::try_out(&config, is_own).map_err(|error| no_cache(settings, &config, &error))?;
    found.map_or(Ok(()), |(seed, layout)| {
        growth_fits(settings, layout.partitions, layout.growth_bytes(&config))?;
        hash_seed_fits(settings, seed)
    })
}

/// Tries the places of Unix sockets, but for those where the running server has some.
fn try_paths(settings: &Settings, running: &Running) -> Result<(), Failure> {
    let is_new = |path: &Path| !running.paths.iter().any(|there| there == path);
    let remove = |listener: Listener| listener.remove_file();
    if let Some(path) = settings.unix_socket.as_deref().filter(|path| !running.is_activated && is_new(path)) {
        remove(listeners::unix(path, settings)?);
    }
    if settings.local.as_ref().is_some_and(|local| is_new(&local.path)) {
        local::listen(settings)?.into_iter().for_each(remove);
    }
    match &settings.control_socket {
        ControlSocket::At(path) if is_new(path) => match Socket::at(path) {
            Ok(socket) => socket.remove_file(),
            Err(NoSocket::Refused(reason)) => return Err(super::no_control_socket(&reason)),
            Err(_) => {}
        },
        _ => {}
    }
    Ok(())
}
