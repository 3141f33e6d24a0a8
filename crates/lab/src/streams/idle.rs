//! What connections cost that do nothing: Pss of the server's process before and after they came,
//! each with one request answered. The kernel's own memory for sockets is not in it.

use super::Options;
use super::servers::{Flags, Kind, Server, Transport};
use crate::measurement::Measurement;
use crate::{Result, system};

const CASE: &str = "idle connections";

pub(super) fn run(
    options: &Options,
    kinds: &[Kind],
    cpu: usize,
    report: &mut Measurement,
) -> Result<()> {
    if !options.common.wants(CASE) {
        return Ok(());
    }
    let wanted = options.idle as u64 + 100;
    let files = system::raise_file_limit();
    if files < wanted {
        report.note(format!(
            "no idle connections: {files} open files are allowed"
        ));
        return Ok(());
    }
    let flags = Flags {
        connections_max: options.idle + 10,
        memory_mib: 64,
    };
    let mut costs = Vec::new();
    for kind in kinds {
        let server = Server::start(kind, &options.server, Transport::Tcp, &flags, cpu)?;
        let before = pss_bytes(server.pid())?;
        let mut connections = Vec::with_capacity(options.idle);
        let request = match kind {
            Kind::Redis(_) => "GET none\r\n",
            _ => "get none\r\n",
        };
        for _ in 0..options.idle {
            let mut connection = server.connect()?;
            connection.write_all(request.as_bytes())?;
            let mut reply = [0; 5];
            connection.read_exact(&mut reply)?;
            if reply != *b"END\r\n" && reply != *b"$-1\r\n" {
                return Err(format!("{}: an odd reply to a miss", server.name).into());
            }
            connections.push(connection);
        }
        let after = pss_bytes(server.pid())?;
        let each = after.saturating_sub(before) as f64 / options.idle as f64;
        costs.push((server.name.clone(), each));
    }
    let name = format!("{} {CASE}", options.idle);
    let (_, ours) = costs[0];
    for (peer, theirs) in &costs[1..] {
        let what = (name.as_str(), "memory of each", "bytes");
        report.beside(what, &[ours], peer, &[*theirs]);
        report.value(
            &name,
            &format!("memory of each, {peer}"),
            "bytes",
            &[*theirs],
        );
    }
    Ok(())
}

fn pss_bytes(pid: u32) -> Result<u64> {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(kib.ok_or("no Pss in smaps_rollup")?.parse::<u64>()? * 1024)
}
