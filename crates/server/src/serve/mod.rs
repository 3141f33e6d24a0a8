//! A server from its options to its end.

mod acceptor;
mod fabric;
mod inheritance;
mod kernel_get;
mod listeners;
mod local;
mod opened;
mod ports;
mod process;
mod report;
mod supervisor;
mod threads;
mod trial;
mod warnings;

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use micanite_control::nodes::Nodes;
use micanite_control::{Placement, cores, size};
use micanite_engine::{Cache, Config, CreateError, CreateErrorKind, Maps};
use micanite_net::{Listener, Stream};
use micanite_workload::recording::End;

use crate::configuration::{Arguments, Settings, UsageError};
use crate::control::balance::BalanceThread;
use crate::control::kernel_get::KernelGetThread;
use crate::control::local::LocalThread;
use crate::control::numa::{Found, NumaThread};
use crate::control::reload::Reloader;
use crate::control::restart::{Program, Restart, Trial};
use crate::control::{ControlThread, Executor, NoSocket, Socket};
use crate::native::NativeShared;
use crate::native::fabric::FabricPort;
use crate::shared::Server;
use crate::shared::clock::{Clock, seconds};
use crate::telemetry::log::{self, error, info, start};
use acceptor::Acceptor;
use inheritance::Inheritance;
use opened::{Memory, Opened};
pub use process::SIGNALS;
pub use process::memory_limit_bytes;
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

/// Reason why a server does not start.
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
    log::begin();
    let code = match run(arguments) {
        Ok(()) => 0,
        Err(Failure { code, text }) => {
            // Without a thread this waits for the reader of standard error.
            let _ = log::begin_thread();
            start!(ERROR, "{text}");
            code
        }
    };
    log::finish();
    micanite_fabric::end_beside_given_up(code);
    ExitCode::from(code)
}

/// Chooses the CPUs of the workers. Flow rules of a NIC bring datagrams of the native protocol to theirs.
fn placement(settings: &Settings) -> Result<Placement, UsageError> {
    let (machine, steered) = ((&cores::allowed()[..], &Nodes::here()), settings.native.is_some());
    let placed = Placement::of(&settings.pin, settings.threads, steered, machine);
    placed.map_err(|what| settings.options().pin.wrong(what))
}

fn run(arguments: Arguments) -> Result<(), Failure> {
    let print_config = arguments.print_config;
    let settings = arguments.options().and_then(|options| {
        let mut settings = Settings::of(&options, cores::physical())?;
        settings.placement = placement(&settings)?;
        Ok(settings)
    });
    if print_config {
        return print(settings?);
    }
    let mut inheritance = Inheritance::of_environment()?;
    let ended = settings.map_err(Failure::from).and_then(|settings| run_server(settings, &mut inheritance));
    ended.inspect_err(|failure| inheritance.tell(Err(failure.text.clone())))
}

fn run_server(mut settings: Settings, inheritance: &mut Inheritance) -> Result<(), Failure> {
    log::set_format(settings.log_format);
    log::lift_limits(settings.verbosity > 1);
    log::set_verbosity(settings.verbosity);
    process::postpone_signals();
    if !settings.daemon {
        log::begin_thread().map_err(cannot_start)?;
    }
    // While the working directory is the one that relative paths are meant in.
    let program = Program::current();
    let supervisor = Supervisor::of_environment();
    process::raise_file_limit(&mut settings, inheritance.map_count());
    settings.nodes = Found::here(settings.numa, settings.placement.homes());
    let mut opened = Opened::new(&mut settings, inheritance)?;
    let memory = opened.memory(&settings, inheritance)?;
    let image = OpenImage(Arc::clone(&memory.cache));
    if opened.activated == 0 {
        opened.listeners.extend(listeners::open_unix(&settings, inheritance)?);
    }
    process::become_daemon(&settings, inheritance.is_restart())?;
    // After the fork, which would not take the lock along.
    process::lock_and_core(&settings);
    // From here on the process id is the server's, and its threads stay.
    log::begin_thread().map_err(cannot_start)?;
    opened.start_admin(&settings, inheritance)?;
    settings.io.probe()?;
    let Opened { listeners, activated, sockets, queues, native, udp, kept_udp, admin, auth, tls, clock } =
        opened;
    let mut server = server(settings, memory, native, (Restart::new(program), clock))?;
    (server.auth, server.tls) = (auth, tls);
    let fabrics = open_fabric(&mut server, inheritance.is_restart(), clock)?;
    server.shared.local = local::share(&server.settings, &server.shared.cache, seconds(clock.now_ms()))?;
    let local_listener = local::listen(&server.settings)?;
    let server = Arc::new(server);
    let (streams, of_readers) = channel();
    let acceptor = Acceptor::new(listeners, activated, supervisor, Arc::clone(&server), of_readers);
    let mut acceptor = acceptor.map_err(cannot_start)?;
    acceptor.note_ports(udp.as_deref().unwrap_or_default())?;
    let socket = control_socket(&server).inspect_err(|_| acceptor.remove_files())?;
    let pidfile = process::write_pidfile(&server.settings)?;
    let paths = socket.iter().map(|socket| socket.path().to_owned());
    let paths = paths.chain(server.settings.local.iter().map(|local| local.path.clone())).collect();
    let listening = (sockets.as_ref(), udp.as_ref(), admin.address().map(|(address, _)| address));
    server.restart.set_running(inheritance::running(&server, &acceptor, listening, paths));
    let threads = Threads::start(&server, clock, (sockets.clone(), queues), (udp, fabrics))
        .map_err(|error| Failure::system(format!("cannot start the workers: {error}")))?;
    let helpers = match Helpers::start((socket, local_listener.zip(Some(streams))), &server, clock, &threads)
    {
        Ok(helpers) => helpers,
        Err(error) => {
            threads.give_up(&server);
            return Err(cannot_start(error));
        }
    };
    admin.set_running(Executor { server: Arc::clone(&server), clock, worker: threads.links[0].clone() });
    report::print(&server, &acceptor, helpers.control.as_ref(), admin.address());
    inheritance.finish(&server);
    acceptor.run(&threads);
    helpers.end();
    threads.join(&server);
    log::end_limits();
    // Probes are answered until here. An action that was taken before the end has ended after this.
    let admin = admin.end();
    // There may be none.
    let _ = server.shared.recorder.stop(End::Server);
    drop(image);
    if server.restart.is_wanted() {
        let failure = inheritance::pass_on(&server, &acceptor, sockets.as_ref(), &kept_udp, admin.as_ref());
        acceptor.remove_files();
        return Err(failure);
    }
    acceptor.remove_files();
    drop(pidfile);
    info!("ended");
    Ok(())
}

/// Prints the configuration. A restart first tries out what its program will need: it is not to end in one
/// that cannot start.
fn print(mut settings: Settings) -> Result<(), Failure> {
    if let Some(trial) = Trial::of_environment() {
        log::log_errors_only();
        trial::run(&mut settings, trial)?;
    }
    print!("{}", settings.options());
    Ok(())
}

/// Joins all into what threads share. A restart is forbidden where it would need rights that are given up.
fn server(
    settings: Settings,
    memory: Memory,
    native: Option<NativeShared>,
    (restart, clock): (Restart, Clock),
) -> Result<Server, Failure> {
    let now_s = seconds(clock.now_ms());
    // Before other processes, and the program in the kernel, read the memory.
    memory.cache.flush_if_due(now_s);
    if let Some(native) = &native {
        doubt(native, &memory.cache, now_s);
    }
    let mut server = Server::new(settings, memory.cache, native, now_s).map_err(cannot_start)?;
    server.restart = restart;
    server.pin_locks = memory.locks;
    if !memory.is_as_started && server.settings.bypass().is_some() {
        let reason = ports::cannot_come_back(&server.settings);
        server.restart.forbid(reason);
    }
    if let Some(state) = memory.kernel_get {
        if !memory.is_as_started && kernel_get::needs_rights(&server.settings, &state) {
            server.restart.forbid(kernel_get::cannot_come_back(&server.settings));
        }
        server.set_kernel_get(state);
    }
    Ok(server)
}

/// Doubts requests that may have been executed before, if items have outlived what was known of them.
fn doubt(native: &NativeShared, cache: &Cache, now_s: u32) {
    if cache.image_state().is_kept() {
        native.ids.doubt(now_s);
    }
}

/// Opens the cache area and the endpoints of a fabric.
fn open_fabric(server: &mut Server, is_restart: bool, clock: Clock) -> Result<Vec<FabricPort>, Failure> {
    let (settings, shared) = (&server.settings, &mut server.shared);
    let fabric = fabric::share(settings, &shared.cache)?;
    if let Some(fabric) = &fabric {
        doubt(&fabric.native, &shared.cache, seconds(clock.now_ms()));
    }
    shared.fabric = fabric;
    fabric::open(settings, shared.fabric.as_ref(), is_restart)
}

/// Threads beside the workers.
struct Helpers {
    control: Option<ControlThread>,
    kernel_get: Option<KernelGetThread>,
    balance: Option<BalanceThread>,
    local: Option<LocalThread>,
    numa: Option<NumaThread>,
}

impl Helpers {
    fn start(
        (socket, local): (Option<Socket>, Option<(Listener, Sender<Stream>)>),
        server: &Arc<Server>,
        clock: Clock,
        threads: &Threads,
    ) -> io::Result<Self> {
        if server.tls.is_some() || server.auth.is_some() {
            Reloader::start(server)?;
        }
        let kernel_get = KernelGetThread::start(server)?;
        let balance = BalanceThread::start(server)?;
        let numa = NumaThread::start(server)?;
        let start = |socket| ControlThread::start(socket, server, clock, threads.links[0].clone());
        let control = socket.map(start).transpose()?;
        let start = |(listener, streams)| LocalThread::start(listener, server, streams);
        Ok(Self { control, kernel_get, balance, numa, local: local.map(start).transpose()? })
    }

    fn end(self) {
        self.local.into_iter().for_each(LocalThread::end);
        self.control.into_iter().for_each(ControlThread::end);
        self.balance.into_iter().for_each(BalanceThread::end);
        self.numa.into_iter().for_each(NumaThread::end);
        self.kernel_get.into_iter().for_each(KernelGetThread::end);
    }
}

/// An image that is open. Dropping it completes the image, after the last thread that writes it: a
/// start that fails leaves the image as it was found.
struct OpenImage(Arc<Cache>);

impl Drop for OpenImage {
    fn drop(&mut self) {
        if let Err(error) = self.0.close() {
            error!("the image could not be completed, the next start will check it: {error}");
        }
    }
}

fn cannot_start(error: io::Error) -> Failure {
    Failure::system(format!("cannot start: {error}"))
}

/// The control socket, if there is to be one and can be.
fn control_socket(server: &Server) -> Result<Option<Socket>, Failure> {
    match Socket::open(server) {
        Ok(socket) => Ok(Some(socket)),
        Err(NoSocket::Unwanted) => Ok(None),
        Err(NoSocket::Without(reason)) => {
            start!(WARN, "no control socket: {reason}\n  {CONTROL_ADVICE}");
            Ok(None)
        }
        Err(NoSocket::Refused(reason)) => Err(no_control_socket(&reason)),
    }
}

const CONTROL_ADVICE: &str = "--control-socket PATH chooses another one, none does without";

fn no_control_socket(reason: &str) -> Failure {
    Failure::system(format!("failed to open the control socket {reason}\n  {CONTROL_ADVICE}"))
}

/// Describes why there is no cache, and the remedy. Never advises to remove an image that may be in use.
fn no_cache(settings: &Settings, config: &Config, error: &CreateError) -> Failure {
    let pin = settings.kernel_get.as_ref().and_then(|of| of.pin.as_ref());
    let advice = match (error.kind(), &settings.image, &config.maps) {
        (CreateErrorKind::InUse, ..) => {
            "End that server first, or give this one an --image directory of its own."
        }
        (CreateErrorKind::Damaged, ..) => "Another --image directory begins empty.",
        (CreateErrorKind::NoSpace, ..) => "Less memory (-m), another directory, or more room there.",
        (CreateErrorKind::Exists, ..) => "Choose another directory.",
        (CreateErrorKind::Refused | CreateErrorKind::Mismatch, Some(_), _) => {
            "Another --image directory begins empty; what is stored stays in this one."
        }
        (CreateErrorKind::Refused | CreateErrorKind::Mismatch, None, Some(_)) if pin.is_some() => {
            "Another --kernel-get-pin directory begins empty; what is stored stays in this one."
        }
        (CreateErrorKind::Refused | CreateErrorKind::Mismatch, None, Some(_)) => {
            "What is stored outlives a restart in place (ctl restart) only under the same options."
        }
        (CreateErrorKind::Refused | CreateErrorKind::Mismatch, None, None) => "Try less memory (-m).",
    };
    let code = match error.kind() {
        CreateErrorKind::Damaged => EXIT_DAMAGED,
        // The next start would refuse it, too: a service manager is not to try again.
        CreateErrorKind::Mismatch => EXIT_USAGE,
        _ => EXIT_SYSTEM,
    };
    Failure { code, text: format!("{error}\n  {advice}") }
}

/// The cache, in these maps if there are any.
fn cache(settings: &Settings, maps: Option<Maps>) -> Result<Arc<Cache>, Failure> {
    let seed = match settings.hash_seed {
        Some(seed) => seed,
        None => process::random_seed()?,
    };
    let config = Config { maps, on_resize: Some(report::resizing), ..settings.engine(seed) };
    if settings.memory_bytes_max > settings.memory_bytes
        && let Ok(Some((_, layout))) = Cache::try_out(&config, false)
    {
        growth_fits(settings, layout.partitions, layout.growth_bytes(&config))?;
    }
    let cache = Arc::new(Cache::new(&config).map_err(|error| no_cache(settings, &config, &error))?);
    let fits = growth_fits(settings, cache.layout().partitions, cache.growth_bytes());
    if let Err(failure) = fits.and_then(|()| hash_seed_fits(settings, cache.seed())) {
        drop(OpenImage(cache));
        return Err(failure);
    }
    cache.set_prefetch(settings.prefetch);
    Ok(cache)
}

/// Checks what the partitions of an image take beside the limit: there may be more than new ones would be.
fn growth_fits(settings: &Settings, partitions: usize, bytes: usize) -> Result<(), Failure> {
    if bytes <= settings.memory_bytes {
        return Ok(());
    }
    let text = format!(
        "the image has {partitions} partitions, which may take {} beside the limit, more than -m, {}: the \
         limit can rise to {} (--memory-max)\n  -m {} suffices for that, or choose a lower --memory-max.",
        size::text(bytes),
        size::text(settings.memory_bytes),
        size::text(settings.memory_bytes_max),
        bytes.div_ceil(1 << 20)
    );
    Err(Failure { code: EXIT_USAGE, text })
}

/// Checks the seed that an image has.
fn hash_seed_fits(settings: &Settings, found: u64) -> Result<(), Failure> {
    let Some(seed) = settings.hash_seed.filter(|seed| *seed != found) else {
        return Ok(());
    };
    Err(Failure { code: EXIT_USAGE, text: format!("the image has another seed than {seed} (--hash-seed)") })
}
