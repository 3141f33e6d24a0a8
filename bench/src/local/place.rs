//! A server that is read, in a directory of its own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use micanite_client::{LocalLink, LocalUrl, Operation, Options as ClientOptions, SubmitError};

use crate::Result;
use crate::engine::contenders::bytes;
use crate::harness::process::Process;

const PATIENCE: Duration = Duration::from_secs(120);
/// Names and values of 8 bytes.
pub(super) const BYTES: usize = 8;

/// Ends with this value.
pub(super) struct Place {
    pub process: Process,
    directory: PathBuf,
}

impl Drop for Place {
    fn drop(&mut self) {
        // It may hold the sockets of a server that was killed.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Place {
    /// Starts a server of one worker on a CPU, with so much memory.
    pub fn start(binary: &Path, memory_bytes: usize, cpu: usize) -> Result<Self> {
        let directory = std::env::temp_dir().join(format!("micanite-lab-local-{}", std::process::id()));
        std::fs::create_dir_all(&directory)?;
        let memory = format!("{}", memory_bytes.div_ceil(1 << 20));
        let mut command = vec![binary.as_os_str().to_owned()];
        command.extend(
            ["serve", "-t", "1", "--control-socket", "none", "-m", &memory, "-s"].map(OsString::from),
        );
        command.push(directory.join("text").into());
        command.push("--local".into());
        command.push(directory.join("local").into());
        let mut process = Process::start("micanite", &command, cpu, false)?;
        let url = LocalUrl::parse(&format!("local://{}", directory.join("local").display()))?;
        process.wait_until(PATIENCE, || Ok(LocalLink::connect(&url, &ClientOptions::default())?))?;
        Ok(Self { process, directory })
    }

    /// Path of the socket for text.
    pub fn text(&self) -> PathBuf {
        self.directory.join("text")
    }

    pub fn link(&self) -> Result<LocalLink> {
        let url = LocalUrl::parse(&format!("local://{}", self.directory.join("local").display()))?;
        let options = ClientOptions { deadline_ns: 60_000_000_000, ..ClientOptions::default() };
        Ok(LocalLink::connect(&url, &options)?)
    }

    /// Stores the items 0 to `items - 1`, many at a time.
    pub fn fill(&self, items: u64) -> Result<()> {
        let mut link = self.link()?;
        store(&mut link, 0..items as u32)
    }
}

/// Stores items, many at a time.
pub(super) fn store(link: &mut LocalLink, items: impl Iterator<Item = u32>) -> Result<()> {
    let mut in_flight = 0_u64;
    for item in items {
        let (key, value) = (bytes::<BYTES>(item), bytes::<BYTES>(item));
        loop {
            match link.submit(link.now_ns(), &Operation::set(&key, &value), 0) {
                Ok(()) => break in_flight += 1,
                Err(SubmitError::Full) => in_flight -= take(link)?,
                Err(error) => return Err(format!("a set was not taken: {error:?}").into()),
            }
        }
        if in_flight.is_multiple_of(256) {
            in_flight -= take(link)?;
        }
    }
    while in_flight > 0 {
        in_flight -= take(link)?;
    }
    Ok(())
}

/// Waits for acknowledgements, and returns their number.
fn take(link: &mut LocalLink) -> Result<u64> {
    let ended = link.poll(link.now_ns(), |_| {})?;
    if ended == 0 {
        link.wait(u64::MAX)?;
    }
    Ok(ended as u64)
}
