//! A server from its options to its end.

mod acceptor;
mod cgroup;
mod exposure;
mod inheritance;
mod kernel_get;
mod listeners;
mod pins;
mod ports;
mod process;
mod report;
mod supervisor;
mod threads;

use std::process::ExitCode;
use std::sync::Arc;

use micanite_control::cores;
use micanite_control::log;
use micanite_engine::{Cache, Config, CreateError, CreateErrorKind, ImageState, Maps};
use micanite_net::bypass::Bypass;
use micanite_wire::native::CoreEntry;
use micanite_workload::recording::End;

use crate::configuration::{Arguments, Settings, UsageError};
use crate::control::balance::BalanceThread;
use crate::control::kernel_get::KernelGetThread;
use crate::control::restart::{Program, Restart, Trial};
use crate::control::{ControlThread, NoSocket, Socket};
use crate::native::{NativeShared, Sockets};
use crate::security::auth::Auth;
use crate::security::tls::TlsShared;
use crate::shared::Server;
use crate::shared::clock::{Clock, seconds, unix_now_s};
use crate::telemetry::admin::Admin;
use acceptor::Acceptor;
pub use cgroup::memory_limit_bytes;
use inheritance::Inheritance;
use kernel_get::Listening;
use supervisor::Supervisor;
use threads::Threads;

/// The image is damaged.
pub const EXIT_DAMAGED: u8 = 1;
/// The options are wrong.
pub const EXIT_USAGE: u8 = 64;
/// There is no such user.
pub const EXIT_NO_USER: u8 = 67;
/// The system refuses something.
pub const EXIT_SYSTEM: u8 = 71;

/// Why a server does not start.
#[derive(Debug)]
struct Failure {
    code: u8,
    text: String,
}

impl Failure {
    fn system(text: String) -> Self {
        Self { code: EXIT_SYSTEM, text }
    }
}

impl From<UsageError> for Failure {
    fn from(UsageError(text): UsageError) -> Self {
        Self { code: EXIT_USAGE, text }
    }
}

/// Runs a server to its end, and says how it ended.
pub fn serve(arguments: Arguments) -> ExitCode {
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { code, text }) => {
            log!("{text}");
            ExitCode::from(code)
        }
    }
}

fn run(arguments: Arguments) -> Result<(), Failure> {
    let print_config = arguments.print_config;
    let mut settings = Settings::of(&arguments.options()?, cores::physical())?;
    if print_config {
        if let Some(trial) = Trial::of_environment() {
            // A restart is not to end in a program that cannot read them.
            load_secrets(&settings)?;
            kernel_get::try_out(&settings, &trial)?;
            pins::try_out(&settings, &trial)?;
        }
        print!("{}", settings.options());
        return Ok(());
    }
    process::postpone_signals();
    // While the working directory is the one that relative paths are meant in.
    let program = Program::current();
    let supervisor = Supervisor::of_environment();
    let mut inheritance = Inheritance::of_environment()?;
    process::raise_file_limit(&mut settings, inheritance.map_count());
    let mut listeners = inheritance.take_activated(&mut settings);
    let activated = listeners.len();
    if activated == 0 {
        listeners.extend(listeners::open_tcp(&settings, &mut inheritance)?);
    }
    let sockets = listeners::open_native(&settings, &mut inheritance)?;
    process::leave_parent(&settings, inheritance.is_restart())?;
    let opened = ports::open(&mut settings);
    let (ports, queues) = opened.inspect_err(|failure| inheritance.tell(&failure.text))?;
    let udp = listeners::open_udp(&settings, &mut inheritance)?;
    let kept_udp = listeners::keep_udp(udp.as_ref()).map_err(cannot_start)?;
    cgroup::warn(report::bytes_max(&settings));
    let mut admin = Admin::new(listeners::open_admin(&settings, &mut inheritance)?);
    // The key may be root's alone, and passwords too.
    let (auth, tls) = load_secrets(&settings)?;
    let clock = Clock::start();
    let native = native(&settings, sockets.as_ref(), ports)?;
    let start_admin = |admin: &mut Admin| match settings.daemon {
        // A large image takes its time: whoever asks meanwhile shall hear it.
        false => admin.start().map_err(cannot_start),
        true => Ok(()),
    };
    let open = |maps| {
        let listening = Listening { udp: udp.as_ref(), native: sockets.as_ref().zip(native.as_ref()) };
        kernel_get::open(&settings, maps, listening, clock)
    };
    let mut locks = inheritance.take_locks();
    pins::lock(&settings, &mut locks).inspect_err(|failure| inheritance.tell(&failure.text))?;
    let maps = inheritance.take_maps();
    let (cache, kernel_get, is_as_started);
    if settings.kernel_get.is_some() {
        // The kernel's memory and its programs are for root.
        start_admin(&mut admin)?;
        (cache, kernel_get) = open(maps)?;
        is_as_started = process::become_user(&settings)?;
    } else {
        is_as_started = process::become_user(&settings)?;
        start_admin(&mut admin)?;
        (cache, kernel_get) = open(maps)?;
    }
    let image = OpenImage(Arc::clone(&cache));
    if activated == 0 {
        listeners.extend(listeners::open_unix(&settings, &mut inheritance)?);
    }
    process::become_daemon(&settings, inheritance.is_restart())?;
    // After the fork, which would not take the lock along.
    process::lock_and_core(&settings);
    // From here on the process id is the server's, and its threads stay.
    admin.start().map_err(cannot_start)?;
    let now_s = seconds(clock.now_ms());
    if let Some(native) = &native
        && let ImageState::Clean | ImageState::Recovered = cache.image_state()
    {
        // Items have outlived what was known of the requests that made them.
        native.ids.doubt(now_s);
    }
    settings.io.probe()?;
    let server = Server::new(settings, cache, native, now_s);
    let mut server = server.map_err(cannot_start)?;
    server.restart = Restart::new(program);
    server.pin_locks = locks;
    if !is_as_started && server.settings.bypass().is_some() {
        let reason = ports::cannot_come_back(&server.settings);
        server.restart.forbid(reason);
    }
    if let Some(state) = kernel_get {
        if !is_as_started && kernel_get::needs_rights(&server.settings, &state) {
            server.restart.forbid(kernel_get::cannot_come_back(&server.settings));
        }
        server.set_kernel_get(state);
    }
    server.tls = tls;
    server.auth = auth;
    let server = Arc::new(server);
    let acceptor = Acceptor::new(listeners, activated, supervisor, Arc::clone(&server));
    let mut acceptor = acceptor.map_err(cannot_start)?;
    acceptor.note_ports(udp.as_deref().unwrap_or_default())?;
    let socket = control_socket(&server).inspect_err(|_| acceptor.remove_files())?;
    let pidfile = process::write_pidfile(&server.settings)?;
    let threads = Threads::start(&server, clock, (sockets.clone(), queues), udp)
        .map_err(|error| Failure::system(format!("cannot start the workers: {error}")))?;
    let start = |socket| ControlThread::start(socket, &server, clock, threads.links[0].clone());
    let beside = || {
        let kernel_get = KernelGetThread::start(&server)?;
        let balance = BalanceThread::start(&server)?;
        Ok((socket.map(start).transpose()?, kernel_get, balance))
    };
    let (control, kernel_get, balance) = match beside() {
        Ok(threads) => threads,
        Err(error) => {
            threads.give_up(&server);
            return Err(cannot_start(error));
        }
    };
    admin.set_running(&server, clock);
    report::print(&server, &acceptor, &threads.cpus, control.as_ref(), admin.address());
    inheritance.finish(&server);
    acceptor.run(&threads);
    control.into_iter().for_each(ControlThread::end);
    balance.into_iter().for_each(BalanceThread::end);
    kernel_get.into_iter().for_each(KernelGetThread::end);
    threads.join(&server);
    // There may be none.
    let _ = server.shared.recorder.stop(End::Server);
    let admin = admin.end();
    drop(image);
    if server.restart.is_wanted() {
        let failure = inheritance::pass_on(&server, &acceptor, sockets.as_ref(), &kept_udp, admin.as_ref());
        acceptor.remove_files();
        return Err(failure);
    }
    acceptor.remove_files();
    drop(pidfile);
    log!("ended");
    Ok(())
}

/// An image that is open. Dropping it completes the image, after the last thread that writes it: a
/// start that fails leaves the image as it was found.
struct OpenImage(Arc<Cache>);

impl Drop for OpenImage {
    fn drop(&mut self) {
        if let Err(error) = self.0.close() {
            log!("the image could not be completed, the next start will check it: {error}");
        }
    }
}

/// Reads passwords, certificates and keys, as far as they are asked for.
fn load_secrets(settings: &Settings) -> Result<(Option<Auth>, Option<TlsShared>), Failure> {
    let auth = settings.auth.as_ref().map(Auth::new).transpose();
    let load = |tls| TlsShared::new(tls, unix_now_s());
    let tls = settings.tls.as_ref().map(load).transpose();
    Ok((auth.map_err(Failure::system)?, tls.map_err(Failure::system)?))
}

/// What workers share of the native protocol, if it is spoken.
fn native(
    settings: &Settings,
    sockets: Option<&Sockets>,
    ports: Vec<Bypass>,
) -> Result<Option<NativeShared>, Failure> {
    let Some(native) = &settings.native else {
        return Ok(None);
    };
    let cpus = cores::of_workers(settings.threads);
    let port = |worker: usize| match sockets.and_then(|sockets| sockets[worker].first()) {
        Some(socket) => socket.local_addr().map_or(0, |address| address.port()),
        None => native.port as u16 + worker as u16,
    };
    let core = |worker| CoreEntry {
        port: port(worker),
        node: cpus.get(worker).map_or(0, |cpu| cores::node_of(*cpu)),
    };
    let cores = (0..settings.threads).map(core).collect();
    let random = [process::random_seed()?, process::random_seed()?, process::random_seed()?];
    let shared = NativeShared::new(cores, native.payload_bytes, random);
    Ok(Some(match &native.bypass {
        Some(bypass) => {
            let shares = bypass.ports.iter().map(|port| port.workers.clone());
            shared.over(ports, shares.collect())
        }
        None => shared,
    }))
}

fn cannot_start(error: std::io::Error) -> Failure {
    Failure::system(format!("cannot start: {error}"))
}

/// The control socket, if there is to be one and can be.
fn control_socket(server: &Server) -> Result<Option<Socket>, Failure> {
    const ADVICE: &str = "--control-socket PATH chooses another one, none does without";
    match Socket::open(server) {
        Ok(socket) => Ok(Some(socket)),
        Err(NoSocket::Unwanted) => Ok(None),
        Err(NoSocket::Without(reason)) => {
            log!("no control socket: {reason}\n  {ADVICE}");
            Ok(None)
        }
        Err(NoSocket::Refused(reason)) => {
            Err(Failure::system(format!("failed to open the control socket {reason}\n  {ADVICE}")))
        }
    }
}

/// Why there is no cache, and what to do. Nobody is told to remove an image that may be in use.
fn no_cache(settings: &Settings, config: &Config, error: &CreateError) -> Failure {
    let pin = settings.kernel_get.as_ref().and_then(|of| of.pin.as_ref());
    let advice = match (error.kind(), &settings.image, &config.maps) {
        (CreateErrorKind::InUse, ..) => {
            "End that server first, or give this one an --image directory of its own."
        }
        (CreateErrorKind::Damaged, ..) => "Nothing in it has been changed.",
        (CreateErrorKind::NoSpace, ..) => "Less memory (-m), another directory, or more room there.",
        (CreateErrorKind::Exists, ..) => "Choose another directory.",
        (CreateErrorKind::Refused, Some(_), _) => "Another --image directory begins anew.",
        (CreateErrorKind::Refused, None, Some(_)) if pin.is_some() => {
            "Another --kernel-get-pin directory begins anew."
        }
        (CreateErrorKind::Refused, None, Some(_)) => {
            "What is stored outlives a restart in place (ctl restart) only under the same options."
        }
        (CreateErrorKind::Refused, None, None) => "Try less memory (-m).",
    };
    let code = match error.kind() {
        CreateErrorKind::Damaged => EXIT_DAMAGED,
        _ => EXIT_SYSTEM,
    };
    let text = format!("{error}\n  {advice}");
    Failure { code, text }
}

/// The cache, in these maps if there are any.
fn cache(settings: &Settings, maps: Option<Maps>) -> Result<Arc<Cache>, Failure> {
    let seed = match settings.hash_seed {
        Some(seed) => seed,
        None => process::random_seed()?,
    };
    let config = Config { maps, ..settings.engine(seed) };
    let cache = Cache::new(&config).map_err(|error| no_cache(settings, &config, &error))?;
    let cache = Arc::new(cache);
    if let Some(seed) = settings.hash_seed.filter(|seed| *seed != cache.seed()) {
        drop(OpenImage(cache));
        let text = format!("the image has another seed than {seed} (--hash-seed)");
        return Err(Failure::system(text));
    }
    cache.set_prefetch(settings.prefetch);
    Ok(cache)
}
