//! The groups that figures are split into: one for all keys, one for each prefix.

use std::collections::HashMap;

use super::figures::Figures;

/// Prefixes with figures of their own: those that come first.
const PREFIXES_MAX: usize = 2000;

/// Figures of all keys, then of each prefix.
pub(super) struct Groups {
    figures: Vec<Figures>,
    names: Vec<Vec<u8>>,
    numbers: HashMap<Vec<u8>, u16>,
    /// Requests whose prefix came too late.
    late: u64,
}

/// Number of the group of all keys.
pub(super) const ALL: u16 = 0;
/// Number of the group of keys without a prefix, or with one that came too late.
pub(super) const OTHERS: u16 = 1;

impl Groups {
    pub fn new() -> Self {
        Self {
            figures: vec![Figures::default(), Figures::default()],
            names: vec![b"all".to_vec(), b"(others)".to_vec()],
            numbers: HashMap::new(),
            late: 0,
        }
    }

    /// The number of a prefix's group.
    pub fn of(&mut self, prefix: Option<&[u8]>) -> u16 {
        let Some(prefix) = prefix else {
            return OTHERS;
        };
        if let Some(number) = self.numbers.get(prefix) {
            return *number;
        }
        if self.numbers.len() == PREFIXES_MAX {
            self.late += 1;
            return OTHERS;
        }
        let number = self.figures.len() as u16;
        self.figures.push(Figures::default());
        self.names.push(prefix.to_vec());
        self.numbers.insert(prefix.to_vec(), number);
        number
    }

    pub fn get(&mut self, number: u16) -> &mut Figures {
        &mut self.figures[usize::from(number)]
    }

    /// Says how many prefixes have no figures of their own.
    pub fn remark(&self) -> Option<String> {
        let late = self.late;
        (late > 0).then(|| {
            format!(
                "there are more than {PREFIXES_MAX} prefixes: {late} requests of those that came later are \
                 with (others)"
            )
        })
    }

    pub fn close(&mut self) {
        self.figures.iter_mut().for_each(Figures::close);
    }

    /// All keys, then the so many prefixes with most requests, if there are any prefixes.
    pub fn shown(&self, most: usize) -> Vec<(u16, String, &Figures)> {
        let mut numbers: Vec<u16> = (1..self.figures.len() as u16).collect();
        let requests = |number: &u16| self.figures[usize::from(*number)].requests;
        numbers.retain(|number| requests(number) > 0);
        numbers.sort_by_key(|number| std::cmp::Reverse(requests(number)));
        numbers.truncate(if self.numbers.is_empty() { 0 } else { most });
        numbers.insert(0, ALL);
        let named = |number: u16| {
            let name = self.names[usize::from(number)].escape_ascii().to_string();
            (number, name, &self.figures[usize::from(number)])
        };
        numbers.into_iter().map(named).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_have_their_groups() {
        let mut groups = Groups::new();
        assert_eq!(groups.shown(5).len(), 1, "there is none");
        let (a, b) = (groups.of(Some(b"a")), groups.of(Some(b"b")));
        assert!(a != b && groups.of(Some(b"a")) == a && groups.of(None) == OTHERS);
        groups.get(b).requests = 2;
        groups.get(a).requests = 1;
        let names: Vec<_> = groups.shown(5).into_iter().map(|(_, name, _)| name).collect();
        assert_eq!(names, ["all", "b", "a"]);
        for number in 0..5000u32 {
            groups.of(Some(&number.to_le_bytes()));
        }
        assert_eq!(groups.figures.len(), PREFIXES_MAX + 2);
        assert!(groups.remark().unwrap().contains("3002 requests"));
    }
}
