//! Checks of options that the declaration cannot express: what is wrong, in a sentence that names the option.

use std::path::{Path, PathBuf};

use micanite_control::{Pin, size};
use micanite_engine::{Config, Eviction, Semantics};

use super::settings::{ControlSocket, Listen, Settings};
use super::tls::ListenTls;
use super::{Options, UsageError, Value, address};
use crate::limits::{THREADS_MAX, VALUE_BUFFER_BYTES_MIN, VALUE_BUFFERS_MIN};
use crate::telemetry::log::LogFormat;

const PORT_DEFAULT: i64 = 11211;
const ITEM_BYTES_DEFAULT: usize = 1 << 20;

pub(super) fn listen(options: &Options) -> Result<Listen, UsageError> {
    // As with memcached, a Unix socket stands for TCP unless a port is asked for, and TCP takes the
    // port of UDP.
    let udp_port = options.udp_port.port()?;
    let default = match udp_port {
        _ if options.unix_socket.is_said() => 0,
        0 => PORT_DEFAULT,
        port => port,
    };
    let port = if options.port.is_said() { options.port.port()? } else { default };
    let words: Vec<_> = options.listen.list().map(String::from).collect();
    if words.is_empty() {
        return Err(options.listen.wrong("it names no address; leave it out for 127.0.0.1"));
    }
    let (mut addresses, mut tls) = (Vec::new(), Vec::new());
    if port != 0 {
        for word in &words {
            let found = address::resolve(word, port.max(0) as u16);
            addresses.extend(found.map_err(|what| options.listen.wrong(what))?);
            let kind = ListenTls::split(word).0.unwrap_or_default();
            tls.resize(addresses.len(), kind);
        }
    }
    let has_native = options.native.text() != Some("0") || options.bypass.parts().next().is_some();
    if addresses.is_empty() && !options.unix_socket.is_said() && !has_native && udp_port == 0 {
        return Err(options.port.wrong(
            "0 means no TCP, and there is neither a Unix socket (-s), nor UDP (-U), nor the native protocol \
             (--native)",
        ));
    }
    Ok(Listen { addresses, tls, port, words })
}

pub(super) fn unix_mode(option: &Value) -> Result<u32, UsageError> {
    let text = option.text().unwrap_or_default();
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| option.wrong(format!("'{text}' is no octal mode, 0 to 777")))
}

/// Returns the form of the lines of the log.
pub(super) fn log_format(option: &Value) -> Result<LogFormat, UsageError> {
    Ok(match option.choice()? {
        "json" => LogFormat::Json,
        _ => LogFormat::Text,
    })
}

pub(super) fn pin(option: &Value) -> Result<Pin, UsageError> {
    option.text().unwrap_or_default().parse().map_err(|what: String| option.wrong(what))
}

/// Returns the level of the log, 0 to 3.
pub(super) fn verbosity(option: &Value) -> Result<u8, UsageError> {
    let text = option.text().unwrap_or_default();
    let level = text.parse::<u8>().map_err(|_| option.wrong(format!("'{text}' is no level, 0 to 3")));
    level.map(|level| level.min(3))
}

pub(super) fn max_item_size(option: &Value, settings: &Settings) -> Result<usize, UsageError> {
    let allowed = settings.item_bytes_allowed();
    let Some(text) = option.text() else {
        return Ok(ITEM_BYTES_DEFAULT.min(allowed));
    };
    let bytes = option.number()?;
    if bytes <= allowed {
        return Ok(bytes);
    }
    let memory = size::text(settings.memory_bytes);
    let most = size::text(allowed);
    let mut without = settings.clone();
    let is_kernel = without.kernel_get.take().is_some() && bytes <= without.item_bytes_allowed();
    Err(option.wrong(match is_kernel {
        true => format!(
            "{text} is too large for the partitions of --kernel-get, which allow {most}; less, or no \
             --kernel-get"
        ),
        false => format!("{text} is too large for {memory} of memory (-m), which allows {most}"),
    }))
}

/// Returns the most memory that the limit can be raised to. It needs memory that comes when it is used.
pub(super) fn memory_max(options: &Options, settings: &Settings) -> Result<usize, UsageError> {
    let option = &options.memory_max;
    if !option.is_said() {
        return Ok(settings.memory_bytes);
    }
    let most = option.number()?;
    let memory = size::text(settings.memory_bytes);
    if most < settings.memory_bytes {
        return Err(option.wrong(format!("{} is less than -m, {memory}", size::text(most))));
    }
    let fixed = [
        (settings.kernel_get.is_some(), "--kernel-get has maps of the kernel, which keep their size"),
        (
            settings.local.is_some() && settings.image.is_none(),
            "--local without --image has sealed memory, which keeps its size",
        ),
        (settings.switches.lock_memory, "-k would lock all of it"),
    ];
    if let Some((_, why)) = fixed.into_iter().find(|(is_so, _)| *is_so && most > settings.memory_bytes) {
        return Err(option.wrong(format!("{why}; leave it out, or choose -m as large")));
    }
    let growth = Config { memory_bytes_max: Some(most), ..settings.engine(0) }.growth_bytes();
    match growth.map_err(|error| option.wrong(error))? {
        bytes if bytes > settings.memory_bytes => Err(option.wrong(format!(
            "for {} the server may take {} beside the limit, more than -m, {memory}; less, or a larger -m",
            size::text(most),
            size::text(bytes)
        ))),
        _ => Ok(most),
    }
}

pub(super) fn value_buffers(option: &Value, item_bytes_max: usize) -> Result<usize, UsageError> {
    let Some(text) = option.text() else {
        return Ok((VALUE_BUFFERS_MIN * item_bytes_max).max(VALUE_BUFFER_BYTES_MIN));
    };
    match option.number()? {
        bytes if bytes < item_bytes_max => {
            Err(option.wrong(format!("{text} is less than one of the largest values (-I)")))
        }
        bytes => Ok(bytes),
    }
}

/// Returns the number of workers: by default one for each core.
pub(super) fn threads(options: &Options, cores: usize) -> Result<usize, UsageError> {
    if options.threads.is_said() { options.threads.number() } else { Ok(cores.clamp(1, THREADS_MAX)) }
}

/// `-M` is memcached's word for a store.
pub(super) fn semantics(options: &Options) -> Result<Semantics, UsageError> {
    let option = &options.semantics;
    let semantics = option.parse()?;
    match options.disable_evictions.is_on()? {
        true if option.is_said() && semantics == Semantics::Cache => {
            Err(option.wrong("a cache evicts, which -M forbids"))
        }
        true => Ok(Semantics::Store),
        false => Ok(semantics),
    }
}

/// A store does not evict.
pub(super) fn eviction(option: &Value, semantics: Semantics) -> Result<Eviction, UsageError> {
    if semantics == Semantics::Store && option.is_said() {
        return Err(option.wrong("a store (--semantics store, -M) does not evict"));
    }
    option.parse()
}

/// A byte that can stand in a key.
pub(super) fn namespace_delimiter(option: &Value) -> Result<u8, UsageError> {
    match option.text().unwrap_or_default().as_bytes() {
        [byte] if byte.is_ascii_graphic() => Ok(*byte),
        text => {
            let text = String::from_utf8_lossy(text);
            Err(option.wrong(format!("'{text}' is not one printable ASCII character")))
        }
    }
}

/// Returns the path; `none` is none.
pub(super) fn path_or_none(option: &Value) -> Result<Option<PathBuf>, UsageError> {
    match option.text() {
        Some("") => Err(option.wrong("the path is empty; 'none' for none")),
        text => Ok(text.filter(|text| *text != "none").map(PathBuf::from)),
    }
}

pub(super) fn control_socket(option: &Value) -> Result<ControlSocket, UsageError> {
    Ok(match path_or_none(option)? {
        _ if !option.is_said() => ControlSocket::Derived,
        Some(path) => ControlSocket::At(path),
        None => ControlSocket::None,
    })
}

pub(super) fn hash_seed(option: &Value) -> Result<Option<u64>, UsageError> {
    let Some(text) = option.text() else {
        return Ok(None);
    };
    text.parse().map(Some).map_err(|_| option.wrong(format!("'{text}' is no number of 64 bits")))
}

/// A relative path, made independent of the working directory, which a daemon leaves.
pub(super) fn absolute(path: &str) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| Path::new(path).into())
}
