//! Errors of making a cache.

use std::fmt;

/// A sentence for the person who configured the cache.
#[derive(Debug)]
pub struct CreateError {
    text: String,
    kind: CreateErrorKind,
}

/// The remedy for a [`CreateError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateErrorKind {
    /// The options cannot be met: choose others.
    Refused,
    /// The image is not what these options make, or cannot be trusted: it is refused each time.
    Mismatch,
    /// Another process uses the image: it has to end first.
    InUse,
    /// The image is damaged. Nothing has been changed in it.
    Damaged,
    /// There is no space for the image.
    NoSpace,
    /// A new image was wanted where one exists.
    Exists,
}

impl CreateError {
    pub(crate) fn new(text: String) -> Self {
        Self::of(CreateErrorKind::Refused, text)
    }

    pub(crate) fn of(kind: CreateErrorKind, text: String) -> Self {
        Self { text, kind }
    }

    /// Returns the kind, which names the remedy.
    pub fn kind(&self) -> CreateErrorKind {
        self.kind
    }

    pub(crate) fn no_random_numbers(error: std::io::Error) -> Self {
        Self::new(format!("the system has no random numbers to give: {error}"))
    }
}

impl fmt::Display for CreateError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl std::error::Error for CreateError {}
