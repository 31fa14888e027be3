//! A file that only its owner may read, such as the configuration: written beside its target, then renamed onto it.

use std::fs::{DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::cli::failure::Failure;
use crate::cli::interrupt;
use crate::cli::output::file::resolve;
use crate::error::cause;

/// Who may change the file: one process at a time.
#[derive(Debug)]
pub struct PrivateFile {
    path: PathBuf,
    /// Locked until this value goes.
    _folder: File,
}

impl PrivateFile {
    /// Makes the folder if it is missing (mode 700), and waits for other processes that are changing the file.
    ///
    /// # Errors
    /// The folder cannot be made or locked.
    pub fn lock(path: &Path) -> Result<Self, Failure> {
        let open = || {
            let path = resolve(path)?;
            let folder = path.parent().unwrap_or(Path::new("."));
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            let opened = File::open(folder)?;
            flock(&opened, FlockOperation::LockExclusive)?;
            Ok(Self { path: path.clone(), _folder: opened })
        };
        open().map_err(|error| unwritable(path, &error))
    }

    /// Replaces the content, whole, with mode 600.
    ///
    /// # Errors
    /// It cannot be written; the file is what it was.
    pub fn replace(&self, text: &str) -> Result<(), Failure> {
        let put = || {
            let folder = self.path.parent().unwrap_or(Path::new("."));
            let mut named = tempfile::Builder::new()
                .prefix(".seckill-")
                .permissions(Permissions::from_mode(0o600))
                .tempfile_in(folder)?;
            named.write_all(text.as_bytes())?;
            named.as_file().sync_all()?;
            named.persist(&self.path).map(|_| ()).map_err(|error| error.error)
        };
        interrupt::uncut(put).map_err(|error| unwritable(&self.path, &error))
    }
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("cannot write `{}`: {}", path.display(), cause(error)))
}
