use super::*;
use crate::hold::NotHeld;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

/// A directory of a test's own, removed at its end.
struct Own(PathBuf);

impl Own {
    fn new(name: &str, mode: u32) -> Self {
        let name = format!("micanite-folder-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        Self(path)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Others may write: refused, but for a sticky directory.
#[test]
fn a_directory_that_others_may_write_is_refused_unless_it_is_sticky() {
    for (mode, is_fine) in [
        (0o755, true),
        (0o777, false),
        (0o757, false),
        (0o1777, true),
    ] {
        let own = Own::new("mode", mode);
        let opened = Folder::open(&own.0);
        assert_eq!(opened.is_ok(), is_fine, "{mode:o}");
        if let Err(error) = opened {
            assert!(error.to_string().contains("others may write"), "{error}");
        }
    }
}

/// A link in the place of a file is not followed, whatever is done with it: its target stays.
#[test]
fn a_link_in_the_place_of_a_file_is_not_followed() {
    let own = Own::new("link", 0o1777);
    let target = own.0.join("precious");
    fs::write(&target, "data").unwrap();
    symlink(&target, own.0.join("lock")).unwrap();
    symlink(own.0.join("nothing"), own.0.join("dangling")).unwrap();
    let folder = || Folder::open(&own.0).unwrap();
    let refused = |error: io::Error| assert!(error.to_string().contains("link"), "{error}");
    refused(folder().existing("lock").unwrap_err());
    refused(folder().existing_or_new("dangling", 0o600).unwrap_err());
    refused(folder().replace("lock", b"mine").unwrap_err());
    assert!(matches!(folder().hold("lock"), Err(NotHeld::Failed(_))));
    let exists = folder().create_new("dangling", 0o600).unwrap_err();
    assert_eq!(exists.kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read(&target).unwrap(), b"data");
    assert!(!own.0.join("nothing").exists());
    assert_eq!(
        fs::read_dir(&own.0).unwrap().count(),
        3,
        "something was left"
    );
}

/// A file is replaced as a whole, and removed only while it is the one that was written.
#[test]
fn a_file_is_replaced_and_removed_while_it_is_the_same() {
    let own = Own::new("replace", 0o1777);
    let path = own.0.join("pid");
    fs::write(&path, "a long text of before").unwrap();
    let before = fs::metadata(&path).unwrap().ino();
    let put = |bytes: &[u8]| Folder::open(&own.0).unwrap().replace("pid", bytes).unwrap();
    let first = put(b"1\n");
    assert_eq!(fs::read(&path).unwrap(), b"1\n");
    assert_ne!(fs::metadata(&path).unwrap().ino(), before);
    let second = put(b"2\n");
    first.remove();
    assert_eq!(fs::read(&path).unwrap(), b"2\n");
    second.remove();
    assert_eq!(fs::read_dir(&own.0).unwrap().count(), 0);
    fs::create_dir(&path).unwrap();
    assert!(Folder::open(&own.0).unwrap().replace("pid", b"").is_err());
}

/// A directory is reached through links of the user's own, such as /var/run.
#[test]
fn links_to_directories_are_followed_while_they_are_trusted() {
    let own = Own::new("way", 0o755);
    fs::create_dir(own.0.join("there")).unwrap();
    symlink("there", own.0.join("here")).unwrap();
    symlink("circle", own.0.join("circle")).unwrap();
    let (folder, name) = Folder::of(&own.0.join("here/file")).unwrap();
    folder.create_new(&name, 0o600).unwrap();
    assert!(own.0.join("there/file").exists());
    assert!(Folder::open(&own.0.join("circle")).is_err());
}

/// Whoever a directory belongs to may put files there, whatever its mode: those are not written by root.
#[test]
fn a_file_of_another_user_is_refused_in_a_directory_of_theirs() {
    const OTHER: u32 = 12345;
    if !nix::unistd::geteuid().is_root() {
        return; // who may not give files away
    }
    let own = Own::new("theirs", 0o755);
    fs::write(own.0.join("theirs"), "").unwrap();
    fs::write(own.0.join("ours"), "").unwrap();
    std::os::unix::fs::chown(own.0.join("theirs"), Some(OTHER), None).unwrap();
    // In a directory of root's nobody else has put it there.
    assert!(Folder::open(&own.0).unwrap().existing("theirs").is_ok());
    std::os::unix::fs::chown(&own.0, Some(OTHER), None).unwrap();
    let folder = Folder::open(&own.0).unwrap();
    assert!(folder.existing("ours").is_ok());
    let error = folder.existing("theirs").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
}

/// One process at a time, also when the lock file is removed or replaced under it.
#[test]
fn a_held_directory_stays_held_without_its_lock_file() {
    let own = Own::new("hold", 0o755);
    let folder = || Folder::open(&own.0).unwrap();
    let held = folder().hold("lock").unwrap();
    let is_held = || matches!(folder().hold("lock"), Err(NotHeld::Own));
    assert!(is_held());
    fs::remove_file(own.0.join("lock")).unwrap();
    assert!(is_held());
    fs::write(own.0.join("lock"), "").unwrap();
    assert!(is_held());
    drop(held);
    assert!(folder().hold("lock").is_ok());
}
