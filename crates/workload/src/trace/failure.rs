//! Failures with a sentence for the user.

use std::fmt;
use std::process::ExitCode;

use micanite_control::stderr;

/// A sentence for the person who asked, and whether it is their options that are wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The sentence, without a name of a program in front.
    pub reason: String,
    /// True if the options do not make sense.
    pub is_usage: bool,
}

impl Failure {
    /// The exit status where something went wrong.
    pub const EXIT_FAILED: u8 = 1;
    /// The exit status where the options do not make sense.
    pub const EXIT_USAGE: u8 = 64;

    /// Something went wrong.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_usage: false }
    }

    /// The options do not make sense.
    pub fn usage(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_usage: true }
    }

    /// Says it on standard error for a command of `micanite`; returns what the command ends with.
    pub fn tell(&self, command: &str) -> ExitCode {
        stderr::say(format_args!("micanite {command}: {}", self.reason));
        ExitCode::from(match self.is_usage {
            true => Self::EXIT_USAGE,
            false => Self::EXIT_FAILED,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Failure {}
