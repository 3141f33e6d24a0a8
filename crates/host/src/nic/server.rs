//! Asks the running server which ports its workers have, and the kernel which CPUs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use micanite_control::{Format, Request};

use super::options::Worker;
use super::share::Place;
use crate::machine::cpus;

/// Beginning of the names of worker threads; their number follows.
const THREAD_PREFIX: &str = "worker-";
/// Beginning of the heading of the ports in the answer to `directory`. The interface follows, if there are
/// several.
const PORTS_HEADING: &str = "core UDP port node";

/// The workers of a server, and their places if it has them at several interfaces. `ask` sends it a
/// request; `chosen` are CPUs to take instead of those that its threads are kept on.
pub fn workers(
    ask: impl Fn(Request) -> Result<String, String>,
    chosen: Option<&[usize]>,
) -> Result<(Vec<Worker>, Vec<Place>), String> {
    let directory = ask(Request::Directory)
        .map_err(|reason| format!("{reason}\nwithout a server, give --native and --cores"))?;
    let ports = ports(&directory)?;
    let cpus = match chosen {
        Some(chosen) => chosen.iter().copied().enumerate().collect(),
        None => {
            let statistics = ask(Request::Stats(Format::default()))?;
            let pid = pid(&statistics).ok_or("the server does not say which process it is")?;
            cpus_of(&Path::new("/proc").join(pid))
        }
    };
    let workers = ports.into_iter().map(|(number, port)| match cpus.get(&number) {
        Some(&cpu) => Ok(Worker { number, port, cpu, node: None }),
        None => Err(format!(
            "worker {number} is kept on no CPU of its own, and no queue can follow it: give the \
             server no more threads than CPUs, or name CPUs with --cpus"
        )),
    });
    Ok((workers.collect::<Result<_, _>>()?, places(&directory)))
}

/// The rows of the ports in the answer to `directory`.
fn rows(text: &str) -> impl Iterator<Item = &str> {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut lines = text.lines();
    lines.find(|line| words(line).starts_with(PORTS_HEADING));
    lines.take_while(|line| !line.trim().is_empty())
}

/// The place of each worker, from the answer to `directory`: a name, and addresses in brackets.
fn places(text: &str) -> Vec<Place> {
    let place = |row: &str| {
        let (head, addresses) = row.trim_end().strip_suffix(')')?.split_once('(')?;
        let addresses = addresses.split(", ").map(str::parse).collect::<Result<_, _>>().ok()?;
        let name = head.split_whitespace().nth(3)?.to_owned();
        Some(Place { name, addresses })
    };
    rows(text).map(place).collect::<Option<_>>().unwrap_or_default()
}

/// Worker and port, from the answer to `directory`.
pub fn ports(text: &str) -> Result<Vec<(usize, u16)>, String> {
    let ports: Option<Vec<_>> = rows(text)
        .map(|row| {
            let mut words = row.split_whitespace();
            Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
        })
        .collect();
    match ports {
        Some(ports) if !ports.is_empty() => Ok(ports),
        _ => Err("the server's directory is not understood: give --native and --cores".into()),
    }
}

/// The process id among the statistics.
fn pid(statistics: &str) -> Option<&str> {
    let mut lines = statistics.lines();
    let pid = lines.find_map(|line| line.strip_prefix("STAT pid "))?;
    pid.trim().parse::<u32>().ok().map(|_| pid.trim())
}

/// The CPU of each worker that is kept on one: from the threads of a process.
pub fn cpus_of(process: &Path) -> BTreeMap<usize, usize> {
    let threads = fs::read_dir(process.join("task")).into_iter().flatten();
    threads
        .flatten()
        .filter_map(|thread| {
            let name = fs::read_to_string(thread.path().join("comm")).ok()?;
            let number = name.trim_end().strip_prefix(THREAD_PREFIX)?.parse().ok()?;
            let status = fs::read_to_string(thread.path().join("status")).ok()?;
            let mut lines = status.lines();
            let list = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
            match cpus::parse_list(list).ok()?.as_slice() {
                [cpu] => Some((number, *cpu)),
                _ => None,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIRECTORY: &str = "generation 1\ncores 2\n\n     core  UDP port  node\n\
        \x20       0      9000     0\n\
        \x20       1      9007     0\n\npartition  mode  owner\n        0  erew      0\n";

    #[test]
    fn ports_come_from_the_directory() {
        assert_eq!(ports(DIRECTORY), Ok(vec![(0, 9000), (1, 9007)]));
        assert!(ports("").is_err());
        assert!(ports(&DIRECTORY.replace("9007", "none")).is_err());
    }

    #[test]
    fn places_come_from_the_directory() {
        let text = "     core  UDP port  node  interface\n\
            \x20       0      9000     0  xdp:eth0 (10.0.0.2, fd00::2)\n\
            \x20       1      9001     0  10.0.1.2 (10.0.1.2)\n\n";
        let found = places(text);
        assert_eq!((&*found[0].name, found[0].addresses.len()), ("xdp:eth0", 2));
        assert_eq!((&*found[1].name, found[1].addresses.len()), ("10.0.1.2", 1));
        assert_eq!(ports(text), Ok(vec![(0, 9000), (1, 9001)]));
        assert_eq!(places(DIRECTORY), []);
    }

    #[test]
    fn workers_have_the_cpus_that_are_chosen_or_that_their_threads_are_kept_on() {
        let ask = |request| match request {
            Request::Directory => Ok(DIRECTORY.into()),
            Request::Stats(_) => Ok(format!("STAT pid {}\n", std::process::id())),
            _ => Err("not asked".into()),
        };
        let (chosen, places) = workers(ask, Some(&[3, 5])).unwrap();
        assert_eq!(places, []);
        let found: Vec<_> = chosen.iter().map(|w| (w.number, w.port, w.cpu)).collect();
        assert_eq!(found, [(0, 9000, 3), (1, 9007, 5)]);
        assert!(workers(ask, Some(&[3])).unwrap_err().contains("worker 1"));
        // This process has no workers.
        assert!(workers(ask, None).unwrap_err().contains("worker 0"));
        let reason = workers(|_| Err("no server".into()), None).unwrap_err();
        assert!(reason.contains("no server") && reason.contains("--native"));
    }
}
