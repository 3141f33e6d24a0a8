//! `micanite-lab report`, with a script in the place of the programs that it runs.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const SECTION: &str = "prefetch";
/// Records that the section's command would write.
const RECORDS: &str = r#"[{"case": "multi-get", "metric": "keys per server-core-second", "value": 3e6,
    "unit": "ops", "peer": "prefetch off", "ratio": 1.5, "spread": {"min": 1.25, "max": 1.75}}]"#;
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder with programs of our programs' names.
struct Bench(PathBuf);

impl Bench {
    fn new(name: &str, lab: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("micanite-report-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(folder.join("programs")).unwrap();
        let bench = Self(folder);
        bench.set_lab(lab);
        bench
    }

    /// Puts a script in the lab's place.
    fn set_lab(&self, script: &str) {
        let path = self.0.join("programs/micanite-lab");
        let text = path.with_extension("text");
        std::fs::write(&text, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&text, std::fs::Permissions::from_mode(0o755)).unwrap();
        // By another process: what is open for writing, in what other tests have just started, too,
        // cannot be run.
        let copied = Command::new("cp").arg(&text).arg(&path).status().unwrap();
        assert!(copied.success());
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_micanite-lab"));
        command
            .arg("report")
            .arg("--programs")
            .arg(self.0.join("programs"))
            .arg("--out")
            .arg(&self.0)
            .args(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap_or_default()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn writes(records: &str) -> String {
    format!("echo 'note: said by the lab'\ncat >\"$MICANITE_BENCH_DIR/server.json\" <<'END'\n{records}\nEND")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_section_is_run_saved_and_drawn() {
    let bench = Bench::new("well", &writes(RECORDS));
    let output = bench.run(&["--only", SECTION]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("micanite-lab evaluation --case prefetch"), "{}", said(&output));
    let page = bench.read("index.html");
    assert!(page.contains("<svg") && page.contains("1.5") && page.contains("said by the lab"));
    assert!(bench.read("raw/prefetch/server.json").contains("multi-get"));
    assert!(bench.read("raw/prefetch/server.log").contains("said by the lab"));
    assert!(bench.read("raw/report.json").contains("\"prefetch\""));
}

#[test]
fn reuse_draws_without_measuring() {
    let bench = Bench::new("again", &writes(RECORDS));
    assert!(bench.run(&["--only", SECTION]).status.success());
    let first = bench.read("index.html");
    bench.set_lab("exit 3");
    let output = bench.run(&["--reuse"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(bench.read("index.html"), first);
    let output = bench.run(&["--again", SECTION]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    bench.set_lab(&writes(&RECORDS.replace("1.5", "2.5")));
    assert!(bench.run(&["--again", SECTION]).status.success());
    assert!(bench.read("raw/report.json").contains("2.5"));
}

#[test]
fn a_failure_is_on_the_page() {
    for (lab, reason) in [
        ("echo 'no port is free' >&2; exit 3", "no port is free"),
        ("exit 0", "it wrote 0 files of JSON"),
        ("echo '[' >\"$MICANITE_BENCH_DIR/server.json\"", "it wrote no JSON"),
    ] {
        let bench = Bench::new("failure", lab);
        let output = bench.run(&["--only", SECTION]);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(bench.read("index.html").contains(reason), "{reason}");
        assert!(said(&output).contains(reason), "{}", said(&output));
    }
    let bench = Bench::new("absent", "");
    std::fs::remove_file(bench.0.join("programs/micanite-lab")).unwrap();
    let output = bench.run(&["--only", SECTION]);
    assert_eq!(output.status.code(), Some(1));
    assert!(bench.read("index.html").contains("cannot start"), "{}", said(&output));
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let bench = Bench::new("options", "exit 0");
    for arguments in [
        &["--only", "nothing"][..],
        &["--again", SECTION],
        &["--reuse"],
        &["--peer", "x"],
        &["--reuse", "--full"],
    ] {
        let output = bench.run(arguments);
        assert!(!output.status.success() && said(&output).len() > 20, "{arguments:?}: {}", said(&output));
        assert_eq!(bench.read("index.html"), "", "{arguments:?}");
    }
    let output = bench.run(&["--list"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains(SECTION));
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn pid(path: &Path) -> i32 {
    let read = || std::fs::read_to_string(path).ok()?.trim().parse().ok();
    wait_until("a process has begun", || read().is_some());
    read().unwrap_or_default()
}

fn is_there(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

fn begun(bench: &Bench) -> (Child, [i32; 2]) {
    let child = bench.command(&["--only", SECTION]).spawn().unwrap();
    let pids = ["lab", "server"].map(|name| pid(&bench.0.join(name)));
    (child, pids)
}

/// A lab that has started a server, which notices nothing; the pids are written whole.
fn endless(bench: &Path) -> String {
    let folder = bench.display();
    format!(
        "echo $$ >{folder}/lab.new; mv {folder}/lab.new {folder}/lab\n\
         sh -c 'trap \"\" TERM INT; echo $$ >{folder}/server.new; mv {folder}/server.new {folder}/server; \
         while true; do sleep 1; done' &\n\
         wait"
    )
}

#[test]
fn an_interrupt_ends_what_was_started() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let bench = Bench::new("interrupt", "");
        bench.set_lab(&endless(&bench.0));
        let (mut child, pids) = begun(&bench);
        kill(Pid::from_raw(child.id().try_into().unwrap()), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(1));
        wait_until("all have ended", || !pids.iter().any(|pid| is_there(*pid)));
        assert_eq!(bench.read("index.html"), "");
    }
}

#[test]
fn a_command_does_not_outlive_a_killed_report() {
    let bench = Bench::new("killed", "");
    bench.set_lab(&format!(
        "echo $$ >{0}/lab.new; mv {0}/lab.new {0}/lab\nexec sleep 1000",
        bench.0.display()
    ));
    let mut child = bench.command(&["--only", SECTION]).spawn().unwrap();
    let lab = pid(&bench.0.join("lab"));
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("it has ended", || !is_there(lab));
}
