//! What the server works with: options that were checked, and what is derived from them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use micanite_engine::{Config, Eviction, Layout};

use super::size::{exact, parse};
use super::{Options, UsageError, Word, address};
use crate::limits::{
    CONNECTIONS_MAX, THREADS_MAX, TURN_REQUESTS_MAX, VALUE_BUFFER_BYTES_MIN, VALUE_BUFFERS_MIN,
};

const PORT_DEFAULT: i64 = 11211;
const MEMORY_BYTES_DEFAULT: usize = 64 << 20;
const ITEM_BYTES_DEFAULT: usize = 1 << 20;
const ITEM_BYTES_MIN: usize = 1 << 10;
const ITEM_BYTES_MAX: usize = 1 << 30;

/// Where TCP is listened on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The addresses; port 0 takes a free one. Empty: no TCP.
    pub addresses: Vec<SocketAddr>,
    /// As given with `-p`: -1 for a free one, 0 for no TCP.
    pub port: i64,
    /// As given with `-l`.
    pub words: Vec<String>,
}

/// See the module. [`Settings::of`] makes them; every value is in its range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// TCP addresses.
    pub listen: Listen,
    /// Unix socket.
    pub unix_socket: Option<PathBuf>,
    /// Permission bits of the Unix socket.
    pub unix_mode: u32,
    /// Items, headers and index stay within this.
    pub memory_bytes: usize,
    /// Worker threads.
    pub threads: usize,
    /// Connections at the same time.
    pub connections_max: usize,
    /// The largest value.
    pub item_bytes_max: usize,
    /// Requests of one connection in one turn.
    pub turn_requests_max: u32,
    /// Connections that may wait to be accepted.
    pub backlog: u32,
    /// How much is logged: 0 to 3.
    pub verbosity: u8,
    /// User to become.
    pub user: Option<String>,
    /// File for the process id, absolute.
    pub pidfile: Option<PathBuf>,
    /// Whether to run in the background.
    pub daemon: bool,
    /// Whether clients may end the server.
    pub shutdown_enabled: bool,
    /// Expected key and value bytes of an item.
    pub item_bytes_hint: Option<usize>,
    /// Eviction policy.
    pub eviction: Eviction,
    /// Budget of value buffers of one worker.
    pub value_buffer_bytes: usize,
    /// Seed of the key hash, if it is not to be drawn.
    pub hash_seed: Option<u64>,
    /// Whether batches prefetch.
    pub prefetch: bool,
}

impl Settings {
    /// Checks options. `cores` is what `-t` is by default.
    ///
    /// # Errors
    /// The first option that is wrong, in a sentence.
    pub fn of(options: &Options, cores: usize) -> Result<Self, UsageError> {
        refuse_udp(options)?;
        let threads = number("-t/--threads", &options.threads, cores, 1, THREADS_MAX)?;
        let memory_bytes = memory_limit(options)?;
        let mut settings = Self {
            listen: listen(options)?,
            unix_socket: options.unix_socket.as_ref().map(|word| (&word.0).into()),
            unix_mode: unix_mode(options)?,
            memory_bytes,
            threads,
            connections_max: number(
                "-c/--max-connections",
                &options.max_connections,
                1024,
                1,
                CONNECTIONS_MAX,
            )?,
            item_bytes_max: 0,
            turn_requests_max: number(
                "-R/--max-requests-per-event",
                &options.max_requests_per_event,
                64,
                1,
                TURN_REQUESTS_MAX,
            )? as u32,
            backlog: number(
                "-b/--listen-backlog",
                &options.listen_backlog,
                1024,
                1,
                i32::MAX as usize,
            )? as u32,
            verbosity: options.verbose.min(3),
            user: options.user.as_ref().map(|word| word.0.clone()),
            pidfile: options.pidfile.as_ref().map(|word| absolute(&word.0)),
            daemon: options.daemon.unwrap_or(false),
            shutdown_enabled: options.enable_shutdown.unwrap_or(false),
            item_bytes_hint: match &options.item_size {
                None => None,
                word => Some(number("--item-size", word, 0, 2, ITEM_BYTES_MAX)?),
            },
            eviction: eviction(options)?,
            value_buffer_bytes: 0,
            hash_seed: hash_seed(options)?,
            prefetch: !options.no_prefetch.unwrap_or(false),
        };
        settings.item_bytes_max = max_item_size(options, &settings)?;
        settings.value_buffer_bytes = value_buffers(options, settings.item_bytes_max)?;
        Ok(settings)
    }

    /// What the engine is told.
    pub fn engine(&self, seed: u64) -> Config {
        Config {
            memory_bytes: self.memory_bytes,
            item_bytes_hint: self.item_bytes_hint,
            value_bytes_max: self.item_bytes_max,
            workers: self.threads,
            eviction: self.eviction,
            seed,
            ..Config::default()
        }
    }

    /// The largest `-I` that this memory allows.
    pub fn item_bytes_allowed(&self) -> usize {
        let fits = |value_bytes_max| {
            let config = Config {
                value_bytes_max,
                ..self.engine(0)
            };
            Layout::of(&config).is_ok()
        };
        let (mut least, mut most) = (0, (self.memory_bytes / 2).min(ITEM_BYTES_MAX));
        while least < most {
            let middle = least + (most - least).div_ceil(2);
            if fits(middle) {
                least = middle
            } else {
                most = middle - 1
            }
        }
        least
    }

    /// The options that lead to these settings, each of them said.
    pub fn options(&self) -> Options {
        let word = |text: String| Some(Word(text));
        let path =
            |path: &Option<PathBuf>| path.as_ref().map(|path| Word(path.display().to_string()));
        Options {
            port: word(self.listen.port.to_string()),
            listen: self.listen.words.iter().cloned().map(Word).collect(),
            unix_socket: path(&self.unix_socket),
            unix_mask: word(format!("0{:o}", self.unix_mode)),
            memory_limit: word(exact(self.memory_bytes)),
            threads: word(self.threads.to_string()),
            max_connections: word(self.connections_max.to_string()),
            max_item_size: word(exact(self.item_bytes_max)),
            max_requests_per_event: word(self.turn_requests_max.to_string()),
            listen_backlog: word(self.backlog.to_string()),
            verbose: self.verbosity,
            udp_port: word("0".into()),
            user: self.user.clone().map(Word),
            pidfile: path(&self.pidfile),
            daemon: Some(self.daemon),
            enable_shutdown: Some(self.shutdown_enabled),
            item_size: self.item_bytes_hint.map(|bytes| Word(bytes.to_string())),
            eviction: word(self.eviction.name().into()),
            value_buffers: word(exact(self.value_buffer_bytes)),
            hash_seed: self.hash_seed.map(|seed| Word(seed.to_string())),
            no_prefetch: (!self.prefetch).then_some(true),
            config: None,
            print_config: false,
        }
    }
}

fn wrong<T>(name: &str, what: impl std::fmt::Display) -> Result<T, UsageError> {
    Err(UsageError(format!("{name}: {what}")))
}

fn number(
    name: &str,
    word: &Option<Word>,
    default: usize,
    least: usize,
    most: usize,
) -> Result<usize, UsageError> {
    let Some(Word(text)) = word else {
        return Ok(default.clamp(least, most));
    };
    match text.parse::<i64>().ok().map(usize::try_from) {
        Some(Ok(number)) if (least..=most).contains(&number) => Ok(number),
        Some(_) => wrong(
            name,
            format!("{text} is out of range, must be {least} to {most}"),
        ),
        None => wrong(name, format!("'{text}' is no number")),
    }
}

fn size(name: &str, word: &Word, unit_bytes: u64) -> Result<usize, UsageError> {
    parse(&word.0, unit_bytes).or_else(|what| wrong(name, what))
}

fn refuse_udp(options: &Options) -> Result<(), UsageError> {
    match &options.udp_port {
        Some(Word(text)) if text != "0" => wrong(
            "-U/--udp-port",
            "UDP is not served yet; leave the option out, and use -p for TCP",
        ),
        _ => Ok(()),
    }
}

fn listen(options: &Options) -> Result<Listen, UsageError> {
    // As with memcached, a Unix socket stands for TCP unless a port is asked for.
    let default = if options.unix_socket.is_some() {
        0
    } else {
        PORT_DEFAULT
    };
    let port = match &options.port {
        None => default,
        Some(Word(text)) => match text.parse() {
            Ok(port) if (-1..=65535).contains(&port) => port,
            _ => {
                return wrong(
                    "-p/--port",
                    format!("'{text}' is no port: 1 to 65535, 0 for none, -1 for a free one"),
                );
            }
        },
    };
    let mut words: Vec<_> = options
        .listen
        .iter()
        .flat_map(|word| word.0.split(',').map(str::trim).map(String::from))
        .collect();
    if words.is_empty() {
        words.push("127.0.0.1".into());
    }
    let mut addresses = Vec::new();
    if port != 0 {
        for word in &words {
            let found = address::resolve(word, port.max(0) as u16);
            addresses.extend(found.or_else(|what| wrong("-l/--listen", what))?);
        }
    }
    if addresses.is_empty() && options.unix_socket.is_none() {
        return wrong(
            "-p/--port",
            "0 means no TCP, and there is no Unix socket (-s) either",
        );
    }
    Ok(Listen {
        addresses,
        port,
        words,
    })
}

fn unix_mode(options: &Options) -> Result<u32, UsageError> {
    let Some(Word(text)) = &options.unix_mask else {
        return Ok(0o700);
    };
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => wrong(
            "-a/--unix-mask",
            format!("'{text}' is no octal mode, 0 to 777"),
        ),
    }
}

fn memory_limit(options: &Options) -> Result<usize, UsageError> {
    const NAME: &str = "-m/--memory-limit";
    const LEAST: usize = 1 << 20;
    const MOST: usize = 1 << 46;
    let Some(word) = &options.memory_limit else {
        return Ok(MEMORY_BYTES_DEFAULT);
    };
    let bytes = size(NAME, word, 1 << 20)?;
    if !(LEAST..=MOST).contains(&bytes) {
        return wrong(NAME, format!("{word} is out of range, must be 1m to 64t"));
    }
    Ok(bytes)
}

fn max_item_size(options: &Options, settings: &Settings) -> Result<usize, UsageError> {
    const NAME: &str = "-I/--max-item-size";
    let allowed = settings.item_bytes_allowed();
    let Some(word) = &options.max_item_size else {
        return Ok(ITEM_BYTES_DEFAULT.min(allowed));
    };
    let bytes = size(NAME, word, 1)?;
    if !(ITEM_BYTES_MIN..=ITEM_BYTES_MAX).contains(&bytes) {
        return wrong(NAME, format!("{word} is out of range, must be 1k to 1g"));
    }
    if bytes > allowed {
        let memory = super::size_text(settings.memory_bytes);
        let most = super::size_text(allowed);
        return wrong(
            NAME,
            format!("{word} is too large for {memory} of memory (-m), which allows {most}"),
        );
    }
    Ok(bytes)
}

fn value_buffers(options: &Options, item_bytes_max: usize) -> Result<usize, UsageError> {
    const NAME: &str = "--value-buffers";
    let Some(word) = &options.value_buffers else {
        return Ok((VALUE_BUFFERS_MIN * item_bytes_max).max(VALUE_BUFFER_BYTES_MIN));
    };
    let bytes = size(NAME, word, 1)?;
    if bytes < item_bytes_max {
        return wrong(
            NAME,
            format!("{word} is less than one of the largest values (-I)"),
        );
    }
    Ok(bytes)
}

fn eviction(options: &Options) -> Result<Eviction, UsageError> {
    let Some(Word(text)) = &options.eviction else {
        return Ok(Eviction::default());
    };
    text.parse()
        .or_else(|what: String| wrong("--eviction", what))
}

fn hash_seed(options: &Options) -> Result<Option<u64>, UsageError> {
    let Some(Word(text)) = &options.hash_seed else {
        return Ok(None);
    };
    match text.parse() {
        Ok(seed) => Ok(Some(seed)),
        Err(_) => wrong("--hash-seed", format!("'{text}' is no number of 64 bits")),
    }
}

/// A relative path, made independent of the working directory, which a daemon leaves.
fn absolute(path: &str) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| Path::new(path).into())
}
