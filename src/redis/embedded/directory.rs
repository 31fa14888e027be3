//! Where a private server keeps its socket and data: a fresh directory, or one that stays.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::error::cause;
use crate::redis::embedded;
use crate::redis::embedded::cluster::Cluster;
use crate::redis::embedded::{DISCARDED_LOCK, EmbeddedError, LOCK, LOG, PREFIX, REPLY, SOCKET, START, Wait};

/// A socket address holds 108 bytes, with its final zero: what is left for the directory's path, if behind it comes
/// `/node-100/server.sock`.
const MAX_PATH: usize = 86;

/// A directory that nobody else uses while this value lives.
pub(super) struct Directory {
    /// A path to the data that is short enough for sockets below it.
    pub(super) path: PathBuf,
    /// Whether the data stays.
    pub(super) kept: bool,
    /// Removed last: it is the directory, or holds a short way to it.
    _short: Option<TempDir>,
    _lock: File,
}

impl Directory {
    /// A fresh one, removed at the end.
    pub(super) fn discarded() -> Result<Self, EmbeddedError> {
        let short = fresh()?;
        let path = short.path().to_owned();
        let lock = File::create(path.join(DISCARDED_LOCK)).map_err(|error| unusable(&path, &error))?;
        // Only a sweep that takes us for stale could hold it, and nobody else knows the directory yet.
        lock.lock().map_err(|error| unusable(&path, &error))?;
        Ok(Self { path, kept: false, _short: Some(short), _lock: lock })
    }

    /// One that stays. Waits for another command that uses it.
    pub(super) fn kept(path: &Path, wait: &Wait<'_>) -> Result<Self, EmbeddedError> {
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| unusable(path, &error))?;
        let data = path.canonicalize().map_err(|error| unusable(path, &error))?;
        let lock_path = data.join(LOCK);
        let mut files = fs::read_dir(&data).map_err(|error| unusable(&data, &error))?;
        // Our first file there is the lock.
        if files.next().is_some() && !lock_path.exists() {
            return Err(EmbeddedError::Foreign { path: path.to_owned() });
        }
        let mut lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .read(true)
            .open(&lock_path)
            .map_err(|error| unusable(&data, &error))?;
        acquire(&lock, &lock_path, path, wait)?;
        // Who holds it, for whoever waits. Nothing depends on it.
        let _ = lock.set_len(0).and_then(|()| write!(lock, "{}", std::process::id()));

        let (used, short) = if data.as_os_str().len() <= MAX_PATH {
            (data, None)
        } else {
            let short = fresh()?;
            let link = short.path().join("data");
            symlink(&data, &link).map_err(|error| unusable(&data, &error))?;
            (link, Some(short))
        };
        // A command that was killed left its servers behind: they hold the data, so they must end first.
        for folder in Cluster::folders(&used).iter().chain([&used]) {
            let (deadline, holder) =
                (Instant::now() + wait.at_most.max(START), "the server of a command that was killed");
            let mut is_reported = false;
            while !embedded::shut_down(folder, REPLY) {
                if (wait.stop)() {
                    return Err(EmbeddedError::Stopped { path: path.to_owned() });
                }
                if Instant::now() > deadline {
                    return Err(EmbeddedError::InUse { path: path.to_owned(), holder: holder.to_owned() });
                }
                if !is_reported {
                    (wait.note)(&format!("`{}` is in use by {holder}: waiting for it to end", path.display()));
                    is_reported = true;
                }
            }
            let _ = fs::remove_file(folder.join(SOCKET));
        }
        Ok(Self { path: used, kept: true, _short: short, _lock: lock })
    }

    /// The number of nodes of the cluster to start here; `None` for one server.
    pub(super) fn nodes(&self, wanted: Option<usize>) -> Result<Option<usize>, EmbeddedError> {
        let has_one = self.path.join(LOG).exists();
        match (Cluster::size(&self.path), wanted) {
            (Some(found), Some(wanted)) if found != wanted => {
                Err(EmbeddedError::Nodes { found: format!("a cluster of {found} nodes"), wanted })
            }
            (None, Some(wanted)) if has_one => Err(EmbeddedError::Nodes { found: "one server".to_owned(), wanted }),
            (found, wanted) => Ok(found.or(wanted)),
        }
    }
}

/// A new directory of mode 700 with a short name.
fn fresh() -> Result<TempDir, EmbeddedError> {
    let mut parent = std::env::temp_dir();
    if parent.as_os_str().len() > MAX_PATH - 30 {
        parent = PathBuf::from("/tmp");
    }
    // tempfile makes directories of mode 700.
    tempfile::Builder::new().prefix(PREFIX).tempdir_in(&parent).map_err(|error| unusable(&parent, &error))
}

fn unusable(path: &Path, error: &std::io::Error) -> EmbeddedError {
    EmbeddedError::Directory { path: path.to_owned(), why: cause(error) }
}

fn acquire(lock: &File, lock_path: &Path, shown: &Path, wait: &Wait<'_>) -> Result<(), EmbeddedError> {
    let deadline = Instant::now() + wait.at_most;
    let mut is_reported = false;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(unusable(shown, &error)),
            Err(TryLockError::WouldBlock) => {}
        }
        let holder = fs::read_to_string(lock_path).unwrap_or_default();
        let holder = if holder.is_empty() { "another command".to_owned() } else { format!("process {holder}") };
        if (wait.stop)() {
            return Err(EmbeddedError::Stopped { path: shown.to_owned() });
        }
        if Instant::now() > deadline {
            return Err(EmbeddedError::InUse { path: shown.to_owned(), holder });
        }
        if !is_reported {
            (wait.note)(&format!("`{}` is in use by {holder}: waiting for it to end", shown.display()));
            is_reported = true;
        }
        sleep(Duration::from_millis(10));
    }
}
