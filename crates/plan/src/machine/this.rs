//! The machine at hand, as the system describes it, with costs from its calibration or, without one, from
//! a reference machine.

use std::fs;
use std::path::Path;

use micanite_control::cores;

use super::{Machine, file};

/// Costs where nothing was calibrated.
const REFERENCE: &str = include_str!("presets/reference.toml");

/// The machine at hand, and a remark on where its costs come from.
pub fn this(path: Option<&Path>) -> Result<(Machine, String), String> {
    let usual = file::usual_path();
    if let Some(path) = path.or(usual.as_deref())
        && let Some(age) = file::age(path)
    {
        let remark = format!("costs are from {}, {age}", path.display());
        return Ok((file::read(path)?, remark));
    }
    if let Some(path) = path {
        return Err(format!("there is no {}: run micanite plan --calibrate first", path.display()));
    }
    let remark = "costs are those of a reference machine; micanite plan --calibrate measures this one's";
    Ok((described()?, remark.to_owned()))
}

/// Returns this machine with the costs of the reference.
pub fn described() -> Result<Machine, String> {
    let mut machine: Machine = toml::from_str(REFERENCE).map_err(|error| error.to_string())?;
    let measured = "measured: this system";
    let mut told = |field: &str| {
        machine.origin.insert(field.to_owned(), measured.to_owned());
    };
    for field in ["sockets", "cores", "memory_gib"] {
        told(field);
    }
    if let Some(ghz) = clock_ghz() {
        told("clock_ghz");
        machine.clock_ghz = ghz;
    }
    let sockets = sockets();
    let cores = cores::physical() as u32;
    if let Some(kib) = llc_kib() {
        told("llc_kib_per_core");
        machine.llc_kib_per_core = kib / f64::from(cores.div_ceil(sockets));
    }
    if let Some(gb_s) = port_gb_s() {
        told("port_gb_s");
        machine.port_gb_s = gb_s;
    }
    "this".clone_into(&mut machine.name);
    machine.sockets = sockets;
    machine.cores = (cores / sockets).max(1);
    machine.memory_gib = memory_gib().ok_or("/proc/meminfo does not tell the memory")?;
    Ok(machine)
}

fn clock_ghz() -> Option<f64> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let mhz = text.lines().find_map(|line| line.strip_prefix("cpu MHz")?.split(": ").nth(1)?.parse().ok());
    mhz.map(|mhz: f64| mhz / 1000.0)
}

fn sockets() -> u32 {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut ids: Vec<&str> = text.lines().filter(|line| line.starts_with("physical id")).collect();
    ids.sort_unstable();
    ids.dedup();
    (ids.len() as u32).max(1)
}

/// Size of the largest cache of the first CPU.
fn llc_kib() -> Option<f64> {
    let folder = Path::new("/sys/devices/system/cpu/cpu0/cache");
    let sizes = fs::read_dir(folder).ok()?.filter_map(|entry| {
        let text = fs::read_to_string(entry.ok()?.path().join("size")).ok()?;
        text.trim().strip_suffix('K')?.parse::<f64>().ok()
    });
    sizes.fold(None, |most, size| Some(most.map_or(size, |most: f64| most.max(size))))
}

fn memory_gib() -> Option<f64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let kib = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    kib.map(|kib| kib / f64::from(1 << 20))
}

/// Speed of the fastest interface that tells one.
fn port_gb_s() -> Option<f64> {
    let speeds = fs::read_dir("/sys/class/net").ok()?.filter_map(|entry| {
        let text = fs::read_to_string(entry.ok()?.path().join("speed")).ok()?;
        text.trim().parse::<f64>().ok().filter(|mbit| *mbit > 0.0)
    });
    let most = speeds.fold(0.0, f64::max);
    (most > 0.0).then_some(most / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This machine can be described, and its description is a machine.
    #[test]
    fn this_machine_is_one() {
        described().unwrap().check().unwrap();
    }
}
