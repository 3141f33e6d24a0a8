//! One option after the other: what is wrong with it, in a sentence that names it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use micanite_control::Balance;
use micanite_control::size::{self, parse};
use micanite_engine::{Access, Eviction, Semantics};
use micanite_wire::native::{PAYLOAD_BYTES, PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_MIN};

use super::settings::{ControlSocket, Listen, NativeSettings, Settings};
use super::tls::ListenTls;
use super::{IoSettings, Options, UsageError, Word, address, ports, udp};
use crate::limits::{RECEIVE_BUFFER_BYTES, VALUE_BUFFER_BYTES_MIN, VALUE_BUFFERS_MIN};

const PORT_DEFAULT: i64 = 11211;
const MEMORY_BYTES_DEFAULT: usize = 64 << 20;
const ITEM_BYTES_DEFAULT: usize = 1 << 20;
const ITEM_BYTES_MIN: usize = 1 << 10;
pub(super) const ITEM_BYTES_MAX: usize = 1 << 30;

fn wrong<T>(name: &str, what: impl std::fmt::Display) -> Result<T, UsageError> {
    Err(UsageError(format!("{name}: {what}")))
}

pub(super) fn number(
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
        Some(_) => wrong(name, format!("{text} is out of range, must be {least} to {most}")),
        None => wrong(name, format!("'{text}' is no number")),
    }
}

fn size(name: &str, word: &Word, unit_bytes: u64) -> Result<usize, UsageError> {
    parse(&word.0, unit_bytes).or_else(|what| wrong(name, what))
}

pub(super) fn listen(options: &Options) -> Result<Listen, UsageError> {
    // As with memcached, a Unix socket stands for TCP unless a port is asked for, and TCP takes the
    // port of UDP.
    let udp_port = udp::port(options)?;
    let default = match udp_port {
        _ if options.unix_socket.is_some() => 0,
        0 => PORT_DEFAULT,
        port => port,
    };
    let port = ports::tcp(options)?.unwrap_or(default);
    let mut words: Vec<_> =
        options.listen.iter().flat_map(|word| word.0.split(',').map(str::trim).map(String::from)).collect();
    if words.is_empty() {
        words.push("127.0.0.1".into());
    }
    let (mut addresses, mut tls) = (Vec::new(), Vec::new());
    if port != 0 {
        for word in &words {
            let found = address::resolve(word, port.max(0) as u16);
            addresses.extend(found.or_else(|what| wrong("-l/--listen", what))?);
            let kind = ListenTls::split(word).0.unwrap_or_default();
            tls.resize(addresses.len(), kind);
        }
    }
    let has_native =
        matches!(&options.native, Some(Word(text)) if text != "0") || !ports::names(options).is_empty();
    if addresses.is_empty() && options.unix_socket.is_none() && !has_native && udp_port == 0 {
        return wrong(
            "-p/--port",
            "0 means no TCP, and there is neither a Unix socket (-s), nor UDP (-U), nor the native protocol (--native)",
        );
    }
    Ok(Listen { addresses, tls, port, words })
}

pub(super) fn unix_mode(options: &Options) -> Result<u32, UsageError> {
    let Some(Word(text)) = &options.unix_mask else {
        return Ok(0o700);
    };
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => wrong("-a/--unix-mask", format!("'{text}' is no octal mode, 0 to 777")),
    }
}

pub(super) fn memory_limit(options: &Options) -> Result<usize, UsageError> {
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

pub(super) fn max_item_size(options: &Options, settings: &Settings) -> Result<usize, UsageError> {
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
        let memory = size::text(settings.memory_bytes);
        let most = size::text(allowed);
        let mut without = settings.clone();
        if without.kernel_get.take().is_some() && bytes <= without.item_bytes_allowed() {
            return wrong(
                NAME,
                format!(
                    "{word} is too large for the partitions of --kernel-get, which allow {most}; less, or no --kernel-get"
                ),
            );
        }
        return wrong(NAME, format!("{word} is too large for {memory} of memory (-m), which allows {most}"));
    }
    Ok(bytes)
}

pub(super) fn value_buffers(options: &Options, item_bytes_max: usize) -> Result<usize, UsageError> {
    const NAME: &str = "--value-buffers";
    let Some(word) = &options.value_buffers else {
        return Ok((VALUE_BUFFERS_MIN * item_bytes_max).max(VALUE_BUFFER_BYTES_MIN));
    };
    let bytes = size(NAME, word, 1)?;
    if bytes < item_bytes_max {
        return wrong(NAME, format!("{word} is less than one of the largest values (-I)"));
    }
    Ok(bytes)
}

/// `-M` is memcached's word for a store.
pub(super) fn semantics(options: &Options) -> Result<Semantics, UsageError> {
    const NAME: &str = "--semantics";
    let refuse = options.disable_evictions.unwrap_or(false);
    match &options.semantics {
        None if refuse => Ok(Semantics::Store),
        None => Ok(Semantics::default()),
        Some(Word(text)) => match text.parse() {
            Ok(Semantics::Cache) if refuse => wrong(NAME, "a cache evicts, which -M forbids"),
            parsed => parsed.or_else(|what: String| wrong(NAME, what)),
        },
    }
}

pub(super) fn access(options: &Options) -> Result<Access, UsageError> {
    by_name("--access", &options.access)
}

/// A store does not evict.
pub(super) fn eviction(options: &Options, semantics: Semantics) -> Result<Eviction, UsageError> {
    const NAME: &str = "--eviction";
    if semantics == Semantics::Store && options.eviction.is_some() {
        return wrong(NAME, "a store (--semantics store, -M) does not evict");
    }
    by_name(NAME, &options.eviction)
}

pub(super) fn balance(options: &Options) -> Result<Balance, UsageError> {
    by_name("--balance", &options.balance)
}

pub(super) fn admin(options: &Options) -> Result<Option<SocketAddr>, UsageError> {
    match &options.admin {
        None => Ok(None),
        Some(Word(text)) => super::admin::admin(text).or_else(|what| wrong("--admin", what)),
    }
}

pub(super) fn io(options: &Options) -> Result<IoSettings, UsageError> {
    let choice = by_name("--io", &options.io)?;
    Ok(IoSettings { choice, refused: None })
}

fn by_name<T>(name: &str, word: &Option<Word>) -> Result<T, UsageError>
where
    T: Default + std::str::FromStr<Err = String>,
{
    match word {
        None => Ok(T::default()),
        Some(Word(text)) => text.parse().or_else(|what: String| wrong(name, what)),
    }
}

pub(super) fn native(options: &Options, settings: &Settings) -> Result<Option<NativeSettings>, UsageError> {
    const NAME: &str = "--native";
    let bypass = ports::bypass(options, settings.threads)?;
    let port = match &options.native {
        _ if bypass.is_some() => ports::native_port(options)?,
        None => 0,
        Some(Word(text)) => match text.parse::<i64>() {
            Ok(port) if (-1..=65535).contains(&port) => port,
            _ => return wrong(NAME, format!("'{text}' is no port: 1 to 65535, 0 for none")),
        },
    };
    let threads = settings.threads;
    let last = port + threads as i64 - 1;
    if port > 0 && last > 65535 {
        return wrong(
            NAME,
            format!("{port} is too high: with {threads} workers (-t) the last port would be {last}"),
        );
    }
    let payload_bytes = number(
        "--native-payload",
        &options.native_payload,
        PAYLOAD_BYTES,
        PAYLOAD_BYTES_MIN,
        PAYLOAD_BYTES_MAX,
    )?;
    let gro = match options.native_gro.as_ref().map(|word| word.0.as_str()) {
        None | Some("on") => true,
        Some("off") => false,
        Some(text) => return wrong("--native-gro", format!("'{text}' is neither on nor off")),
    };
    let busy_poll = &options.native_busy_poll;
    let busy_poll_us = number("--native-busy-poll", busy_poll, 0, 0, 1_000_000)? as u32;
    let queue_bytes = match &options.native_queue {
        None => RECEIVE_BUFFER_BYTES,
        Some(word) => size("--native-queue", word, 1)?,
    };
    if !(4096..=1 << 30).contains(&queue_bytes) {
        return wrong("--native-queue", format!("{queue_bytes} is out of range, must be 4k to 1g"));
    }
    if port == 0 {
        return Ok(None);
    }
    if bypass.is_some() && busy_poll_us > 0 {
        return wrong(
            "--native-busy-poll",
            "it is for the kernel's sockets; ports around the kernel have --port-busy-poll",
        );
    }
    let mut addresses = Vec::new();
    // Ports around the kernel have their own.
    let words = &settings.listen.words;
    for word in words.iter().filter(|_| bypass.is_none()) {
        let found = address::resolve(word, 1).or_else(|what| wrong("-l/--listen", what))?;
        for ip in found.iter().map(SocketAddr::ip) {
            if !addresses.contains(&ip) {
                addresses.push(ip);
            }
        }
    }
    Ok(Some(NativeSettings {
        addresses,
        port,
        payload_bytes,
        gro,
        queue_bytes,
        busy_poll_us,
        bypass,
        payload_is_default: options.native_payload.is_none(),
    }))
}

/// A byte that can stand in a key.
pub(super) fn namespace_delimiter(options: &Options) -> Result<u8, UsageError> {
    let Some(Word(text)) = &options.namespace_delimiter else {
        return Ok(b':');
    };
    match text.as_bytes() {
        [byte] if byte.is_ascii_graphic() => Ok(*byte),
        _ => wrong("-D/--namespace-delimiter", format!("'{text}' is not one printable ASCII character")),
    }
}

pub(super) fn image(options: &Options) -> Result<Option<PathBuf>, UsageError> {
    match &options.image {
        None => Ok(None),
        Some(Word(text)) if text.is_empty() => wrong("--image", "the path is empty; 'none' for none"),
        Some(Word(text)) if text == "none" => Ok(None),
        Some(Word(text)) => Ok(Some(absolute(text))),
    }
}

pub(super) fn control_socket(options: &Options) -> Result<ControlSocket, UsageError> {
    match &options.control_socket {
        None => Ok(ControlSocket::Derived),
        Some(Word(text)) => match text.as_str() {
            "" => wrong("--control-socket", "the path is empty; 'none' for none"),
            "none" => Ok(ControlSocket::None),
            path => Ok(ControlSocket::At(absolute(path))),
        },
    }
}

pub(super) fn hash_seed(options: &Options) -> Result<Option<u64>, UsageError> {
    let Some(Word(text)) = &options.hash_seed else {
        return Ok(None);
    };
    match text.parse() {
        Ok(seed) => Ok(Some(seed)),
        Err(_) => wrong("--hash-seed", format!("'{text}' is no number of 64 bits")),
    }
}

/// A relative path, made independent of the working directory, which a daemon leaves.
pub(super) fn absolute(path: &str) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| Path::new(path).into())
}
