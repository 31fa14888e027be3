//! What commands that were killed left behind: servers that nobody stops, and their directories.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::redis::embedded::cluster::Cluster;
use crate::redis::embedded::folder::shut_down;
use crate::redis::embedded::{LOCK, PREFIX};

/// A directory younger than this may be about to get its lock.
const YOUNG: Duration = Duration::from_secs(10);

/// Ends servers and removes directories whose command is gone. Errors are left alone: the next sweep sees them.
pub(super) fn sweep() {
    for parent in [std::env::temp_dir(), "/tmp".into()] {
        for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(PREFIX) {
                remove_if_stale(&entry.path());
            }
        }
    }
}

fn remove_if_stale(directory: &Path) {
    let Ok(about) = fs::symlink_metadata(directory) else { return };
    let age = about.modified().ok().and_then(|time| SystemTime::now().duration_since(time).ok());
    if !about.is_dir() || age.is_none_or(|age| age < YOUNG) {
        return;
    }
    let lock = File::open(directory.join(LOCK));
    if let Ok(lock) = &lock
        && lock.try_lock().is_err()
    {
        return;
    }
    // Only what looks like ours: a lock, or the short way to a directory that stays.
    if lock.is_err() && !directory.join("data").is_symlink() {
        return;
    }
    if lock.is_ok() {
        Cluster::folders(directory).iter().for_each(|folder| shut_down(folder));
        shut_down(directory);
        let _ = fs::remove_dir_all(directory);
    } else if fs::read_link(directory.join("data")).is_ok_and(|data| !in_use(&data)) {
        let _ = fs::remove_file(directory.join("data")).and_then(|()| fs::remove_dir(directory));
    }
}

fn in_use(data: &Path) -> bool {
    File::open(data.join(LOCK)).is_ok_and(|lock| lock.try_lock().is_err())
}
