//! The lines of `stats settings` about passwords and TLS, by memcached's names.

use std::fmt::Display;
use std::path::PathBuf;

use super::Lines;
use crate::security::auth::Auth;
use crate::shared::Server;

/// memcached shows the flags of OpenSSL that its number for `ssl_verify_mode` stands for.
const VERIFY_FLAGS: [u8; 4] = [0, 1, 3, 7];

pub(super) fn security(server: &Server, lines: &mut Lines<'_, '_>) {
    let settings = server.tls.as_ref().map(|tls| tls.settings());
    let yes = |on| if on { "yes" } else { "no" };
    let auth = server.auth.as_ref();
    lines.stat("auth_enabled_sasl", yes(auth.is_some_and(Auth::sasl)));
    lines.stat("auth_enabled_ascii", file(auth.map(Auth::file), "no"));
    let options = settings.map(|settings| &settings.options);
    lines.stat("ssl_enabled", yes(settings.is_some()));
    let chain = options.map(|options| &options.chain);
    let key = options.map(|options| options.key.as_ref().unwrap_or(&options.chain));
    lines.stat("ssl_chain_cert", file(chain, "(null)"));
    lines.stat("ssl_key", file(key, "(null)"));
    let mode = settings.map_or(0, |settings| settings.verify_mode);
    lines.stat("ssl_verify_mode", VERIFY_FLAGS[usize::from(mode)]);
    lines.stat("ssl_keyformat", 1);
    let ciphers = options.map_or(String::new(), |options| options.ciphers.join(":"));
    let ciphers = if ciphers.is_empty() { "NULL" } else { &ciphers };
    lines.stat("ssl_ciphers", ciphers);
    let authorities = options.and_then(|options| options.client_authorities.as_ref());
    lines.stat("ssl_ca_cert", file(authorities, "NULL"));
    let only_1_3 = options.is_some_and(|options| options.only_1_3);
    let least = if only_1_3 { "tlsv1.3" } else { "tlsv1.2" };
    lines.stat("ssl_min_version", least);
}

fn file<'p>(path: Option<&'p PathBuf>, none: &'p str) -> Box<dyn Display + 'p> {
    match path {
        Some(path) => Box::new(path.display()),
        None => Box::new(none),
    }
}
