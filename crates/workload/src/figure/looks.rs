//! Colours and marks of series: a system has the same in every figure.

/// Colours that there are (`canvas.rs`).
pub(crate) const COLOURS: usize = 12;

/// Colours of systems, by how their names begin. The first row that fits holds.
const SYSTEMS: &[(&str, usize)] = &[
    ("micanite tcp", 1),
    // The server, which says its version over TCP.
    ("micanite 1.", 1),
    ("micanite", 0),
    ("kernel-udp", 0),
    ("kernel-get", 5),
    ("af-xdp", 9),
    ("xdp", 9),
    ("memif", 10),
    // Debian's. Another version beside it is the current one.
    ("memcached 1.6.18 udp", 7),
    ("memcached 1.6.18", 2),
    ("memcached 1", 3),
    ("memcached", 2),
    ("redis", 4),
    // Published ones.
    ("mica", 5),
    ("16 cores, mica", 5),
    ("masstree", 8),
    ("ramcloud", 9),
    ("memc3", 10),
    ("hippos, peak, 1 gb", 11),
    ("hippos", 6),
    // Tables within a process.
    ("two dependent lines", 5),
    ("hash map in 32 shards", 8),
    ("hash map", 6),
    ("hashbrown", 6),
    ("quick_cache", 4),
    // Policies.
    ("s3-fifo", 0),
    ("clock", 1),
    ("approximate-lru", 2),
    ("lru", 3),
    ("fifo", 4),
    ("belady", 5),
    ("engine:lru", 6),
    ("engine:fifo", 7),
    ("sieve", 8),
    ("2q", 9),
    ("arc", 10),
    ("w-tinylfu", 11),
];

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    pub colour: usize,
    /// Number of its mark and its dashes.
    pub shape: usize,
}

/// Returns the colour that a series of this name has in every figure, if it is a system's.
pub fn colour_of_system(name: &str) -> Option<usize> {
    let name = name.to_lowercase();
    SYSTEMS.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, colour)| *colour)
}

/// Returns the looks of the series of a figure. A system's colour does not depend on the others. Series of
/// one system share its colour where lines tell them apart by dashes and marks; of bars, the later ones have
/// the next free colour, as series have that are no system's.
pub(crate) fn looks(names: &[&str], are_lines: bool) -> Vec<Look> {
    let systems: Vec<_> = names.iter().map(|name| colour_of_system(name)).collect();
    let mut used: Vec<usize> = systems.iter().flatten().copied().collect();
    let free = |used: &mut Vec<usize>| {
        let colour = (0..COLOURS).find(|colour| !used.contains(colour));
        let colour = colour.unwrap_or(used.len() % COLOURS);
        used.push(colour);
        colour
    };
    let mut looks: Vec<Look> = Vec::new();
    for system in systems {
        let of_system = |colour| looks.iter().filter(|look| look.colour == colour).count();
        let look = match system.map(|colour| (colour, of_system(colour))) {
            Some((colour, before)) if before == 0 || are_lines => {
                // The next dashes, and another mark.
                Look { colour, shape: colour + 3 * before }
            }
            _ => {
                let colour = free(&mut used);
                Look { colour, shape: colour }
            }
        };
        looks.push(look);
    }
    looks
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whichever systems a figure shows, and in which order, each has its colour.
    #[test]
    fn a_system_has_one_colour_in_all_subsets() {
        let all = ["micanite native", "micanite TCP", "memcached 1.6.18", "memcached 1.6.45", "Redis 7.0.15"];
        let whole = looks(&all, false);
        for subset in 0u32..1 << all.len() {
            let chosen: Vec<usize> = (0..all.len()).rev().filter(|at| subset >> at & 1 == 1).collect();
            let mut names: Vec<_> = chosen.iter().map(|at| all[*at]).collect();
            names.push("something else");
            for are_lines in [false, true] {
                let looks = looks(&names, are_lines);
                for (look, at) in looks.iter().zip(&chosen) {
                    assert_eq!(look, &whole[*at], "{names:?}");
                }
                let other = looks.last().unwrap().colour;
                assert!(looks[..chosen.len()].iter().all(|look| look.colour != other), "{names:?}");
            }
        }
        assert_eq!(colour_of_system("Memcached"), colour_of_system("memcached 1.6.18, here"));
        assert_eq!(colour_of_system("kernel"), None);
    }

    /// Two bars are never alike; two lines of a system differ by their marks and dashes.
    #[test]
    fn series_of_a_system_can_be_told_apart() {
        let names = ["memif, 1", "memif, 4", "uniform", "xdp, 1", "xdp, 4"];
        let (bars, lines) = (looks(&names, false), looks(&names, true));
        for one in 0..names.len() {
            for other in 0..one {
                assert_ne!(bars[one].colour, bars[other].colour);
                assert_ne!(lines[one], lines[other]);
            }
        }
        assert_eq!(lines[0].colour, lines[1].colour);
        assert_ne!(lines[0].shape % 4, lines[1].shape % 4, "marks");
        assert_ne!(lines[0].shape / 2 % 4, lines[1].shape / 2 % 4, "dashes");
        let many: Vec<_> = (0..30).map(|at| at.to_string()).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        assert!(looks(&many, true).iter().all(|look| look.colour < COLOURS));
    }
}
