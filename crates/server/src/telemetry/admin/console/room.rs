//! The room that snapshots and recordings of users may take: a number of files, and a part of the file system
//! that stays free.

use std::path::Path;

use micanite_control::{RecordOptions, Request as Order, size};
use nix::sys::statvfs::statvfs;

use crate::configuration::Settings;
use crate::limits::{CONSOLE_FILES_MAX, CONSOLE_FREE_PERCENT};

/// Refuses an order whose file has no room in the directory of `--admin-files`. `to_come_bytes`: bytes that
/// others may still write there.
pub(super) fn check(order: &Order, settings: &Settings, to_come_bytes: u64) -> Result<(), String> {
    let (path, needed_bytes) = match order {
        Order::Snapshot { path } => (path, settings.memory_bytes),
        Order::Record(RecordOptions { file: Some(path), bytes_max, .. }) => {
            (path, bytes_max.unwrap_or_default().0)
        }
        _ => return Ok(()),
    };
    if path.exists() {
        return Err(format!("{} is there already: choose another name", path.display()));
    }
    let Some(folder) = &settings.admin_files else { return Ok(()) };
    check_count(folder)?;
    let system = statvfs(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let unit_bytes = system.fragment_size();
    let (free_bytes, all_bytes) = (system.blocks_available() * unit_bytes, system.blocks() * unit_bytes);
    check_free(folder, needed_bytes as u64, free_bytes.saturating_sub(to_come_bytes), all_bytes)
}

fn check_count(folder: &Path) -> Result<(), String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    match entries.take(CONSOLE_FILES_MAX).count() {
        CONSOLE_FILES_MAX => Err(format!(
            "{} holds {CONSOLE_FILES_MAX} files already, the most for --admin-files: move some elsewhere",
            folder.display()
        )),
        _ => Ok(()),
    }
}

fn check_free(folder: &Path, needed_bytes: u64, free_bytes: u64, all_bytes: u64) -> Result<(), String> {
    let kept_bytes = all_bytes / 100 * CONSOLE_FREE_PERCENT;
    if needed_bytes.saturating_add(kept_bytes) <= free_bytes {
        return Ok(());
    }
    let text = |bytes: u64| size::text(bytes as usize);
    Err(format!(
        "{} has {} free beside what is being written: this may take {}, and {CONSOLE_FREE_PERCENT} % of the \
         file system ({}) stay free; make room there, or choose another --admin-files",
        folder.display(),
        text(free_bytes),
        text(needed_bytes),
        text(kept_bytes),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_file_system_stays_free() {
        let check =
            |needed_bytes, free_bytes| check_free(Path::new("/a"), needed_bytes, free_bytes, 1000 << 20);
        assert_eq!(check(50 << 20, 100 << 20), Ok(()));
        let refused = check(51 << 20, 100 << 20).unwrap_err();
        assert!(
            refused.starts_with("/a has 100 MiB free beside what is being written: this may take 51 MiB"),
            "{refused}"
        );
        assert!(check(u64::MAX, 100 << 20).is_err() && check(0, 0).is_err());
    }

    #[test]
    fn files_are_few() {
        let folder = std::env::temp_dir().join(format!("micanite-files-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        for number in 1..CONSOLE_FILES_MAX {
            std::fs::write(folder.join(number.to_string()), "").unwrap();
        }
        assert_eq!(check_count(&folder), Ok(()));
        std::fs::write(folder.join("last"), "").unwrap();
        let refused = check_count(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(refused.unwrap_err().contains("--admin-files"));
        assert!(check_count(Path::new("/nowhere")).is_err());
    }

    #[test]
    fn files_that_are_being_written_count() {
        let folder = std::env::temp_dir().join(format!("micanite-room-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let options: crate::configuration::Options =
            toml::from_str(&format!("admin-files = '{}'", folder.display())).unwrap();
        let settings = Settings::of(&options, 2).unwrap();
        let order = |name: &str| format!("record 1 - 1m {}", folder.join(name).display()).parse().unwrap();
        let alone = check(&order("new"), &settings, 0);
        let beside = check(&order("new"), &settings, u64::MAX);
        std::fs::write(folder.join("old"), "").unwrap();
        let again = check(&order("old"), &settings, 0);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(alone, Ok(()));
        assert!(beside.unwrap_err().contains("beside what is being written"));
        assert!(again.unwrap_err().contains("choose another name"));
    }

    #[test]
    fn only_orders_with_files_are_checked() {
        let options: crate::configuration::Options = toml::from_str("admin-files = '/nowhere'").unwrap();
        let settings = Settings::of(&options, 2).unwrap();
        for (order, is_refused) in [
            ("mode crew", false),
            ("record stop", false),
            ("record 1 - - /nowhere/a", true),
            ("snapshot /nowhere/a", true),
        ] {
            assert_eq!(check(&order.parse().unwrap(), &settings, 0).is_err(), is_refused, "{order}");
        }
    }
}
