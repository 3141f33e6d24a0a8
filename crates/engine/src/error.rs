//! Why a cache could not be made.

use std::fmt;

/// A sentence for the person who configured the cache.
#[derive(Debug)]
pub struct CreateError(String);

impl CreateError {
    pub(crate) fn new(what: String) -> Self {
        Self(what)
    }

    pub(crate) fn no_random_numbers(error: std::io::Error) -> Self {
        Self(format!("the system has no random numbers to give: {error}"))
    }
}

impl fmt::Display for CreateError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for CreateError {}
