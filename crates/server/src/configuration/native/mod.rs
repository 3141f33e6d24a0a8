//! The native protocol: its addresses, or the ports around the kernel that answer it.

mod bypass;
mod interfaces;

use std::net::SocketAddr;

use super::settings::{NativeSettings, Settings};
use super::{Options, UsageError, address};
pub use bypass::{BypassSettings, PortSettings};
pub use interfaces::NativeInterface;

/// Returns the settings of the native protocol, if it is spoken.
pub(super) fn native(options: &Options, settings: &Settings) -> Result<Option<NativeSettings>, UsageError> {
    let bypass = bypass::bypass(options, settings.threads)?;
    let option = &options.native;
    let port = match bypass {
        Some(_) => bypass::native_port(options)?,
        None => option.port()?,
    };
    let threads = settings.threads;
    let last = port + threads as i64 - 1;
    if port > 0 && last > 65535 {
        return Err(option.wrong(format!(
            "{port} is too high: with {threads} workers (-t) the last port would be {last}"
        )));
    }
    let native = NativeSettings {
        // Ports around the kernel have their own.
        addresses: Vec::new(),
        interfaces: Vec::new(),
        port,
        payload_bytes: options.native_payload.number()?,
        payload_is_default: !options.native_payload.is_said(),
        gro: options.native_gro.choice()? == "on",
        queue_bytes: options.native_queue.number()?,
        busy_poll_us: options.native_busy_poll.number()? as u32,
        bypass,
    };
    if port == 0 {
        return match options.native_at.is_said() {
            true => Err(options.native_at.wrong("there is no native protocol (--native) that it is for")),
            false => Ok(None),
        };
    }
    if native.bypass.is_some() && native.busy_poll_us > 0 {
        let what = "it is for the kernel's sockets; --bypass has --bypass-busy-poll";
        return Err(options.native_busy_poll.wrong(what));
    }
    if options.native_at.is_said() {
        if native.bypass.is_some() {
            let what = "it is for the kernel's sockets; each --bypass names its interface itself";
            return Err(options.native_at.wrong(what));
        }
        let interfaces = interfaces::interfaces(&options.native_at, threads)?;
        let addresses = interfaces.iter().flat_map(|its| its.addresses.iter().copied()).collect();
        return Ok(Some(NativeSettings { addresses, interfaces, ..native }));
    }
    let mut addresses = Vec::new();
    for word in settings.listen.words.iter().filter(|_| native.bypass.is_none()) {
        let found = address::resolve(word, 1).map_err(|what| options.listen.wrong(what))?;
        for ip in found.iter().map(SocketAddr::ip) {
            if !addresses.contains(&ip) {
                addresses.push(ip);
            }
        }
    }
    Ok(Some(NativeSettings { addresses, ..native }))
}
