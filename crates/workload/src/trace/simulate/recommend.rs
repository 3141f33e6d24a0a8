//! The memory to buy.

use micanite_engine::Eviction;
use micanite_engine::limits::MEMORY_BYTES_MIN;

use super::compact::Compact;
use super::policy::Policy;
use super::simulation::{Case, MissRatio, Simulation};
use super::size::HumanSize;
use crate::trace::Failure;

/// The recommended memory misses at most this much more than unlimited memory: a share of that,
/// or of all requests, whichever is more.
const MORE_OF_MISSES: f64 = 0.1;
const MORE_OF_REQUESTS: f64 = 0.005;
/// The search ends when the sizes that are left differ by this factor.
const PRECISION: f64 = 1.1;
/// A server has no less.
const MEMORY_BYTES_LEAST: u64 = MEMORY_BYTES_MIN as u64;
/// Bytes that an item takes at most beside key and value: padding, header, expiry, index.
const ITEM_OVERHEAD_BYTES: u64 = 48;
/// Factor for the ends of a log's laps, which stay unused.
const SLACK: u64 = 2;

/// The memory to buy, and its misses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recommendation {
    /// The memory, its half, and its double; nothing if no memory does any good.
    pub memory: Option<[MissRatio; 3]>,
    /// Misses of unlimited memory.
    pub least: f64,
}

/// Returns a memory that has room for everything that a trace asks for, all memory counted.
pub fn room_for_all(trace: &Compact) -> u64 {
    let objects = (trace.objects() as f64 / trace.fraction) as u64;
    let bytes = trace.footprint_bytes().saturating_add(objects.saturating_mul(ITEM_OVERHEAD_BYTES));
    bytes.saturating_mul(SLACK).max(2 * MEMORY_BYTES_LEAST)
}

/// Finds the least memory whose misses come near to those of unlimited memory, all memory counted: at
/// most `room_bytes`, which has room for all.
///
/// # Errors
/// Returns the errors of the simulation.
pub fn recommend(
    simulation: &Simulation<'_>,
    policy: Policy,
    room_bytes: u64,
) -> Result<Recommendation, Failure> {
    let ratios = |sizes: &[u64]| -> Result<Vec<MissRatio>, Failure> {
        let case = |bytes: &u64| Case { policy, bytes: *bytes };
        let cases: Vec<_> = sizes.iter().map(case).collect();
        simulation.run(&cases, |_| ())
    };
    let unlimited = Case { policy: Policy::Fifo, bytes: u64::MAX >> 12 };
    let least = simulation.run(&[unlimited], |_| ())?[0].objects;
    if least > 1.0 - MORE_OF_REQUESTS {
        let memory = None;
        return Ok(Recommendation { memory, least });
    }
    let enough = least + (least * MORE_OF_MISSES).max(MORE_OF_REQUESTS);
    let (mut low, mut high) = (MEMORY_BYTES_LEAST as f64, room_bytes as f64);
    // Much less memory than room for everything mostly suffices.
    for bytes in [MEMORY_BYTES_LEAST, room_bytes / 64, room_bytes / 8] {
        if (bytes as f64) < low {
            continue;
        }
        if ratios(&[bytes])?[0].objects <= enough {
            high = bytes as f64;
            break;
        }
        low = bytes as f64;
    }
    while high / low > PRECISION {
        let third = (high / low).cbrt();
        let sizes = [low * third, high / third];
        let tried = ratios(&sizes.map(|bytes| bytes as u64))?;
        match tried.iter().position(|ratio| ratio.objects <= enough) {
            Some(0) => high = sizes[0],
            Some(_) => (low, high) = (sizes[0], sizes[1]),
            None => low = sizes[1],
        }
    }
    let bytes = rounded_up(high as u64);
    // More than room for all does not help.
    let double = (bytes * 2).min(room_bytes.max(bytes));
    let memory = ratios(&[bytes, bytes / 2, double])?;
    Ok(Recommendation { memory: Some([memory[0], memory[1], memory[2]]), least })
}

/// To two digits in its unit.
fn rounded_up(bytes: u64) -> u64 {
    let unit = match bytes {
        0x4000_0000.. => 1u64 << 30,
        0x10_0000.. => 1 << 20,
        _ => 1 << 10,
    };
    let in_unit = bytes.div_ceil(unit);
    let step = match in_unit {
        100.. => unit * 10,
        10.. => unit,
        _ => unit / 8,
    };
    bytes.next_multiple_of(step)
}

impl Recommendation {
    /// Describes it in a sentence or two.
    pub fn text(&self) -> String {
        let percent = |ratio: f64| format!("{:.1} %", ratio * 100.0);
        let points = |ratio: f64| format!("{:.1}", ratio.abs() * 100.0);
        let least = percent(self.least);
        let Some([memory, half, double]) = &self.memory else {
            return format!(
                "No memory is recommended: hardly anything is read twice. With unlimited memory, {least} of \
                 the reads miss."
            );
        };
        format!(
            "Recommended: {bytes}, {why}.\n\
             With {bytes} of memory (-m{eviction}), {misses} of the reads miss. Doubling it saves {saved} \
             points; half of it costs {lost}. With unlimited memory, {least} would miss.",
            bytes = HumanSize(memory.case.bytes),
            eviction = eviction(memory.case.policy),
            misses = percent(memory.objects),
            saved = points(memory.objects - double.objects),
            lost = points(half.objects - memory.objects),
            why = if memory.case.bytes <= MEMORY_BYTES_LEAST {
                "the least that a server can have"
            } else {
                "the least memory whose misses stay within a tenth, or half a point, of those of unlimited \
                 memory"
            },
        )
    }
}

/// Returns the option for a policy that is not the server's default.
fn eviction(policy: Policy) -> String {
    match policy {
        Policy::Engine(eviction) if eviction != Eviction::default() => {
            format!(" and --eviction {}", eviction.name())
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_up() {
        for (bytes, rounded) in [
            (123 << 20, 130 << 20),
            ((61 << 20) + 1, 62 << 20),
            (3 << 29, 3 << 29),
            ((5 << 20) + 1, (5 << 20) + (1 << 17)),
        ] {
            assert_eq!(rounded_up(bytes), rounded);
        }
    }
}
