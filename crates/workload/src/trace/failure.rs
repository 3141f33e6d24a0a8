//! Why something could not be done.

use std::fmt;

/// A sentence for the person who asked, and whether it is their options that are wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The sentence, without a name of a program in front.
    pub reason: String,
    /// Whether the options do not make sense.
    pub is_usage: bool,
}

impl Failure {
    /// Something went wrong.
    pub fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            is_usage: false,
        }
    }

    /// The options do not make sense.
    pub fn usage(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            is_usage: true,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Failure {}
