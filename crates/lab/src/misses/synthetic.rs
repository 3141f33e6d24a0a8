//! Traces made here: Zipf laws with equal and mixed sizes, and a mix with loops and scans.

use super::trace::Trace;
use crate::popularity::{Random, Zipf};

/// Key and value bytes of every object where sizes are equal (keys of 16, values of 64).
const EQUAL_BYTES: u32 = 80;
/// Where they are mixed: from and to, every power of two as likely as every other.
const MIXED_BYTES: (f64, f64) = (16.0, 4096.0);

/// Objects and requests of a trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    pub objects: u64,
    pub requests: u64,
}

impl Scale {
    pub const FULL: Self = Self {
        objects: 400_000,
        requests: 4_000_000,
    };
    pub const QUICK: Self = Self {
        objects: 50_000,
        requests: 500_000,
    };
}

/// All of them, one after the other, so that only one is in memory.
pub(crate) fn all(scale: Scale) -> impl Iterator<Item = Trace> {
    let zipf = [(0.8, false), (0.8, true), (0.99, false), (0.99, true)];
    zipf.into_iter()
        .map(move |(exponent, mixed)| zipf_law(scale, exponent, mixed))
        .chain(std::iter::once_with(move || loops_and_scans(scale)))
}

fn size(object: u64, mixed: bool) -> u32 {
    if !mixed {
        return EQUAL_BYTES;
    }
    let (from, to) = MIXED_BYTES;
    let unit = Random::new(object + 1).unit();
    (from * (to / from).powf(unit)) as u32
}

fn zipf_law(scale: Scale, exponent: f64, mixed: bool) -> Trace {
    let sizes = if mixed { "mixed" } else { "equal" };
    let mut trace = Trace::new(&format!("zipf {exponent}, {sizes} sizes"));
    let law = Zipf::new(scale.objects, exponent);
    let mut random = Random::new(1);
    for _ in 0..scale.requests {
        let object = law.rank(&mut random);
        trace.push(object, size(object, mixed));
    }
    trace
}

/// Seven in ten requests follow a Zipf law of 0.9; two go round a loop of a fifth of the
/// objects; one is for an object that is never asked for again.
fn loops_and_scans(scale: Scale) -> Trace {
    let mut trace = Trace::new("zipf 0.9 with loops and scans, mixed sizes");
    let law = Zipf::new(scale.objects, 0.9);
    let mut random = Random::new(2);
    let (mut in_loop, mut scanned) = (0, 2 * scale.objects);
    for _ in 0..scale.requests {
        let object = match random.below(10) {
            0 => {
                scanned += 1;
                scanned
            }
            1 | 2 => {
                in_loop = (in_loop + 1) % (scale.objects / 5);
                scale.objects + 1 + in_loop
            }
            _ => law.rank(&mut random),
        };
        trace.push(object, size(object, true));
    }
    trace
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_have_the_requests_and_sizes_that_they_should() {
        let scale = Scale {
            objects: 1_000,
            requests: 20_000,
        };
        let traces: Vec<_> = all(scale).collect();
        assert_eq!(traces.len(), 5);
        for trace in &traces {
            assert_eq!(trace.requests.len(), 20_000);
            let equal = trace.name.contains("equal");
            let sizes = &trace.sizes;
            assert!(sizes.iter().all(|size| (16..=4096).contains(size)));
            assert_eq!(sizes.iter().all(|&size| size == EQUAL_BYTES), equal);
        }
        assert!(traces[..4].iter().all(|trace| trace.sizes.len() <= 1_000));
        assert!(traces[4].sizes.len() > 3_000, "every scanned object is new");
    }
}
