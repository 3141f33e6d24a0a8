//! Memory of connections that do nothing: Pss of the server's process before and after they came,
//! each with one request answered. The kernel's own memory for sockets is not in it.

use super::Options;
use crate::Result;
use crate::harness::peers;
use crate::harness::servers::{Program, Server, Transport};
use crate::harness::system;
use crate::results::measurement::Measurement;

const CASE: &str = "idle connections";
const COUNT: usize = 10_000;
const COUNT_QUICK: usize = 1000;

pub(super) fn run(options: &Options, cpus: &[usize], report: &mut Measurement) -> Result<()> {
    if !options.common.wants(CASE) {
        return Ok(());
    }
    let count = match options.common.quick {
        true => COUNT_QUICK,
        false => COUNT,
    };
    let files = system::raise_file_limit();
    if files < count as u64 + 100 {
        report.note(format!("no idle connections: {files} open files are allowed"));
        return Ok(());
    }
    let most = (count + 64).to_string();
    let binaries = peers::memcacheds_or_none(&options.binaries.memcached, report)?;
    let mut programs = vec![Program::Micanite(&options.binaries.server)];
    programs.extend(binaries.iter().map(|binary| Program::Memcached(binary)));
    if options.redis.exists() {
        programs.push(Program::Redis(&options.redis));
    }
    let name = format!("{count} {CASE}");
    let mut ours = None;
    for program in programs {
        let flags = match program {
            Program::Redis(_) => ["--maxclients", &most].to_vec(),
            _ => ["-m", "64", "-c", &most].to_vec(),
        };
        let server = Server::start(program, Transport::Tcp, &flags, cpus[0])?;
        let each = memory_of_each(&server, count)?;
        let metric = format!("memory of each, {}", server.name);
        report.value(&name, &metric, "bytes", &[each]);
        match ours {
            None => ours = Some(each),
            Some(ours) => {
                let what = (name.as_str(), "memory of each", "bytes");
                report.beside(what, &[ours], &server.name, &[each]);
            }
        }
    }
    Ok(())
}

fn memory_of_each(server: &Server, count: usize) -> Result<f64> {
    let before = pss_bytes(server.pid())?;
    let mut connections = Vec::with_capacity(count);
    for _ in 0..count {
        let mut connection = server.connect()?;
        connection.write_all(b"get none\r\n")?;
        let mut reply = [0; 5];
        connection.read_exact(&mut reply)?;
        if reply != *b"END\r\n" && reply != *b"$-1\r\n" {
            return Err(format!("{}: an odd reply to a miss", server.name).into());
        }
        connections.push(connection);
    }
    let after = pss_bytes(server.pid())?;
    Ok(after.saturating_sub(before) as f64 / count as f64)
}

fn pss_bytes(pid: u32) -> Result<u64> {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(kib.ok_or("no Pss in smaps_rollup")?.parse::<u64>()? * 1024)
}
