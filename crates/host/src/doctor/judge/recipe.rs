//! The commands that lead to a port.

use crate::doctor::facts::{Facts, Process};
use crate::doctor::report::{Port, Section, State};
use crate::machine::quoted;

/// The profile for container runtimes that lets AF_XDP and BPF through.
pub const SECCOMP_PROFILE: &str = "packaging/seccomp/micanite-bypass.json";
/// The guide that explains all of this.
const GUIDE: &str = "docs/bypass.md";
/// The capabilities of AF_XDP, as `setcap` takes them.
const CAPABILITIES: &str = "cap_net_raw,cap_net_admin,cap_bpf,cap_ipc_lock+ep";
/// The same before there was `CAP_BPF`.
const CAPABILITIES_OLD: &str = "cap_net_raw,cap_net_admin,cap_sys_admin,cap_ipc_lock+ep";
/// Beginning and end of the commands that start a container.
const RUN: &str = "docker run ";
const AND_SO_ON: &str = " ...";

/// The command that gives this process the capabilities of AF_XDP.
pub fn grant(facts: &Facts) -> String {
    match facts.process.container.as_deref() {
        Some("Kubernetes") => {
            format!("# securityContext: capabilities: add: [NET_RAW, NET_ADMIN, BPF, IPC_LOCK] ({GUIDE})")
        }
        Some(_) => run("--cap-add NET_RAW --cap-add NET_ADMIN --cap-add BPF --cap-add IPC_LOCK"),
        None if facts.kernel.version < (5, 8) => format!("setcap {CAPABILITIES_OLD} {}", program()),
        None => format!("setcap {CAPABILITIES} {}", program()),
    }
}

/// A container started with these options.
pub fn run(options: &str) -> String {
    format!("{RUN}{options}{AND_SO_ON}")
}

/// The path of this program.
fn program() -> String {
    let path = std::env::current_exe().ok();
    let path = path.and_then(|path| path.into_os_string().into_string().ok());
    quoted(&path.unwrap_or_else(|| "/usr/bin/micanite".into()))
}

/// All commands to a port: needed ones, better ones, the server. Comments begin with `#`.
pub fn recipe(facts: &Facts, needed: &[&Section], better: &[&Section], port: &Port) -> Vec<String> {
    let mut recipe = Vec::new();
    let steps = [("needed", State::Missing, needed), ("better", State::Better, better)];
    for (heading, state, sections) in steps {
        let mut fresh: Vec<String> = Vec::new();
        for command in sections.iter().flat_map(|it| it.commands(state)) {
            if !recipe.contains(command) && !fresh.contains(command) {
                fresh.push(command.clone());
            }
        }
        if !fresh.is_empty() {
            recipe.push(format!("# {heading}, as root"));
            recipe.extend(one_run(fresh));
        }
    }
    recipe.push(format!("# the server, {}", audience(&facts.process)));
    recipe.push(serve(port));
    recipe
}

/// Joins what containers are to be started with into one command.
fn one_run(commands: Vec<String>) -> Vec<String> {
    let options = |command: &String| {
        let rest = command.strip_prefix(RUN)?.strip_suffix(AND_SO_ON)?;
        Some(rest.to_owned())
    };
    let (runs, mut others): (Vec<_>, Vec<_>) = commands.into_iter().partition(|it| options(it).is_some());
    if !runs.is_empty() {
        let joined: Vec<_> = runs.iter().filter_map(options).collect();
        others.push(run(&joined.join(" ")));
    }
    others
}

/// The command that starts the server.
fn serve(port: &Port) -> String {
    let addresses = match (&port.addresses, port.is_dpdk) {
        (Some(list), _) => format!(" --bypass-ip {list}"),
        (None, true) => " --bypass-ip ADDRESS/PREFIX".into(),
        (None, false) => String::new(),
    };
    let name = quoted(&port.name);
    format!("micanite serve --bypass {name}{addresses} -t {} -m 1024", port.workers)
}

fn audience(process: &Process) -> String {
    let user = format!("as a user with the capabilities ({GUIDE})");
    match process.user {
        0 => format!("as root, or {user}"),
        _ => user,
    }
}
