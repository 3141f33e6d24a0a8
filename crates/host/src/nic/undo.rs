//! Deletes flow rules that `--apply` has made, by their numbers.

use super::print::say;
use crate::machine::{Machine, ethtool, parse};

/// Deletes them, but for those that are of another kind. Returns how many were not deleted.
pub fn undo(machine: &Machine, name: &str, rules: &[u32]) -> Result<usize, String> {
    ethtool::check()?;
    machine.directory(name)?;
    let mut refused = 0;
    for &id in rules {
        let line = match delete(name, id) {
            Ok(()) => format!("done      ethtool -N {name} delete {id}"),
            Err(reason) => {
                refused += 1;
                format!("refused   rule {id}: {reason}")
            }
        };
        say(&line);
    }
    Ok(refused)
}

fn delete(name: &str, id: u32) -> Result<(), String> {
    let number = id.to_string();
    let text = ethtool::run(&["-n", name, "rule", &number])?;
    let found = parse::port_rules(&text);
    if !found.iter().any(|rule| rule.id == id) {
        return Err("no rule for a UDP port alone, as this command makes them: left alone".into());
    }
    ethtool::run(&["-N", name, "delete", &number]).map(drop)
}
