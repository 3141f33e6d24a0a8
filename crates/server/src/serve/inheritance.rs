//! Sockets that the process was started with: from systemd (`LISTEN_FDS`), or from the program
//! that ran in it before a restart (`crate::control::restart`), which leaves the memory of its image, too, if
//! that lies in maps of the kernel, and the locks of the directories where it is pinned.

use std::ffi::CString;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use micanite_control::answer;
use micanite_net::tls::ClientCertificates;
use micanite_net::{ByteStream, Inherited, Listener, Stream};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::prctl::{get_name, set_name};

use super::Failure;
use super::acceptor::Acceptor;
use crate::configuration::Settings;
use crate::control::restart::{Handover, Heirloom, Running, matches, monotonic_ns, place};
use crate::native::Sockets;
use crate::shared::Server;
use crate::telemetry::admin::Left;
use crate::telemetry::log::{self, info, start, warn};
use crate::udp::UdpSockets;

/// The number of the first descriptor that systemd passes.
const FIRST: RawFd = 3;
/// More is a mistake.
const COUNT_MAX: RawFd = 1024;

/// Inherited sockets and other descriptors. Dropping it closes those that are left over.
#[derive(Debug, Default)]
pub(super) struct Inheritance {
    /// Listeners of a supervisor; they stand for `-p`, `-l` and `-s`.
    activated: Vec<Listener>,
    /// Listeners that the previous program opened itself.
    own: Vec<Listener>,
    /// Sockets of the native protocol.
    native: Vec<UdpSocket>,
    /// Sockets of memcached's protocols over UDP.
    udp: Vec<UdpSocket>,
    /// The listener of the admin side.
    admin: Option<Listener>,
    /// The memory of the partitions, in order.
    maps: Vec<Arc<OwnedFd>>,
    /// Locks of the directories where that memory is pinned.
    locks: Vec<File>,
    /// History and events of the console.
    history: Option<File>,
    /// The client that waits for the end of the restart.
    client: Option<Stream>,
    /// Time when the restart began, if this is one.
    began_ns: Option<u64>,
}

/// Gives the process the name of its file, if the kernel knows it by a descriptor's number, or as `exe`.
fn restore_name() {
    let is_number = |name: &[u8]| name.iter().all(u8::is_ascii_digit);
    let is_lost = get_name().is_ok_and(|name| is_number(name.to_bytes()) || name.as_c_str() == c"exe");
    let argument = std::env::args_os().next().map(PathBuf::from).filter(|_| is_lost);
    let name = argument.as_deref().and_then(Path::file_name).map(|name| name.as_bytes().to_vec());
    if let Some(Ok(name)) = name.map(CString::new) {
        // A mere name.
        let _ = set_name(&name);
    }
}

impl Inheritance {
    /// Takes the descriptors that the environment names.
    pub fn of_environment() -> Result<Self, Failure> {
        if let Some(handover) = Handover::received() {
            return Self::of_program(handover);
        }
        let mut this = Self::default();
        let Some(count) = descriptors_passed()? else {
            return Ok(this);
        };
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':').filter(|name| !name.is_empty());
        for number in FIRST..FIRST + count {
            let name = names.next().unwrap_or("unknown");
            let wrong = |what: &str| {
                Failure::system(format!(
                    "LISTEN_FDS: descriptor {number} ({name}) cannot be listened on: {what}"
                ))
            };
            match Inherited::take(number).map_err(|what| wrong(&what))? {
                Inherited::Listener(listener) => this.activated.push(listener),
                Inherited::Datagrams(_) => return Err(wrong("it is a UDP socket")),
                Inherited::Stream(_) => return Err(wrong("it is connected")),
            }
        }
        Ok(this)
    }

    fn of_program(handover: Handover) -> Result<Self, Failure> {
        restore_name();
        let mut this = Self::default();
        this.began_ns = Some(handover.began_ns);
        this.history = handover.history.and_then(|number| match Inherited::take_any(number) {
            Ok(taken) => Some(File::from(taken)),
            Err(reason) => {
                start!(WARN, "restart: the console's history cannot be taken over: {reason}");
                None
            }
        });
        for (heirloom, number) in handover.descriptors {
            let wrong = |what: String| {
                let kind = heirloom.name();
                Failure::system(format!("restart: descriptor {number} ({kind}): {what}"))
            };
            if let Heirloom::Map | Heirloom::Lock | Heirloom::Unknown = heirloom {
                let taken = Inherited::take_any(number).map_err(wrong)?;
                match heirloom {
                    Heirloom::Map => this.maps.push(Arc::new(taken)),
                    Heirloom::Lock => this.locks.push(File::from(taken)),
                    _ => drop(taken),
                }
                continue;
            }
            let taken = Inherited::take(number).map_err(wrong)?;
            match (heirloom, taken) {
                (Heirloom::Activated, Inherited::Listener(listener)) => {
                    this.activated.push(listener);
                }
                (Heirloom::Own, Inherited::Listener(listener)) => this.own.push(listener),
                (Heirloom::Native, Inherited::Datagrams(socket)) => this.native.push(socket),
                (Heirloom::Udp, Inherited::Datagrams(socket)) => this.udp.push(socket),
                (Heirloom::Admin, Inherited::Listener(listener)) => this.admin = Some(listener),
                (Heirloom::Client, Inherited::Stream(stream)) => this.client = Some(stream),
                (heirloom, _) => {
                    let kind = heirloom.name();
                    let text = format!("restart: descriptor {number} is of another kind: {kind}");
                    return Err(Failure::system(text));
                }
            }
        }
        Ok(this)
    }

    /// Returns whether another program ran in this process before.
    pub fn is_restart(&self) -> bool {
        self.began_ns.is_some()
    }

    /// Closes what the new configuration does not use. After a restart, logs how long nobody was served, and
    /// tells the client that asked for the restart.
    pub fn finish(&mut self, server: &Server) {
        self.close_rest();
        let Some(began_ns) = self.began_ns else {
            return;
        };
        let gap_ms = monotonic_ns().saturating_sub(began_ns) / 1_000_000;
        let items = server.shared.cache.stats().items_live;
        let text = format!("restarted in {gap_ms} ms, {items} items\n");
        info!("{}", text.trim_end());
        self.tell(Ok(text));
    }

    /// Tells the client that waits for the restart how it ended, once.
    pub fn tell(&mut self, answer: Result<String, String>) {
        if let Some(mut client) = self.client.take() {
            // The client may have gone.
            let _ = client.send(answer::text(&answer).as_bytes());
        }
    }

    fn close_rest(&mut self) {
        self.admin = None;
        self.history = None;
        self.own.drain(..).for_each(|it| it.remove_file());
        self.native.clear();
        self.udp.clear();
        self.maps.clear();
        self.locks.clear();
    }

    /// Takes the listeners of a supervisor, if there are any. They replace those of the settings.
    pub fn take_activated(&mut self, settings: &mut Settings) -> Vec<Listener> {
        if !self.activated.is_empty() {
            if !self.is_restart() {
                start!(
                    INFO,
                    "listening where the supervisor does (LISTEN_FDS): -p, -l and -s do not apply to \
                     streams, but for the marks of -l (mtls: and the like)"
                );
            }
            let addresses = self.activated.iter().filter_map(Listener::address);
            let tls = settings.tls.as_ref();
            let clients = tls.map_or(ClientCertificates::None, |tls| tls.options.clients);
            settings.listen.move_to(addresses.collect(), clients);
            let path = self.activated.iter().find_map(Listener::path);
            settings.unix_socket = path.map(Path::to_path_buf);
        }
        std::mem::take(&mut self.activated)
    }

    /// Takes the previous program's listener on an address; port 0 is any.
    pub fn take_tcp(&mut self, address: &SocketAddr) -> Option<Listener> {
        let is_there = |listener: &Listener| {
            let there = listener.address();
            there.is_some_and(|there| matches(&there, address))
        };
        let index = self.own.iter().position(is_there)?;
        Some(self.own.remove(index))
    }

    /// Takes the previous program's listener of the admin side, if it is on this address; port 0 is any.
    pub fn take_admin(&mut self, address: &SocketAddr) -> Option<Listener> {
        self.admin.take_if(|listener| {
            let there = listener.address();
            there.is_some_and(|there| matches(&there, address))
        })
    }

    /// Takes the history and the events that the previous program's console has left.
    pub fn take_history(&mut self) -> Option<File> {
        self.history.take()
    }

    /// Takes the previous program's listener on a Unix socket.
    pub fn take_unix(&mut self, path: &Path) -> Option<Listener> {
        let is_there = |listener: &Listener| listener.path() == Some(path);
        let index = self.own.iter().position(is_there)?;
        Some(self.own.remove(index))
    }

    /// Takes the previous program's socket of the native protocol at an address; port 0 is any.
    pub fn take_native(&mut self, address: &SocketAddr) -> Option<UdpSocket> {
        take_datagrams(&mut self.native, address)
    }

    /// Takes the memory of the previous program's image, if it lies in maps: one for each partition, in
    /// order.
    pub fn take_maps(&mut self) -> Vec<Arc<OwnedFd>> {
        std::mem::take(&mut self.maps)
    }

    /// Returns the number of maps that the previous program has left.
    pub fn map_count(&self) -> usize {
        self.maps.len()
    }

    /// Takes the previous program's locks of the directories where that memory is pinned. They are held as
    /// long as it is used.
    pub fn take_locks(&mut self) -> Vec<File> {
        std::mem::take(&mut self.locks)
    }

    /// Takes one of the previous program's sockets of memcached's protocols at an address; port 0 is any.
    pub fn take_udp(&mut self, address: &SocketAddr) -> Option<UdpSocket> {
        take_datagrams(&mut self.udp, address)
    }
}

impl Drop for Inheritance {
    /// Closes what is left, also when the server does not start.
    fn drop(&mut self) {
        self.close_rest();
    }
}

/// Returns what a program after this one goes on with, for its trial.
pub(super) fn running(
    server: &Server,
    acceptor: &Acceptor,
    (native, udp, admin): (Option<&Sockets>, Option<&UdpSockets>, Option<SocketAddr>),
    paths: Vec<PathBuf>,
) -> Running {
    let (activated, own) = acceptor.split();
    let tcp = own.iter().filter_map(Listener::address).map(|at| (Heirloom::Own, at));
    let native = native.into_iter().flat_map(|sockets| sockets.iter().flatten());
    let native = native.filter_map(|socket| Some((Heirloom::Native, socket.local_addr().ok()?)));
    let udp = udp.into_iter().flatten().flatten();
    let udp = udp.filter_map(|socket| Some((Heirloom::Udp, socket.local_addr().ok()?)));
    let admin = admin.map(|at| (Heirloom::Admin, at));
    let image = server.settings.image.as_ref().and_then(|path| File::open(path).ok());
    let of_clients = own.iter().filter_map(Listener::path).map(Path::to_path_buf);
    Running {
        is_activated: !activated.is_empty(),
        image: image.as_ref().and_then(place),
        sockets: tcp.chain(native).chain(udp).chain(admin).collect(),
        paths: of_clients.chain(paths).collect(),
    }
}

/// Executes the program anew in this process, with the sockets that it serves. Returns only when
/// that fails.
pub(super) fn pass_on(
    server: &Server,
    acceptor: &Acceptor,
    native: Option<&Sockets>,
    udp: &[OwnedFd],
    admin: Option<&Left>,
) -> Failure {
    let waiting = server.restart.take_waiting();
    let (activated, own) = acceptor.split();
    let native = native.into_iter().flat_map(|sockets| sockets.iter().flatten());
    let mut kept: Vec<(Heirloom, BorrowedFd<'_>)> = Vec::new();
    kept.extend(activated.iter().map(|it| (Heirloom::Activated, it.as_fd())));
    kept.extend(own.iter().map(|it| (Heirloom::Own, it.as_fd())));
    kept.extend(native.map(|it| (Heirloom::Native, it.as_fd())));
    kept.extend(udp.iter().map(|it| (Heirloom::Udp, it.as_fd())));
    kept.extend(admin.map(|it| (Heirloom::Admin, it.listener.as_fd())));
    let maps = server.shared.cache.maps();
    kept.extend(maps.iter().map(|it| (Heirloom::Map, it.as_fd())));
    let locks = server.pin_locks.iter();
    kept.extend(locks.map(|it| (Heirloom::Lock, it.as_fd())));
    kept.extend(waiting.opened.iter().map(|(kind, it)| (*kind, it.as_fd())));
    kept.extend(waiting.client.iter().map(|it| (Heirloom::Client, it.as_fd())));
    let failure = |what: &dyn Display| Failure::system(format!("cannot restart: {what}"));
    let mut handover = Handover::begin(waiting.began_ns);
    for (heirloom, descriptor) in kept {
        if let Err(error) = handover.add(heirloom, descriptor) {
            return failure(&error);
        }
    }
    // It stays open until the program has been executed.
    let history = admin.and_then(|admin| match history_file(&admin.history) {
        Ok(file) => Some(file),
        Err(error) => {
            warn!("the restart loses the console's history: {error}");
            None
        }
    });
    if let Some(file) = &history
        && let Err(error) = handover.add_history(file)
    {
        return failure(&error);
    }
    // The thread of the log ends with this program.
    log::finish();
    match server.restart.program() {
        Ok(program) => failure(&program.execute(&handover)),
        Err(reason) => failure(&reason),
    }
}

/// Returns a file in memory that begins with these bytes.
fn history_file(history: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create(c"micanite-history", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(history)?;
    file.rewind()?;
    Ok(file)
}

fn take_datagrams(sockets: &mut Vec<UdpSocket>, address: &SocketAddr) -> Option<UdpSocket> {
    let is_there = |socket: &UdpSocket| {
        let there = socket.local_addr();
        there.is_ok_and(|there| matches(&there, address))
    };
    let index = sockets.iter().position(is_there)?;
    Some(sockets.remove(index))
}

/// Returns the number of descriptors that systemd has passed to this very process.
fn descriptors_passed() -> Result<Option<RawFd>, Failure> {
    let own_pid = std::process::id().to_string();
    if std::env::var("LISTEN_PID").ok() != Some(own_pid) {
        return Ok(None);
    }
    let text = std::env::var("LISTEN_FDS").unwrap_or_default();
    match text.parse() {
        Ok(count) if (0..=COUNT_MAX).contains(&count) => Ok(Some(count)),
        _ => Err(Failure::system(format!("LISTEN_FDS: '{text}' is no number of descriptors"))),
    }
}
