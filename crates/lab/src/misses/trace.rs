//! Traces of requests: read from files or made, with dense object numbers.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;

use micanite_trace::Key;

use crate::Result;

/// Requests for objects that are numbered from zero in the order of their first request. An
/// object keeps the size of its first request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    pub name: String,
    /// Object numbers, in the order of the requests.
    pub requests: Vec<u32>,
    /// Key and value bytes of each object.
    pub sizes: Vec<u32>,
    /// The name by which the trace calls each object.
    pub names: Vec<u64>,
    numbers: HashMap<u64, u32>,
}

impl Trace {
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    pub fn push(&mut self, name: u64, size: u32) {
        let next = self.sizes.len() as u32;
        let number = match self.numbers.entry(name) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                self.sizes.push(size);
                self.names.push(name);
                *new.insert(next)
            }
        };
        self.requests.push(number);
    }

    /// The sum of the sizes of all objects.
    pub fn footprint_bytes(&self) -> u64 {
        self.sizes.iter().map(|&size| u64::from(size)).sum()
    }

    /// A share of the footprint, in whole bytes.
    pub fn share_bytes(&self, percent: f64) -> u64 {
        (self.footprint_bytes() as f64 * percent / 100.0) as u64
    }

    /// Reads so many requests from a file, whatever its format; requests whose size it does not tell
    /// are left out.
    pub fn read(path: &Path, requests_max: usize) -> Result<Self> {
        let file_name = path.file_name().unwrap_or_default().to_string_lossy();
        let mut trace = Self::new(file_name.split('.').next().unwrap_or_default());
        let mut reader = micanite_trace::open(path, None)?.reader;
        while trace.requests.len() < requests_max
            && let Some(request) = reader.next()?
        {
            let name = match request.key {
                Key::Number(number) => number,
                key => key.hash(),
            };
            if let Some(bytes) = request.payload_bytes() {
                trace.push(name, u32::try_from(bytes).unwrap_or(u32::MAX));
            }
        }
        if trace.requests.is_empty() {
            return Err(format!("{}: no request in it", path.display()).into());
        }
        Ok(trace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_numbered_in_the_order_of_their_first_request() {
        let path = std::env::temp_dir().join(format!("micanite-trace-{}.csv", std::process::id()));
        let lines = "# time, object, size, next\n0, 70, 100, -1\n0, 8, 20, -1\n0, 70, 100, -1\n0, 9, 3, -1\n";
        std::fs::write(&path, lines).expect("a file");
        for requests in [4, 2] {
            let trace = Trace::read(&path, requests).expect("a trace");
            assert_eq!(trace.requests, [0, 1, 0, 2][..requests]);
            let objects = trace.sizes.len();
            assert_eq!(trace.sizes, [100, 20, 3][..objects]);
            assert_eq!(trace.names, [70, 8, 9][..objects]);
        }
        let trace = Trace::read(&path, 9).expect("all");
        assert_eq!(
            (trace.footprint_bytes(), trace.share_bytes(10.0)),
            (123, 12)
        );
        std::fs::write(&path, "# nothing\n").expect("a file");
        assert!(Trace::read(&path, 4).is_err());
        std::fs::remove_file(&path).expect("it was there");
        assert!(Trace::read(&path, 4).is_err());
    }
}
