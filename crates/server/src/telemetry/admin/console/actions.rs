//! What a user of the console may ask for. Users are clients of the cache: they choose no paths, only names
//! in the directory of `--admin-files`.

use std::path::PathBuf;

use micanite_control::{Balance, RecordOptions, Request};
use micanite_engine::Access;
use serde::Deserialize;

use crate::configuration::Settings;

/// The longest name of a file.
const NAME_BYTES_MAX: usize = 100;
/// The longest recording that a user begins.
const SECONDS_MAX: u32 = 24 * 60 * 60;

/// An action.
#[derive(Debug, Deserialize)]
#[serde(tag = "action", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Action {
    Mode { mode: String },
    Balance { balance: String },
    Snapshot { name: String },
    Record { name: String, fraction: String, seconds: u32 },
    StopRecording {},
    Flush { namespace: String },
}

impl Action {
    /// Returns the order to the server.
    ///
    /// # Errors
    /// The action is not understood, or not allowed.
    pub fn order(&self, settings: &Settings) -> Result<Request, String> {
        Ok(match self {
            Self::Mode { mode } => Request::Mode { access: mode.parse::<Access>()?, partition: None },
            Self::Balance { balance } => Request::Balance { balance: balance.parse::<Balance>()? },
            Self::Snapshot { name } => Request::Snapshot { path: path(settings, name)? },
            Self::Record { name, fraction, seconds } => {
                if !(1..=SECONDS_MAX).contains(seconds) {
                    return Err(format!("a recording takes 1 to {SECONDS_MAX} seconds"));
                }
                Request::Record(RecordOptions {
                    file: Some(path(settings, name)?),
                    fraction: Some(fraction.parse()?),
                    seconds: Some(*seconds),
                    ..RecordOptions::default()
                })
            }
            Self::StopRecording {} => {
                Request::Record(RecordOptions { stop: true, ..RecordOptions::default() })
            }
            Self::Flush { .. } if settings.switches.no_flush => {
                return Err("flushing is not allowed (-F)".into());
            }
            Self::Flush { namespace } if namespace.is_empty() => {
                return Err("the name of the namespace is missing".into());
            }
            Self::Flush { namespace } => Request::Invalidate { name: namespace.clone() },
        })
    }
}

/// Returns an order in the words of the console.
pub(super) fn words(order: &Request) -> String {
    match order {
        Request::Invalidate { name } => format!("flush {name}"),
        order => order.to_string(),
    }
}

fn path(settings: &Settings, name: &str) -> Result<PathBuf, String> {
    let Some(folder) = &settings.admin_files else {
        return Err("there is no directory for files: start the server with --admin-files DIRECTORY".into());
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_name = !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.starts_with(['.', '-']);
    if !is_name || !name.bytes().all(is_plain) {
        return Err("a name is letters, digits and ._- and begins with a letter or a digit".into());
    }
    Ok(folder.join(name))
}

/// Returns a text without what a terminal could take for a command.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::Options;

    fn order(options: &str, action: &str) -> Result<String, String> {
        let options: Options = toml::from_str(options).unwrap();
        let settings = Settings::of(&options, 2).unwrap();
        let action: Action = serde_json::from_str(action).map_err(|error| error.to_string())?;
        action.order(&settings).map(|order| words(&order))
    }

    #[test]
    fn actions_become_orders() {
        let files = "admin-files = '/var/files'";
        for (action, expected) in [
            (r#"{"action":"mode","mode":"crew"}"#, "mode crew"),
            (r#"{"action":"balance","balance":"auto"}"#, "balance auto"),
            (r#"{"action":"snapshot","name":"monday"}"#, "snapshot /var/files/monday"),
            (
                r#"{"action":"record","name":"a.rec","fraction":"0.1","seconds":60}"#,
                "record 0.1 60 - /var/files/a.rec",
            ),
            (r#"{"action":"stop-recording"}"#, "record stop"),
            (r#"{"action":"flush","namespace":"user"}"#, "flush user"),
        ] {
            assert_eq!(order(files, action).as_deref(), Ok(expected), "{action}");
        }
    }

    #[test]
    fn other_orders_are_refused() {
        let files = "admin-files = '/var/files'\ndisable-flush-all = true";
        for action in [
            "",
            "{}",
            "[]",
            r#"{"action":"restart"}"#,
            r#"{"action":"mode","mode":"all"}"#,
            r#"{"action":"mode","mode":"crew","more":1}"#,
            r#"{"action":"flush","namespace":"user"}"#,
            r#"{"action":"snapshot","name":"../a"}"#,
            r#"{"action":"snapshot","name":"/a"}"#,
            r#"{"action":"snapshot","name":".a"}"#,
            r#"{"action":"snapshot","name":""}"#,
            r#"{"action":"snapshot","name":"a b"}"#,
            r#"{"action":"snapshot","name":"a\u0000"}"#,
            r#"{"action":"record","name":"a","fraction":"2","seconds":60}"#,
            r#"{"action":"record","name":"a","fraction":"0.1","seconds":0}"#,
            r#"{"action":"record","name":"a","fraction":"0.1","seconds":999999}"#,
        ] {
            assert!(order(files, action).is_err(), "{action}");
        }
        assert!(order("", r#"{"action":"snapshot","name":"a"}"#).unwrap_err().contains("--admin-files"));
        assert!(order("", r#"{"action":"flush","namespace":""}"#).is_err());
    }
}
