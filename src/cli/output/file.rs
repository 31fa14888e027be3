//! Files that commands write: beside their target first, then renamed onto it. So a target is what it was, or complete,
//! and never another file of the same command.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::fs::{FlockOperation, flock};

use crate::cli::failure::{Failure, Result};
use crate::cli::interrupt;
use crate::error::cause;

/// Symbolic links that are followed before they count as a circle, as the kernel does.
const MAX_LINKS: usize = 40;

/// A file being written. Nothing of it is at its target before [`commit`](Self::commit); without that, it vanishes.
#[derive(Debug)]
pub struct OutputFile {
    /// The target, as it was given.
    pub path: PathBuf,
    target: Target,
    /// Has no name yet, so that nothing is left behind however the process ends.
    content: File,
}

#[derive(Debug)]
enum Target {
    /// A regular file, there or not, replaced by a rename; with the permissions of the one that is there.
    Replaced { path: PathBuf, permissions: Option<Permissions> },
    /// A device or a pipe: it is written to.
    Written(File),
}

impl OutputFile {
    /// Begins a file that the flag `flag` names. `used` are the other files of the command, as they were given: `-` is
    /// standard input.
    ///
    /// # Errors
    /// Usage, if the target is `-`, standard output or error, or one of the others, also by another name or as a hard link.
    /// Failed, if it cannot be written.
    pub(super) fn create(flag: &str, path: &Path, used: &[(PathBuf, &str)]) -> Result<Self> {
        let shown = path.display();
        if path == Path::new("-") {
            return Err(Failure::usage(format!("`{flag} -`: standard output has the results"))
                .hint(format!("give `{flag}` the path of a file")));
        }
        let existing = match fs::metadata(path) {
            Ok(existing) => Some(existing),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(unwritable(path, &error)),
        };
        let is_device = existing.as_ref().is_some_and(|existing| existing.file_type().is_char_device());
        if let Some(target) = identity_of_path(path).filter(|_| !is_device) {
            let is_target = |identity: Option<Identity>| identity.as_ref() == Some(&target);
            let other = match used.iter().find(|(path, _)| is_target(identity_of_path(path))) {
                Some((path, _)) if path == Path::new("-") => {
                    "the same file as `standard input`, which is read".to_owned()
                }
                Some((path, how)) => format!("the same file as `{}`, which is {how}", path.display()),
                None if is_target(identity_of(&io::stdout())) => "standard output, which has the results".to_owned(),
                None if is_target(identity_of(&io::stderr())) => "standard error, which has the messages".to_owned(),
                None => String::new(),
            };
            if !other.is_empty() {
                return Err(Failure::usage(format!("`{flag} {shown}` is {other}"))
                    .hint(format!("give `{flag}` another file; nothing was written")));
            }
        }
        let target = match existing {
            Some(existing) if existing.is_dir() => {
                return Err(unwritable(path, &io::ErrorKind::IsADirectory.into()));
            }
            Some(existing) if !existing.is_file() => {
                let file = OpenOptions::new().write(true).open(path);
                Target::Written(file.map_err(|error| unwritable(path, &error))?)
            }
            existing => {
                let resolved = resolve(path).map_err(|error| unwritable(path, &error))?;
                if existing.is_some() {
                    // A rename would also replace a file that is write-protected.
                    OpenOptions::new().append(true).open(&resolved).map_err(|error| unwritable(path, &error))?;
                }
                Target::Replaced { path: resolved, permissions: existing.map(|existing| existing.permissions()) }
            }
        };
        let content = match &target {
            Target::Replaced { path: resolved, .. } => tempfile::tempfile_in(directory(resolved)),
            Target::Written(_) => tempfile::tempfile(),
        };
        let content = content.map_err(|error| {
            Failure::failed(format!("cannot write beside `{shown}`: {}", cause(&error)))
                .hint("the file is written beside its target first; name one in a directory that you can write to")
        })?;
        Ok(Self { path: path.to_owned(), target, content })
    }

    /// Appends bytes.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.content.write_all(bytes).map_err(|error| unwritable(&self.path, &error))
    }

    /// Puts the file in its target's place, whole.
    ///
    /// # Errors
    /// It cannot be written; the target is what it was.
    pub fn commit(mut self) -> Result<()> {
        // A second Ctrl-C would leave the file under its temporary name.
        interrupt::uncut(|| self.put()).map_err(|error| unwritable(&self.path, &error))
    }

    /// The same, readable by everybody.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub fn commit_readable(mut self) -> Result<()> {
        if let Target::Replaced { permissions, .. } = &mut self.target {
            *permissions = Some(Permissions::from_mode(0o644));
        }
        self.commit()
    }

    fn put(&mut self) -> io::Result<()> {
        self.content.rewind()?;
        match &mut self.target {
            Target::Written(file) => {
                io::copy(&mut self.content, file)?;
                file.flush()
            }
            Target::Replaced { path, permissions } => {
                let content = &mut self.content;
                replace(path, 0o666, |mut file| {
                    io::copy(content, &mut file)?;
                    permissions.take().map_or(Ok(()), |permissions| file.set_permissions(permissions))
                })
            }
        }
    }
}

/// Writes a file beside its target and renames it, so that a reader gets either the old content or the new one, complete.
fn replace(path: &Path, mode: u32, write: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
    let permissions = Permissions::from_mode(mode);
    let named = tempfile::Builder::new().prefix(".seckill-").permissions(permissions).tempfile_in(directory(path))?;
    write(named.as_file())?;
    named.as_file().sync_all()?;
    named.persist(path).map(|_| ()).map_err(|error| error.error)
}

/// Where a path leads: a rename onto a symbolic link would replace the link. A link to nothing is followed too.
pub(crate) fn resolve(path: &Path) -> io::Result<PathBuf> {
    let mut resolved = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::symlink_metadata(&resolved) {
            Ok(about) if about.is_symlink() => resolved = directory(&resolved).join(fs::read_link(&resolved)?),
            _ => return Ok(resolved),
        }
    }
    Err(io::Error::other("too many levels of symbolic links"))
}

fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// Device and inode: what a file is, whatever it is called. Of a file that is not there, its directory's, and its name.
type Identity = (u64, u64, Option<OsString>);

fn identity(about: &fs::Metadata, missing: Option<&OsStr>) -> Identity {
    (about.dev(), about.ino(), missing.map(OsStr::to_owned))
}

fn identity_of_path(path: &Path) -> Option<Identity> {
    if path == Path::new("-") {
        return identity_of(&io::stdin());
    }
    if let Ok(about) = fs::metadata(path) {
        return Some(identity(&about, None));
    }
    let resolved = resolve(path).ok()?;
    Some(identity(&fs::metadata(directory(&resolved)).ok()?, resolved.file_name()))
}

fn identity_of(stream: &impl AsFd) -> Option<Identity> {
    let file = File::from(stream.as_fd().try_clone_to_owned().ok()?);
    Some(identity(&file.metadata().ok()?, None))
}

pub(crate) fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("cannot write `{}`: {}", path.display(), cause(error)))
}

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
    pub fn lock(path: &Path) -> Result<Self> {
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
    pub fn replace(&self, text: &str) -> Result<()> {
        let put = |mut file: &File| file.write_all(text.as_bytes());
        interrupt::uncut(|| replace(&self.path, 0o600, put)).map_err(|error| unwritable(&self.path, &error))
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::cli::failure::Exit;

    fn written(path: &Path, text: &str) {
        let mut file = OutputFile::create("--plan", path, &[]).unwrap();
        file.append(text.as_bytes()).unwrap();
        file.commit().unwrap();
    }

    #[test]
    fn symbolic_links_are_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("plan"), dir.path().join("link"));
        fs::write(&path, "before").unwrap();
        std::os::unix::fs::symlink("plan", &link).unwrap();
        written(&link, "after");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&path).unwrap(), "after");
        fs::remove_file(&path).unwrap();
        written(&link, "to nothing");
        assert_eq!(fs::read_to_string(&path).unwrap(), "to nothing");
        // A new file has the permissions that the shell would give it.
        fs::write(dir.path().join("plain"), "").unwrap();
        let plain = fs::metadata(dir.path().join("plain")).unwrap().mode();
        assert_eq!(fs::metadata(&path).unwrap().mode(), plain);
        let circle = dir.path().join("circle");
        std::os::unix::fs::symlink("circle", &circle).unwrap();
        assert!(OutputFile::create("--plan", &circle, &[]).unwrap_err().message.contains("symbolic links"));
    }

    #[test]
    fn an_input_is_refused_by_a_detour_too_unless_it_is_a_device() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("in");
        fs::write(&path, "rows").unwrap();
        let detour = dir.path().join("..").join(dir.path().file_name().unwrap()).join("in");
        let failure =
            OutputFile::create("--rejects", &detour, &[("other".into(), "read"), (path.clone(), "read")]).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        assert_eq!(fs::read_to_string(&path).unwrap(), "rows");
        assert!(OutputFile::create("--rejects", Path::new("/dev/null"), &[("/dev/null".into(), "read")]).is_ok());
    }

    #[test]
    fn another_output_is_refused_before_it_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let (used, link) = ([(dir.path().join("plan"), "written")], dir.path().join("link"));
        std::os::unix::fs::symlink("plan", &link).unwrap();
        for same in [&link, &dir.path().join(".").join("plan")] {
            assert_eq!(OutputFile::create("--to", same, &used).unwrap_err().exit, Exit::Usage);
        }
        assert!(OutputFile::create("--to", &dir.path().join("other"), &used).is_ok());
    }

    #[test]
    fn a_pipe_without_a_name_is_written_to() {
        let (mut reader, writer) = io::pipe().unwrap();
        written(Path::new(&format!("/dev/fd/{}", writer.as_raw_fd())), "rows");
        drop(writer);
        assert_eq!(io::read_to_string(&mut reader).unwrap(), "rows");
    }
}
