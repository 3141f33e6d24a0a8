use std::path::PathBuf;

use super::*;

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn commands_are_shown_for_a_shell() {
    let program = Path::new("target/release/micanite-lab");
    let text = typed(program, &strings(&["server", "--case", "a b", "it's", ""]));
    assert_eq!(text, "target/release/micanite-lab server --case 'a b' 'it'\\''s' ''");
}

#[test]
fn peers_go_to_the_commands_that_know_them() {
    let peers = ["a=memcached://h:1".parse().unwrap(), "b=redis://h:2".parse().unwrap()];
    let plain = Command::lab("server", "server --quick");
    assert_eq!(arguments(&plain, &peers), ["server", "--quick"]);
    let with = arguments(&plain.with_peers(), &peers);
    assert_eq!(with[2..], strings(&["--peer", "a=memcached://h:1", "--peer", "b=redis://h:2"]));
}

#[test]
fn notes_are_kept_once() {
    assert_eq!(notes("note: a\nx\nnote: b\nnote: a\n"), ["a", "b"]);
    assert_eq!(last_lines("1\n2\n\n3\n4\n5\n6\n7\n"), ": 2\n3\n4\n5\n6\n7");
    assert_eq!(last_lines(""), "");
    assert_eq!(last_lines("1 %\r2 %\rdone\nnote: x\n 1 %\r no port\n"), ": done\n no port");
}

#[test]
fn results_of_a_failed_command_are_kept() {
    use std::os::unix::process::ExitStatusExt;
    let failed = Ended::Failed(std::process::ExitStatus::from_raw(256));
    let (json, reason) = outcome(&failed, "a part was not measured\n", || Ok(serde_json::json!([1])));
    assert_eq!(json, Some(serde_json::json!([1])));
    assert!(reason.unwrap().ends_with(": a part was not measured"));
    let nothing = || Err("it wrote 0 files".to_owned());
    assert_eq!(outcome(&Ended::Hung, "", nothing).0, None);
    assert_eq!(outcome(&Ended::Well, "", nothing).1.as_deref(), Some("it wrote 0 files"));
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("micanite-report-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn results_are_found_by_name_or_as_the_only_file() {
    let folder = Folder::new("result");
    let write = |name: &str, text: &str| std::fs::write(folder.0.join(name), text).unwrap();
    let read = || result(&folder.0, "ours", &folder.0.join("kept"));
    assert!(read().unwrap_err().contains("0 files"));
    write("net.svg", "<svg/>");
    write("net.json", "[1]");
    assert_eq!(read().unwrap(), serde_json::json!([1]));
    write("net.json", "[1]");
    write("other.json", "[2]");
    assert!(read().unwrap_err().contains("2 files"));
    write("ours.json", "[3]");
    assert_eq!(read().unwrap(), serde_json::json!([3]));
    write("ours.json", "[3");
    assert!(read().unwrap_err().contains("no JSON"));
}
