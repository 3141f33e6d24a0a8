//! The readers of all formats.

pub(crate) mod cachelib;
mod lines;
pub(crate) mod object_csv;
mod oracle_general;
pub(crate) mod pcap;
mod recording;
pub(crate) mod twitter;

use std::io::BufRead;
use std::path::Path;

use crate::trace::Failure;
use crate::trace::open::{Format, Reader};

pub(crate) fn reader(
    format: Format,
    bytes: Box<dyn BufRead>,
    path: &Path,
) -> Result<Box<dyn Reader>, Failure> {
    let name = path.display().to_string();
    Ok(match format {
        Format::ObjectCsv => Box::new(object_csv::ObjectCsv::new(bytes, name)),
        Format::OracleGeneral => Box::new(oracle_general::OracleGeneral::new(bytes, name)),
        Format::Twitter => Box::new(twitter::Twitter::new(bytes, name)),
        Format::Pcap { port } => Box::new(pcap::Pcap::new(bytes, name, port)?),
        Format::CacheLib => Box::new(cachelib::CacheLib::new(bytes, name)?),
        Format::Recording => Box::new(recording::RecordingReader::new(bytes, name)?),
    })
}

/// Fills a record; whether there was one.
pub(crate) fn read_record(from: &mut dyn BufRead, record: &mut [u8], name: &str) -> Result<bool, Failure> {
    let mut filled = 0;
    while filled < record.len() {
        match from.read(&mut record[filled..]) {
            Ok(0) if filled == 0 => return Ok(false),
            Ok(0) => {
                return Err(Failure::new(format!(
                    "{name}: {filled} bytes after the last whole record: it was cut off, or is of another \
                     format"
                )));
            }
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Failure::new(format!("{name}: {error}"))),
        }
    }
    Ok(true)
}
