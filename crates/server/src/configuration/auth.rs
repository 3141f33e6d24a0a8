//! Authentication: memcached's `-Y` and `-S`.

use std::path::PathBuf;

use super::checks::absolute;
use super::{Options, Settings, UsageError, Value};

/// Authentication of clients by passwords.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthSettings {
    /// Lines of `user:password`.
    pub file: PathBuf,
    /// Lets the binary protocol authenticate, by SASL PLAIN.
    pub sasl: bool,
}

/// Checks both options. Without `-Y`, the file of `-S` is the one that memcached's own build of SASL
/// reads.
pub(super) fn auth(options: &Options) -> Result<Option<AuthSettings>, UsageError> {
    let sasl = options.enable_sasl.is_on()?;
    let file = match options.auth_file.text() {
        Some(text) => Some(text.to_owned()),
        None if sasl => std::env::var("MEMCACHED_SASL_PWDB").ok(),
        None => return Ok(None),
    };
    let Some(file) = file.filter(|file| !file.is_empty()) else {
        let what = "a file of users is missing: -Y FILE, with lines of user:password";
        return Err(options.enable_sasl.wrong(what));
    };
    Ok(Some(AuthSettings { file: absolute(&file), sasl }))
}

/// Protocols that serve everybody although others require authentication (`--allow-unauthenticated`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unauthenticated {
    udp: bool,
    native: bool,
    fabric: bool,
}

impl Unauthenticated {
    pub(super) fn of(option: &Value) -> Result<Self, UsageError> {
        let mut this = Self::default();
        if option.is_said() && option.list().next().is_none() {
            let what = "it names no protocol: udp (-U), native (--native, --bypass), fabric (--fabric)";
            return Err(option.wrong(what));
        }
        for word in option.list() {
            match word {
                "udp" => this.udp = true,
                "native" => this.native = true,
                "fabric" => this.fabric = true,
                other => {
                    let what = format!(
                        "'{other}' is neither udp (-U) nor native (--native, --bypass) nor fabric (--fabric)"
                    );
                    return Err(option.wrong(what));
                }
            }
        }
        Ok(this)
    }
}

/// Refuses datagrams beside passwords or certificates unless `--allow-unauthenticated` names them: datagrams
/// can ask for neither. All else of `settings` is done.
pub(super) fn check_datagrams(options: &Options, settings: &Settings) -> Result<(), UsageError> {
    let tls = settings.tls.as_ref();
    let asked = if settings.auth.is_some() {
        "passwords (-Y, -S)"
    } else if tls.is_some_and(|tls| tls.requires_certificates(&settings.listen)) {
        "certificates (--tls-client-ca, mtls:)"
    } else {
        return Ok(());
    };
    let allowed = settings.unauthenticated;
    if settings.udp.is_some() && !allowed.udp {
        return Err(options.udp_port.wrong(format!(
            "Cannot use UDP with authentication enabled (-U 0 to disable): TCP asks for {asked}, and \
             datagrams cannot; --allow-unauthenticated udp serves them all the same"
        )));
    }
    if settings.native.is_some() && !allowed.native {
        let port = settings.bypass().and_then(|bypass| bypass.ports.first());
        let name = port.map_or("--native".into(), |port| format!("--bypass {}", port.name));
        return Err(UsageError(format!(
            "{name}: this protocol has no authentication, and TCP asks for {asked}; \
             --allow-unauthenticated native serves it all the same"
        )));
    }
    Ok(())
}

/// Refuses a fabric beside certificates unless `--allow-unauthenticated` names it: it can ask for passwords,
/// and not for certificates.
pub(super) fn check_fabric(options: &Options, settings: &Settings) -> Result<(), UsageError> {
    let tls = settings.tls.as_ref();
    let asks = tls.is_some_and(|tls| tls.requires_certificates(&settings.listen));
    match asks && settings.auth.is_none() && !settings.unauthenticated.fabric {
        true => Err(options.fabric.wrong(
            "TCP asks for certificates (--tls-client-ca, mtls:), and a fabric can ask for passwords only \
             (-Y); --allow-unauthenticated fabric serves it all the same",
        )),
        false => Ok(()),
    }
}
