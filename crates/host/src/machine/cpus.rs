//! Sets of CPUs as the kernel writes them: lists (`0-3,8`) and masks (`1,0000000f`).

use std::collections::BTreeSet;
use std::fmt::Write;

pub use micanite_control::nodes::parse_list;

/// A set of CPU numbers.
pub type Cpus = BTreeSet<usize>;

/// Bits of a mask between two commas.
const WORD_BITS: usize = 32;

/// Writes numbers as a list, runs of them as ranges.
pub fn list<'a>(numbers: impl IntoIterator<Item = &'a usize>) -> String {
    let mut numbers = numbers.into_iter().copied().peekable();
    let mut text = String::new();
    while let Some(first) = numbers.next() {
        let mut last = first;
        while numbers.next_if_eq(&(last + 1)).is_some() {
            last += 1;
        }
        if !text.is_empty() {
            text.push(',');
        }
        // Writing to a string cannot fail.
        let _ = write!(text, "{first}");
        if last > first {
            let _ = write!(text, "-{last}");
        }
    }
    text
}

/// Reads a mask such as `00000001,0000000f`.
pub fn parse_mask(text: &str) -> Option<Cpus> {
    let mut cpus = Cpus::new();
    for (at, word) in text.trim().rsplit(',').enumerate() {
        let bits = u32::from_str_radix(word, 16).ok()?;
        let set = (0..WORD_BITS).filter(|bit| bits >> bit & 1 == 1);
        cpus.extend(set.map(|bit| at * WORD_BITS + bit));
    }
    Some(cpus)
}

/// Writes a set as a mask.
pub fn mask(cpus: &Cpus) -> String {
    let words = cpus.last().map_or(0, |last| last / WORD_BITS);
    let mut text = String::new();
    for at in (0..=words).rev() {
        let bits = cpus
            .range(at * WORD_BITS..(at + 1) * WORD_BITS)
            .fold(0u32, |bits, cpu| bits | 1 << (cpu % WORD_BITS));
        let _ = match text.is_empty() {
            true => write!(text, "{bits:x}"),
            false => write!(text, ",{bits:08x}"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_go_both_ways() {
        assert_eq!(parse_list("0-3,8\n").unwrap(), [0, 1, 2, 3, 8]);
        assert_eq!(parse_list("5,1").unwrap(), [5, 1]);
        assert!(parse_list("").unwrap().is_empty());
        assert_eq!(list(&[0, 1, 2, 3, 8]), "0-3,8");
        assert_eq!(list(&[5, 1]), "5,1");
        for wrong in ["x", "3-1", "1-", "-1", "0-99999999999", "70000"] {
            assert!(parse_list(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn masks_go_both_ways() {
        for (text, cpus) in [
            ("0", Cpus::new()),
            ("f", (0..4).collect()),
            ("80000000", [31].into()),
            ("1,00000000", [32].into()),
            ("2,00000000,80000001", [0, 31, 65].into()),
        ] {
            assert_eq!(mask(&cpus), text);
            assert_eq!(parse_mask(text), Some(cpus));
        }
        assert_eq!(parse_mask("00000000,0000000f\n"), Some((0..4).collect()));
        assert_eq!(parse_mask("no"), None);
    }
}
