//! Factors of section 6.1 and 5.1 for cores and caches: cited, not measured here.

use crate::machine::Machine;

/// Throughput beside the last-level cache per core in KiB (figure 16, as its text says: 97 % more at 512 than
/// at 256 KiB, 20 % more at 768, 4.6 % more at 2 MiB).
const LLC: [(f64, f64); 4] = [(256.0, 1.0 / 1.97 / 1.20), (512.0, 1.0 / 1.20), (768.0, 1.0), (2048.0, 1.046)];
/// Throughput beside the entries of the reorder buffer of a core that issues one instruction (figure 15).
const REORDER_BUFFER: [(f64, f64); 3] = [(1.0, 0.5), (64.0, 1.0), (256.0, 1.01)];
/// Throughput beside the instructions issued per cycle with 64 entries (figure 15: from one to three almost
/// doubles, four 5 % more).
const ISSUE_WIDTH: [(f64, f64); 3] = [(1.0, 0.5), (3.0, 1.0), (4.0, 1.05)];
/// Throughput with two threads on each core (section 5.1: 24 % less).
const TWO_THREADS: f64 = 0.76;

/// Returns the throughput of a machine over that of the core and cache for which its costs hold.
pub fn of(machine: &Machine) -> f64 {
    let threads = if machine.threads > 1 { TWO_THREADS } else { 1.0 };
    let Some(holds) = machine.cost.holds_for else {
        return threads;
    };
    let ratio = |points: &[(f64, f64)], is: f64, was: f64| at(points, is) / at(points, was);
    threads
        * ratio(&LLC, machine.llc_kib_per_core, holds.llc_kib_per_core)
        * ratio(&REORDER_BUFFER, machine.reorder_buffer, holds.reorder_buffer)
        * ratio(&ISSUE_WIDTH, machine.issue_width, holds.issue_width)
}

/// Returns the factor at a value: between two points in the logarithm, beyond them that of the last.
fn at(points: &[(f64, f64)], value: f64) -> f64 {
    let after = points.iter().position(|(x, _)| *x >= value);
    match after {
        Some(0) => points[0].1,
        None => points[points.len() - 1].1,
        Some(after) => {
            let ((x0, y0), (x1, y1)) = (points[after - 1], points[after]);
            y0 + (y1 - y0) * (value / x0).ln() / (x1 / x0).ln()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Factors are those of the text at its points, and rise between them.
    #[test]
    fn factors_are_those_of_the_text() {
        assert!((at(&LLC, 512.0) / at(&LLC, 256.0) - 1.97).abs() < 1e-9);
        assert!((at(&LLC, 768.0) / at(&LLC, 512.0) - 1.20).abs() < 1e-9);
        assert!((at(&LLC, 9000.0) - 1.046).abs() < 1e-9);
        assert!(at(&ISSUE_WIDTH, 2.0) > 0.5 && at(&ISSUE_WIDTH, 2.0) < 1.0);
        let machine = Machine::preset("paper-4").unwrap();
        assert!((of(&machine) - 1.0).abs() < 1e-9);
        let wide = Machine { threads: 2, issue_width: 4.0, ..machine };
        assert!((of(&wide) - 0.76 * 1.05).abs() < 1e-9);
    }
}
