//! The figures of all keys together, for programs.

use super::KEYS_MAX;
use super::gather::{Question, gather};
use super::groups::ALL;
use crate::trace::{Failure, Operation, Reader};

/// Summary of a trace's load.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Requests.
    pub requests: u64,
    /// Items that were asked for, those included that a sampled trace omits.
    pub items: f64,
    /// Mean bytes of a key; nothing if the trace does not tell keys.
    pub key_bytes: Option<f64>,
    /// Mean bytes of key and value of an item.
    pub payload_bytes: f64,
    /// Share of the requests that read.
    pub reads: f64,
    /// Exponent of the Zipf law that comes closest, with the variance that it explains.
    pub zipf: Option<(f64, f64)>,
    /// Requests per second over the whole trace; nothing if all came in one second.
    pub rate: Option<f64>,
    /// Requests in equal parts of the time.
    pub counts: Vec<u64>,
    /// Hits among the reads, where the trace tells them.
    pub hit_ratio: Option<f64>,
}

/// Reads a trace to its end.
///
/// # Errors
/// When it cannot be read, or has no request.
pub fn summary(reader: &mut dyn Reader) -> Result<Summary, Failure> {
    let question = Question::new(KEYS_MAX as usize);
    let gathered = gather(reader, &question, &mut |_| ())?;
    if gathered.keys.len() == 0 {
        return Err(Failure::new("no request in it"));
    }
    let figures = gathered.groups.shown(0).remove(0).2;
    let (items, bytes) = gathered.objects(ALL);
    let reads: u64 = Operation::ALL
        .iter()
        .filter(|operation| operation.reads())
        .map(|operation| figures.operations[*operation as usize])
        .sum();
    let seconds = gathered.seconds();
    Ok(Summary {
        requests: figures.requests,
        items,
        key_bytes: (figures.key_bytes.count() > 0).then(|| figures.key_bytes.mean()),
        payload_bytes: bytes / items,
        reads: reads as f64 / figures.requests as f64,
        zipf: gathered.popularity(ALL).zipf.map(|zipf| (zipf.exponent, zipf.r_squared)),
        rate: (seconds > 0.0).then(|| figures.requests as f64 / seconds),
        counts: figures.rate.counts.clone(),
        hit_ratio: figures.hit_ratio(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::open;

    /// The summary of a trace has its items, sizes, mix and rate.
    #[test]
    fn a_trace_is_summarized() {
        let path = std::env::temp_dir().join(format!("micanite-summary-{}.csv", std::process::id()));
        let trace = "0,ns:a,4,0,1,get,0\n1,ns:a,4,10,1,set,60\n3,b,1,0,2,delete,0\n";
        std::fs::write(&path, trace).unwrap();
        let summary = summary(&mut *open(&path, None).unwrap().reader).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!((summary.requests, summary.items), (3, 2.0));
        assert_eq!((summary.rate, summary.counts), (Some(1.0), vec![1, 1, 0, 1]));
        assert!((summary.reads - 1.0 / 3.0).abs() < 1e-9 && summary.zipf.is_none());
        assert_eq!(summary.key_bytes, Some(3.0));
    }
}
