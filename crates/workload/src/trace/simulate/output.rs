//! Miss ratios as a table, as CSV, as a figure.

use std::fmt::Write;

use crate::figure::{Axis, Kind, Line, LineChart, Point};

use super::policy::{Accounting, Policy};
use super::simulation::MissRatio;
use super::size::HumanSize;

/// Unit of the figure.
const MIB: f64 = (1u64 << 20) as f64;

/// A line per policy and size.
pub(crate) fn csv(ratios: &[MissRatio]) -> String {
    let mut text = "policy,bytes,object_miss_ratio,byte_miss_ratio\n".to_owned();
    for ratio in ratios {
        let (policy, bytes) = (ratio.case.policy, ratio.case.bytes);
        let _ = writeln!(text, "{policy},{bytes},{:.6},{:.6}", ratio.objects, ratio.bytes);
    }
    text
}

/// A line per size, a column per policy.
pub(crate) fn table(
    title: &str,
    ratios: &[MissRatio],
    footprint_bytes: u64,
    value: impl Fn(&MissRatio) -> f64,
) -> String {
    let (policies, sizes) = (policies(ratios), sizes(ratios));
    let mut text = format!("{title}\n{:>10} {:>9}", "memory", "of all");
    for policy in &policies {
        let _ = write!(text, " {:>15}", policy.to_string());
    }
    text.push('\n');
    for bytes in sizes {
        let share = bytes as f64 / footprint_bytes.max(1) as f64 * 100.0;
        let _ = write!(text, "{:>10} {:>8.4} %", HumanSize(bytes), Digits(share));
        for policy in &policies {
            let here = ratios.iter().find(|ratio| ratio.case.bytes == bytes && ratio.case.policy == *policy);
            let _ = match here {
                Some(ratio) => write!(text, " {:>13.2} %", value(ratio) * 100.0),
                None => write!(text, " {:>15}", "-"),
            };
        }
        text.push('\n');
    }
    text
}

/// A percentage with the digits that tell it from others.
struct Digits(f64);

impl std::fmt::Display for Digits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let decimals = usize::from(self.0 < 10.0) + usize::from(self.0 < 1.0);
        let text = format!("{:.decimals$}", self.0);
        let width = f.width().unwrap_or(0).saturating_sub(2);
        write!(f, "{text:>width$}")
    }
}

fn policies(ratios: &[MissRatio]) -> Vec<Policy> {
    let mut policies = Vec::new();
    for ratio in ratios {
        if !policies.contains(&ratio.case.policy) {
            policies.push(ratio.case.policy);
        }
    }
    policies
}

fn sizes(ratios: &[MissRatio]) -> Vec<u64> {
    let mut sizes: Vec<u64> = ratios.iter().map(|ratio| ratio.case.bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Misses against memory.
pub(crate) fn svg(ratios: &[MissRatio], accounting: Accounting) -> String {
    let lines = policies(ratios).into_iter().map(|policy| {
        let of_policy = ratios.iter().filter(|ratio| ratio.case.policy == policy);
        let mut points: Vec<_> =
            of_policy.map(|ratio| Point::new(ratio.case.bytes as f64 / MIB, ratio.objects * 100.0)).collect();
        points.sort_by(|one, other| one.x.total_cmp(&other.x));
        Line { name: policy.to_string(), kind: Kind::Measured, points }
    });
    let memory = match accounting {
        Accounting::Real => "memory (MiB, all counted)",
        Accounting::Payload => "memory (MiB, keys and values alone)",
    };
    let chart = LineChart {
        title: "Misses against memory".to_owned(),
        x: Axis::log(memory),
        y: Axis::linear("reads that miss (%)"),
        lines: lines.collect(),
    };
    chart.svg()
}

#[cfg(test)]
mod tests {
    use super::super::cache::Counts;
    use super::super::simulation::Case;
    use super::*;

    fn ratio(policy: Policy, bytes: u64, objects: f64) -> MissRatio {
        MissRatio { case: Case { policy, bytes }, objects, bytes: objects / 2.0, counts: Counts::default() }
    }

    #[test]
    fn csv_table_and_figure_have_all_ratios() {
        let ratios = [
            ratio(Policy::Lru, 1 << 20, 0.5),
            ratio(Policy::Lru, 2 << 20, 0.25),
            ratio(Policy::Belady, 1 << 20, 0.125),
        ];
        let expected = "policy,bytes,object_miss_ratio,byte_miss_ratio\n\
            lru,1048576,0.500000,0.250000\nlru,2097152,0.250000,0.125000\n\
            belady,1048576,0.125000,0.062500\n";
        assert_eq!(csv(&ratios), expected);
        let table = table("title", &ratios, 100 << 20, |ratio| ratio.objects);
        assert!(table.contains("1 MiB") && table.contains("50.00 %") && table.contains('-'));
        let svg = svg(&ratios, Accounting::Payload);
        assert!(svg.contains("belady") && svg.contains("memory (MiB, keys and values alone)"));
        assert!(svg.contains(">1<") && svg.contains(">2<"), "the sizes in MiB: {svg}");
    }
}
