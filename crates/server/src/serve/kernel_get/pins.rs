//! Locks of the directories where memory is pinned (`--kernel-get-pin`): one server at a time writes to
//! it. A lock goes through restarts in place, and stays whatever becomes of the option there, because the
//! memory does.

use std::fs::{self, File, TryLockError};
use std::path::Path;

use micanite_kernel::ImageMaps;
use micanite_memory::hold::holder;

use crate::configuration::Settings;
use crate::control::restart::{Trial, place};
use crate::serve::Failure;

/// Locks the directory that the settings name, if they name one. `held` are the previous program's locks; the
/// new one is added to them.
pub(in crate::serve) fn lock(settings: &Settings, held: &mut Vec<File>) -> Result<(), Failure> {
    let Some(directory) = directory(settings) else {
        return Ok(());
    };
    // If this fails, pinning the memory reports the error.
    let _ = fs::create_dir_all(directory);
    let Ok(file) = File::open(directory) else {
        return Ok(());
    };
    if held.iter().any(|other| is_same(other, &file)) {
        return Ok(());
    }
    if let Err(TryLockError::WouldBlock) = file.try_lock() {
        return Err(is_locked(directory, &file));
    }
    held.push(file);
    Ok(())
}

/// Refuses a restart after which the directory could not be worked in, or what is stored would not be what
/// is pinned there.
pub(in crate::serve) fn try_out(settings: &Settings, trial: &Trial) -> Result<(), Failure> {
    let Some(directory) = directory(settings) else {
        return Ok(());
    };
    let Ok(file) = File::open(directory) else {
        return Ok(());
    };
    if place(&file).is_some_and(|it| trial.locks.contains(&it)) {
        return Ok(());
    }
    // It is released when the trial ends.
    if let Err(TryLockError::WouldBlock) = file.try_lock() {
        return Err(is_locked(directory, &file));
    }
    match trial.has_maps && ImageMaps::are_pinned(directory) {
        true => Err(Failure::system(format!("--kernel-get-pin: {}", ImageMaps::others_pinned(directory)))),
        false => Ok(()),
    }
}

fn directory(settings: &Settings) -> Option<&Path> {
    settings.kernel_get.as_ref()?.pin.as_deref()
}

/// Returns whether both are one directory.
fn is_same(one: &File, other: &File) -> bool {
    place(one).is_some_and(|it| place(other) == Some(it))
}

fn is_locked(directory: &Path, file: &File) -> Failure {
    let who = holder(file).map_or(String::new(), |holder| format!(": {holder}"));
    Failure::system(format!(
        "--kernel-get-pin: another server works in {}{who}\n  End it first: each needs a directory of its \
         own.",
        directory.display()
    ))
}
