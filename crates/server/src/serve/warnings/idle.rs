//! Warns of workers that own no partition, where only owners execute requests.

use micanite_control::size;
use micanite_engine::{Access, Cache, Layout};

use crate::configuration::Settings;
use crate::native::NativeShared;
use crate::telemetry::log::start;

/// Smallest `-I`.
const ITEM_BYTES_MIN: usize = 1 << 10;

/// Logs a warning if there are such workers.
pub(super) fn warn(settings: &Settings, cache: &Cache, native: Option<&NativeShared>) {
    let idle = idle(settings.threads, cache);
    if idle.is_empty() {
        return;
    }
    let is_fixed = cache.image_state().is_kept();
    start!(WARN, "{}", text(settings, &idle, cache.layout().partitions, &remedies(settings, is_fixed)));
    for its in native.iter().flat_map(|native| &native.interfaces) {
        if its.workers.clone().all(|worker| idle.contains(&worker)) {
            start!(
                WARN,
                "no worker of {} owns a partition: clients have no reason to use it under erew",
                its.name
            );
        }
    }
}

/// Returns the workers that execute no request: under EREW those without a partition. Under CREW they read,
/// and under CRCW they do everything.
fn idle(threads: usize, cache: &Cache) -> Vec<usize> {
    let routes: Vec<_> = (0..cache.layout().partitions).filter_map(|number| cache.route(number)).collect();
    match routes.iter().all(|route| route.access == Access::Erew) {
        true => (0..threads).filter(|worker| routes.iter().all(|route| route.owner != *worker)).collect(),
        false => Vec::new(),
    }
}

/// Returns the options that would give each worker a partition.
fn remedies(settings: &Settings, is_fixed: bool) -> Vec<String> {
    let partitions = |settings: &Settings| {
        let layout = Layout::of(&settings.engine(0));
        layout.map_or(0, |layout| layout.partitions)
    };
    let now = partitions(settings);
    let mut remedies = Vec::new();
    if is_fixed {
        remedies.push("another --image directory with more memory (-m) and without the items".to_owned());
    } else {
        let suffices = |changed: &Settings| partitions(changed) >= settings.threads;
        let mut more = settings.clone();
        let memory = std::iter::successors(Some(settings.memory_bytes), |bytes| bytes.checked_mul(2));
        let memory = memory.skip(1).take(16).find(|bytes| {
            more.memory_bytes = *bytes;
            suffices(&more)
        });
        remedies.extend(memory.map(|bytes| format!("-m {}", size::exact(bytes))));
        let mut less = settings.clone();
        let largest = std::iter::successors(Some(settings.item_bytes_max), |bytes| Some(bytes / 2));
        let largest = largest.skip(1).take_while(|bytes| *bytes >= ITEM_BYTES_MIN).find(|bytes| {
            less.item_bytes_max = *bytes;
            suffices(&less)
        });
        remedies.extend(largest.map(|bytes| format!("-I {}", size::exact(bytes))));
    }
    let mut fewer = settings.clone();
    let fewer = (1..settings.threads).rev().find(|threads| {
        fewer.threads = *threads;
        if is_fixed { *threads <= now } else { partitions(&fewer) >= *threads }
    });
    remedies.extend(fewer.map(|threads| format!("-t {threads}")));
    remedies
}

fn text(settings: &Settings, idle: &[usize], partitions: usize, remedies: &[String]) -> String {
    let numbers: Vec<_> = idle.iter().map(ToString::to_string).collect();
    let (workers, own, them) = match idle.len() {
        1 => ("worker", "owns", "it"),
        _ => ("workers", "own", "them"),
    };
    let partitions = match partitions {
        1 => "1 partition".to_owned(),
        count => format!("{count} partitions"),
    };
    let remedy = match remedies {
        [] => String::new(),
        [others @ .., last] if !others.is_empty() => format!("; use {} or {last}", others.join(", ")),
        [one, ..] => format!("; use {one}"),
    };
    format!(
        "{workers} {} {own} no partition, so no request is for {them} under erew: {} of memory (-m) \
         and values up to {} (-I) make {partitions} for {} workers (-t){remedy}",
        numbers.join(" "),
        size::text(settings.memory_bytes),
        size::text(settings.item_bytes_max),
        settings.threads,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::Options;

    fn settings(toml: &str) -> Settings {
        let options: Options = toml::from_str(toml).unwrap();
        Settings::of(&options, 1).unwrap()
    }

    /// Returns the number of partitions with these options beside those of a test.
    fn partitions(options: &str) -> usize {
        Layout::of(&settings(options).engine(0)).unwrap().partitions
    }

    #[test]
    fn remedies_give_each_worker_a_partition() {
        let found = remedies(&settings("threads = 2\nmemory-limit = 32\naccess = 'erew'"), false);
        assert_eq!(found.len(), 3, "{found:?}");
        for (remedy, name) in found.iter().zip(["memory-limit", "max-item-size", "threads"]) {
            let (_, value) = remedy.split_once(' ').unwrap();
            let mut options = vec![("threads", "2"), ("memory-limit", "32")];
            options.retain(|(other, _)| *other != name);
            options.push((name, value));
            let toml: Vec<_> = options.iter().map(|(name, value)| format!("{name} = '{value}'")).collect();
            let wanted = if name == "threads" { value.parse().unwrap() } else { 2 };
            assert!(partitions(&toml.join("\n")) >= wanted, "{remedy}");
        }
    }

    #[test]
    fn workers_are_idle_under_erew_only() {
        for (access, workers) in [("erew", &[1][..]), ("crew", &[]), ("crcw", &[])] {
            let settings = settings(&format!("threads = 2\nmemory-limit = 4\naccess = '{access}'"));
            let cache = Cache::new(&settings.engine(1)).unwrap();
            assert_eq!(idle(2, &cache), workers, "{access}");
        }
        let enough = settings("threads = 2\nmemory-limit = 64\naccess = 'erew'");
        assert!(idle(2, &Cache::new(&enough.engine(1)).unwrap()).is_empty());
    }

    #[test]
    fn images_keep_their_partitions() {
        let found = remedies(&settings("threads = 2\nmemory-limit = 32\naccess = 'erew'"), true);
        assert_eq!(found.last().unwrap(), "-t 1");
        assert!(found[0].contains("--image") && found[0].contains("without the items"));
    }
}
