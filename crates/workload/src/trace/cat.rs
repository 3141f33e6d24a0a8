//! `micanite trace cat`: a trace as text.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::Args;

use crate::trace::open::Format;
use crate::trace::{Failure, Key, Outcome, Request, open};

/// Prints requests, one per line: `time_ms,key,key_bytes,value_bytes,operation,expiry_s,outcome`.
#[derive(Args, Debug)]
pub struct CatOptions {
    /// The trace; - is the standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Its format, where name and content do not tell it.
    #[arg(long)]
    format: Option<Format>,
    /// Stop after so many requests.
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    requests: u64,
}

/// Prints the requests of a trace.
///
/// # Errors
/// When it cannot be read or printed.
pub fn cat(options: &CatOptions) -> Result<(), Failure> {
    let mut opened = open(&options.file, options.format)?;
    let mut to = BufWriter::new(io::stdout().lock());
    let mut left = options.requests;
    while left > 0
        && let Some(request) = opened.reader.next()?
    {
        left -= 1;
        match print(&mut to, &request) {
            // Nobody reads any more: nothing is lost.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            printed => printed.map_err(|error| Failure::new(format!("cannot print: {error}")))?,
        }
    }
    match to.flush() {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        flushed => flushed.map_err(|error| Failure::new(format!("cannot print: {error}")))?,
    }
    opened.print_remarks(&options.file);
    Ok(())
}

fn print(to: &mut impl Write, request: &Request<'_>) -> io::Result<()> {
    write!(to, "{},", request.time_ms)?;
    match request.key {
        Key::Text(bytes) => write!(to, "{}", bytes.escape_ascii())?,
        Key::Number(number) => write!(to, "{number}")?,
    }
    write!(to, ",{},", request.key_bytes)?;
    if let Some(bytes) = request.value_bytes {
        write!(to, "{bytes}")?;
    }
    write!(to, ",{},", request.operation.name())?;
    if let Some(expiry_s) = request.expiry_s {
        write!(to, "{expiry_s}")?;
    }
    let outcome = match request.outcome {
        Outcome::Unknown => "",
        Outcome::Hit => "hit",
        Outcome::Miss => "miss",
    };
    writeln!(to, ",{outcome}")
}
