//! Variables of the environment: options of `serve`, and all others that the program knows.

use super::{Options, UNSAID, nearest};
use crate::configuration::UsageError;

/// Beginning of the variables of options.
const PREFIX: &str = "MICANITE_";
/// Variables with this prefix that are no options of `serve`, and that a person may set: of `--config`, and
/// the password of `load`, `replay` and `plan`.
const OTHERS: [&str; 2] = ["CONFIG", "PASSWORD"];
/// Further ones: of a restart, of a test of the kernel's verifier, of `micanite-lab`, and of the tests.
const INTERNAL: [&str; 6] = ["HANDOVER", "HANDOVER_HISTORY", "TRIAL", "VERIFIER_LOG", "PEERS", "SKIPS"];
/// Beginnings of others: of tests and benchmarks, and of a Kubernetes service that is named micanite.
const BEGINNINGS: [&str; 4] = ["TEST_", "BENCH_", "SERVICE_", "PORT_"];

/// Returns a warning for each variable of the environment that begins as the program's do and that no command
/// of the program uses.
pub fn unknown_variables() -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    names.filter_map(|name| unknown_variable(&name)).collect()
}

fn unknown_variable(name: &str) -> Option<String> {
    let rest = name.strip_prefix(PREFIX)?;
    let is_option =
        UNSAID.values().iter().any(|value| value.declared.variables().iter().any(|of| of == name));
    let is_other = OTHERS.iter().chain(&INTERNAL).any(|other| rest == *other);
    if is_option || is_other || BEGINNINGS.iter().any(|beginning| rest.starts_with(beginning)) {
        return None;
    }
    let offered: Vec<_> = UNSAID.offered().filter_map(|declared| declared.variables().pop()).collect();
    let offered = offered.iter().filter_map(|variable| variable.strip_prefix(PREFIX));
    let near = nearest(rest, offered.chain(OTHERS).map(|known| (known, known)));
    let near: Vec<_> = near.into_iter().map(|known| format!("{PREFIX}{known}")).collect();
    let hint = match &near[..] {
        [] => String::new(),
        near => format!("; did you mean {}?", near.join(" or ")),
    };
    Some(format!("the variable {name} names no option, and has no effect{hint}"))
}

impl Options {
    /// Reads the environment, by the variables of all options.
    pub(super) fn of_environment() -> Result<Self, UsageError> {
        let mut options = Self::default();
        for value in options.values_mut() {
            for name in value.declared.variables() {
                match std::env::var(&name) {
                    Ok(text) => value.set(text),
                    Err(std::env::VarError::NotPresent) => {}
                    Err(error) => return Err(UsageError(format!("{name}: {error}"))),
                }
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_are_no_options_are_named() {
        for (name, near) in [
            ("MICANITE_MEMORY_LIMTI", "; did you mean MICANITE_MEMORY_LIMIT?"),
            ("MICANITE_MEMORY", "; did you mean MICANITE_MEMORY_LIMIT or MICANITE_MEMORY_MAX?"),
            ("MICANITE_PASSWRD", "; did you mean MICANITE_PASSWORD?"),
            ("MICANITE_COLOUR", "has no effect"),
            // One without effect, and one that is refused.
            ("MICANITE_SLAB_MIN_SIZ", "has no effect"),
            ("MICANITE_HASH_SEE", "has no effect"),
        ] {
            let warning = unknown_variable(name).unwrap();
            assert!(warning.contains(name) && warning.ends_with(near), "{warning}");
        }
        for name in ["MICANITE_MEMORY_LIMIT", "MICANITE_NATIVE_PAYLOAD", "MICANITE_CONFIG", "PATH"] {
            assert_eq!(unknown_variable(name), None, "{name}");
        }
        for name in ["MICANITE_SERVICE_HOST", "MICANITE_PORT_11211_TCP_ADDR", "MICANITE_TEST_REPORTS"] {
            assert_eq!(unknown_variable(name), None, "{name}");
        }
    }

    /// A variable of one command is no typing error for another.
    #[test]
    fn variables_of_other_commands_are_known() {
        for name in ["MICANITE_PASSWORD", "MICANITE_CONTROL_SOCKET", "MICANITE_VERIFIER_LOG"] {
            assert_eq!(unknown_variable(name), None, "{name}");
        }
    }
}
