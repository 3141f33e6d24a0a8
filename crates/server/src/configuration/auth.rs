//! Authentication: memcached's `-Y` and `-S`.

use std::path::PathBuf;

use super::checks::absolute;
use super::{Options, UsageError, Word, ports};

/// Who is asked for a password, and what is known of users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthSettings {
    /// Lines of `user:password`.
    pub file: PathBuf,
    /// Whether the binary protocol may authenticate, by SASL PLAIN.
    pub sasl: bool,
}

/// Checks both options. Without `-Y`, the file of `-S` is the one that memcached's own build of SASL
/// reads.
pub(super) fn auth(options: &Options) -> Result<Option<AuthSettings>, UsageError> {
    let sasl = options.enable_sasl.unwrap_or(false);
    let file = match &options.auth_file {
        Some(Word(text)) => Some(text.clone()),
        None if sasl => std::env::var("MEMCACHED_SASL_PWDB").ok(),
        None => return Ok(None),
    };
    let Some(file) = file.filter(|file| !file.is_empty()) else {
        return Err(UsageError(
            "-S/--enable-sasl: a file of users is missing: -Y FILE, with lines of user:password"
                .into(),
        ));
    };
    let has = |port: &Option<Word>| matches!(port, Some(Word(text)) if text != "0");
    if has(&options.udp_port) {
        return Err(UsageError(
            "Cannot use UDP with authentication enabled (-U 0 to disable)".into(),
        ));
    }
    let bypass = ports::names(options).into_iter().next();
    if has(&options.native) || bypass.is_some() {
        let name = bypass.map_or("--native".into(), |name| format!("--port {name}"));
        return Err(UsageError(format!(
            "{name}: this protocol has no authentication, so it cannot be used with -Y or -S"
        )));
    }
    Ok(Some(AuthSettings {
        file: absolute(&file),
        sasl,
    }))
}

/// The file, for printing.
pub(super) fn file(auth: Option<&AuthSettings>) -> Option<Word> {
    auth.map(|auth| Word(auth.file.display().to_string()))
}
