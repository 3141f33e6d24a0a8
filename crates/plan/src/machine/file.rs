//! Machines in TOML files.

use std::path::Path;
use std::time::SystemTime;

use super::Machine;

/// Default file in which `--calibrate` keeps this machine: beside other configuration of the user.
pub fn usual_path() -> Option<std::path::PathBuf> {
    let configuration = std::env::var_os("XDG_CONFIG_HOME").map(std::path::PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".config"));
    configuration.or_else(home).map(|folder| folder.join("micanite").join("machine.toml"))
}

/// Reads a machine.
///
/// # Errors
/// When the file cannot be read, or is no machine: a sentence.
pub fn read(path: &Path) -> Result<Machine, String> {
    let name = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {name}: {error}"))?;
    toml::from_str(&text).map_err(|error| format!("{name} is no machine: {error}"))
}

/// Writes a machine.
///
/// # Errors
/// When the file cannot be written: a sentence.
pub fn write(path: &Path, machine: &Machine) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("cannot write {}: {error}", path.display());
    let text = toml::to_string(machine).map_err(|error| failed(&error))?;
    let text = format!("# Written by micanite plan --calibrate.\n{text}");
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| failed(&error))?;
    }
    std::fs::write(path, text).map_err(|error| failed(&error))
}

/// Returns how old a file is, in words; nothing if it is not there.
pub fn age(path: &Path) -> Option<String> {
    let written = std::fs::metadata(path).ok()?.modified().ok()?;
    let seconds = SystemTime::now().duration_since(written).map_or(0, |age| age.as_secs());
    Some(match seconds {
        0..120 => format!("{seconds} seconds old"),
        120..7200 => format!("{} minutes old", seconds / 60),
        7200..172_800 => format!("{} hours old", seconds / 3600),
        _ => format!("{} days old", seconds / 86_400),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{HoldsFor, Power};

    /// A written machine is read back, and has an age.
    #[test]
    fn reading_reverses_writing() {
        let folder = std::env::temp_dir().join(format!("micanite-plan-{}", std::process::id()));
        let path = folder.join("machine.toml");
        for name in Machine::presets() {
            let machine = Machine::preset(name).unwrap();
            machine.check().unwrap();
            write(&path, &machine).unwrap();
            assert_eq!(read(&path).unwrap(), machine);
        }
        assert!(age(&path).unwrap().contains("seconds old"));
        std::fs::write(&path, "name = 3").unwrap();
        assert!(read(&path).unwrap_err().contains("is no machine"));
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(age(&path), None);
    }

    /// Machines that cannot be get a sentence.
    #[test]
    fn impossible_machines_are_refused() {
        let good = Machine::preset("paper-2").unwrap();
        let said = |machine: Machine| machine.check().unwrap_err();
        assert!(said(Machine { cores: 0, ..good.clone() }).contains("no core"));
        assert!(said(Machine { sockets: 1 << 30, ..good.clone() }).contains("more than any machine"));
        assert!(said(Machine { clock_ghz: f64::NAN, ..good.clone() }).contains("clock_ghz"));
        assert!(said(Machine { ports: 0, ..good.clone() }).contains("no network port"));
        assert!(said(Machine { ports: u32::MAX, ..good.clone() }).contains("ports"));
        for gb_s in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let machine = Machine { sustained_gb_s: Some(gb_s), ..good.clone() };
            assert!(said(machine).contains("sustained_gb_s"), "{gb_s}");
        }
        let power = Power { processors_w: f64::NAN, port_w: 1.0, other_w: 1.0, request_nj: 1.0 };
        assert!(said(Machine { power: Some(power), ..good.clone() }).contains("power"));
        let mut cost = good.cost;
        cost.holds_for = Some(HoldsFor { llc_kib_per_core: 0.0, reorder_buffer: 1.0, issue_width: 1.0 });
        assert!(said(Machine { cost, ..good.clone() }).contains("holds_for"));
        assert!(said(Machine { threads: 3, ..good }).contains("SMT"));
    }
}
