//! Printing to the standard output.

use std::io::{self, Write as _};

use crate::trace::Failure;

/// The standard output. When nobody reads any more, the rest is not printed, and nothing is lost.
pub(crate) struct Stdout {
    is_closed: bool,
}

impl Stdout {
    pub fn new() -> Self {
        Self { is_closed: false }
    }

    /// Prints a text, and sees to it that it has arrived.
    pub fn print(&mut self, text: &str) -> Result<(), Failure> {
        if self.is_closed {
            return Ok(());
        }
        let mut to = io::stdout().lock();
        match to.write_all(text.as_bytes()).and_then(|()| to.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(())
            }
            printed => printed.map_err(|error| Failure::new(format!("cannot print: {error}"))),
        }
    }
}
