//! Energy of the machine's packages, as its meters (RAPL) count it.

use std::path::{Path, PathBuf};

const FOLDER: &str = "/sys/class/powercap";

/// The meters of all packages; none where the machine has no RAPL or does not show it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meters {
    packages: Vec<Package>,
}

#[derive(Clone, Debug)]
struct Package {
    counter: PathBuf,
    /// The counter begins anew behind this.
    most_uj: u64,
}

/// Counters of all packages at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reading(Vec<u64>);

impl Meters {
    pub fn of_machine() -> Self {
        Self::below(Path::new(FOLDER))
    }

    /// Meters below a folder of the kernel's form. Parts of packages, and what sums up several (psys), would
    /// count twice, and so would a package that is shown by a second driver.
    fn below(folder: &Path) -> Self {
        let mut packages: Vec<(String, Package)> = Vec::new();
        let mut zones: Vec<_> =
            std::fs::read_dir(folder).into_iter().flatten().flatten().map(|zone| zone.path()).collect();
        // The usual driver first: intel-rapl-mmio shows the same packages.
        zones.sort_by_key(|zone| (zone.to_string_lossy().contains("mmio"), zone.clone()));
        for zone in zones {
            let read = |name: &str| std::fs::read_to_string(zone.join(name)).ok();
            let Some(name) = read("name").map(|name| name.trim().to_owned()) else {
                continue;
            };
            let counter = zone.join("energy_uj");
            let is_known = packages.iter().any(|(known, _)| *known == name);
            if !name.starts_with("package") || is_known || number(&counter).is_none() {
                continue;
            }
            let most_uj = number(&zone.join("max_energy_range_uj")).unwrap_or(u64::MAX);
            packages.push((name, Package { counter, most_uj }));
        }
        Self { packages: packages.into_iter().map(|(_, package)| package).collect() }
    }

    /// Tells whether there is a meter that can be read.
    pub fn exist(&self) -> bool {
        !self.packages.is_empty()
    }

    /// Reads all meters; none if there are none or one cannot be read any more.
    pub fn read(&self) -> Option<Reading> {
        let counters: Option<Vec<_>> = self.packages.iter().map(|package| number(&package.counter)).collect();
        counters.filter(|counters| !counters.is_empty()).map(Reading)
    }

    /// Energy of all packages since a reading, in joules. A counter may have begun anew once.
    pub fn joules_since(&self, before: Option<&Reading>) -> Option<f64> {
        let (before, now) = (before?, self.read()?);
        let mut sum_uj = 0.0;
        for ((package, now_uj), before_uj) in self.packages.iter().zip(now.0).zip(&before.0) {
            let used_uj = match now_uj.checked_sub(*before_uj) {
                Some(used_uj) => used_uj,
                None => (package.most_uj.checked_sub(*before_uj)?).checked_add(now_uj)?,
            };
            sum_uj += used_uj as f64;
        }
        Some(sum_uj / 1e6)
    }
}

fn number(path: &Path) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of made-up meters.
    struct Zones(PathBuf);

    impl Zones {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("micanite-energy-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&folder);
            std::fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }

        fn set(&self, zone: &str, file: &str, text: &str) {
            std::fs::create_dir_all(self.0.join(zone)).unwrap();
            std::fs::write(self.0.join(zone).join(file), format!("{text}\n")).unwrap();
        }

        fn zone(&self, zone: &str, name: &str, energy_uj: u64) {
            self.set(zone, "name", name);
            self.set(zone, "energy_uj", &energy_uj.to_string());
            self.set(zone, "max_energy_range_uj", "262143328850");
        }
    }

    impl Drop for Zones {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn packages_are_summed_and_their_parts_are_not() {
        let zones = Zones::new("sum");
        zones.zone("intel-rapl:0", "package-0", 1_000_000);
        zones.zone("intel-rapl:0:0", "core", 500_000);
        zones.zone("intel-rapl:1", "package-1", 5_000_000);
        zones.zone("intel-rapl:2", "psys", 9_000_000);
        zones.zone("intel-rapl-mmio:0", "package-0", 1_000_000);
        zones.set("intel-rapl", "enabled", "1");
        let meters = Meters::below(&zones.0);
        assert!(meters.exist());
        let before = meters.read();
        assert_eq!(before, Some(Reading(vec![1_000_000, 5_000_000])));
        for (zone, energy_uj) in [("intel-rapl:0", "2500000"), ("intel-rapl:1", "5250000")] {
            zones.set(zone, "energy_uj", energy_uj);
        }
        zones.set("intel-rapl:0:0", "energy_uj", "900000000");
        assert_eq!(meters.joules_since(before.as_ref()), Some(1.75));
    }

    #[test]
    fn a_counter_that_began_anew_is_understood() {
        let zones = Zones::new("anew");
        zones.zone("intel-rapl:0", "package-0", 262_143_000_000);
        let meters = Meters::below(&zones.0);
        let before = meters.read();
        zones.set("intel-rapl:0", "energy_uj", "671150");
        assert_eq!(meters.joules_since(before.as_ref()), Some(1.0));
    }

    #[test]
    fn meters_that_are_missing_or_unreadable_measure_nothing() {
        let zones = Zones::new("none");
        let none = Meters::below(&zones.0.join("nothing"));
        assert!(!none.exist() && none.read().is_none() && none.joules_since(None).is_none());
        zones.set("intel-rapl:0", "name", "package-0");
        assert!(!Meters::below(&zones.0).exist());
        zones.zone("intel-rapl:0", "package-0", 7);
        let meters = Meters::below(&zones.0);
        let before = meters.read();
        zones.set("intel-rapl:0", "energy_uj", "no number");
        assert_eq!(meters.joules_since(before.as_ref()), None);
    }
}
