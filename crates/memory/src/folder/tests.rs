use super::*;
use crate::hold::NotHeld;
use micanite_test_skip::skip;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

/// A temporary directory, removed on drop.
struct TestFolder(PathBuf);

impl TestFolder {
    fn new(name: &str, mode: u32) -> Self {
        let name = format!("micanite-folder-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        Self(path)
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A directory that others may write is refused, unless it is sticky.
#[test]
fn directories_that_others_may_write_must_be_sticky() {
    for (mode, is_fine) in [(0o755, true), (0o777, false), (0o757, false), (0o1777, true)] {
        let own = TestFolder::new("mode", mode);
        let opened = Folder::open(&own.0);
        assert_eq!(opened.is_ok(), is_fine, "{mode:o}");
        if let Err(error) = opened {
            assert!(error.to_string().contains("others may write"), "{error}");
        }
    }
}

/// A link in the place of a file is never followed, so its target stays.
#[test]
fn links_in_place_of_files_are_not_followed() {
    let own = TestFolder::new("link", 0o1777);
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
    assert_eq!(fs::read_dir(&own.0).unwrap().count(), 3, "something was left");
}

/// A file is replaced as a whole, and removed only if it is the one that was written.
#[test]
fn files_are_replaced_whole_and_removed_if_unchanged() {
    let own = TestFolder::new("replace", 0o1777);
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
    let folder = Folder::open(&own.0).unwrap();
    folder.try_replace("pid").unwrap();
    assert_eq!(fs::read_dir(&own.0).unwrap().count(), 0, "a trial leaves nothing");
    fs::create_dir(&path).unwrap();
    assert!(folder.try_replace("pid").is_err() && folder.replace("pid", b"").is_err());
}

/// A directory is reached through the user's own links, such as /var/run.
#[test]
fn trusted_links_to_directories_are_followed() {
    let own = TestFolder::new("way", 0o755);
    fs::create_dir(own.0.join("there")).unwrap();
    symlink("there", own.0.join("here")).unwrap();
    symlink("circle", own.0.join("circle")).unwrap();
    let (folder, name) = Folder::of(&own.0.join("here/file")).unwrap();
    folder.create_new(&name, 0o600).unwrap();
    assert!(own.0.join("there/file").exists());
    assert!(Folder::open(&own.0.join("circle")).is_err());
}

/// The owner of a directory may put files there, whatever its mode. Root does not write those
/// files.
#[test]
fn another_users_file_is_refused_in_their_directory() {
    const OTHER: u32 = 12345;
    if !nix::unistd::geteuid().is_root() {
        return skip("only root may give files away");
    }
    let own = TestFolder::new("theirs", 0o755);
    fs::write(own.0.join("theirs"), "").unwrap();
    fs::write(own.0.join("ours"), "").unwrap();
    std::os::unix::fs::chown(own.0.join("theirs"), Some(OTHER), None).unwrap();
    // In a directory of root's, only root can have put it there.
    assert!(Folder::open(&own.0).unwrap().existing("theirs").is_ok());
    std::os::unix::fs::chown(&own.0, Some(OTHER), None).unwrap();
    let folder = Folder::open(&own.0).unwrap();
    assert!(folder.existing("ours").is_ok());
    let error = folder.existing("theirs").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
}

/// One process holds a directory, even when the lock file is removed or replaced.
#[test]
fn a_held_directory_stays_held_without_its_lock_file() {
    let own = TestFolder::new("hold", 0o755);
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
