//! The files of archives: a folder for each, written beside its place under another name, and moved there whole.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::cli::failure::{Failure, Result};
use crate::cli::interrupt;
use crate::cli::output::file::unwritable;
use crate::model::Kind;
use crate::model::archive::{Digest, FileSum, MANIFEST, Manifest, Part, SUMS, Sealed, encode_line};

/// Bytes that are written at once.
const BUFFER: usize = 256 * 1024;

/// The directory that archives are written to, by one process at a time.
#[derive(Debug)]
pub struct ArchiveDirectory {
    path: PathBuf,
    /// Locked until this value goes.
    directory: File,
}

impl ArchiveDirectory {
    /// Makes the directory if it is missing (mode 700), and locks it.
    ///
    /// # Errors
    /// It cannot be made, or another process writes archives to it.
    pub fn open(path: &Path) -> Result<Self> {
        let open = || {
            DirBuilder::new().recursive(true).mode(0o700).create(path)?;
            File::open(path)
        };
        let directory = open().map_err(|error| unwritable(path, &error))?;
        match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { path: path.to_owned(), directory }),
            Err(Errno::WOULDBLOCK) => {
                Err(Failure::failed(format!("another `seckill archive` writes to `{}`", path.display()))
                    .hint("wait until it has ended, or give another directory"))
            }
            Err(error) => Err(unwritable(path, &error.into())),
        }
    }

    /// The folder of an archive.
    pub fn folder(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Begins an archive. What an earlier run left of it, and did not complete, is removed.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn begin(&self, name: &str, kind: Kind) -> Result<ArchiveWriter<'_>> {
        for left in [self.hidden(name, "part"), self.hidden(name, "old")] {
            removed(&left).map_err(|error| unwritable(&left, &error))?;
        }
        let part = self.hidden(name, "part");
        DirBuilder::new().mode(0o700).create(&part).map_err(|error| unwritable(&part, &error))?;
        let mut writer = ArchiveWriter { directory: self, name: name.to_owned(), part, files: Vec::new() };
        for part in Part::of(kind) {
            let path = writer.part.join(part.file_name());
            let file = create(&path).map_err(|error| unwritable(&path, &error))?;
            let sum = FileSum {
                part: *part,
                file: part.file_name(),
                key: String::new(),
                key_type: part.key_type(kind).to_owned(),
                columns: part.columns(kind).iter().map(|column| (*column).to_owned()).collect(),
                lines: 0,
                bytes: 0,
                sha256: String::new(),
            };
            writer.files.push(Open { sum, file, buffer: Vec::new(), digest: Digest::default() });
        }
        Ok(writer)
    }

    /// Removes an archive that this run has published: the activity is not what it says.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn withdraw(&self, name: &str) -> Result<()> {
        let folder = self.folder(name);
        removed(&folder).map_err(|error| unwritable(&folder, &error))
    }

    fn hidden(&self, name: &str, what: &str) -> PathBuf {
        self.path.join(format!(".{name}.{what}"))
    }
}

/// A file that is being written.
struct Open {
    /// What it has so far, but for the digest.
    sum: FileSum,
    file: File,
    buffer: Vec<u8>,
    digest: Digest,
}

/// An archive that is being written. What is not published is removed when this value goes.
pub struct ArchiveWriter<'a> {
    directory: &'a ArchiveDirectory,
    name: String,
    part: PathBuf,
    files: Vec<Open>,
}

impl ArchiveWriter<'_> {
    /// Adds a line to a part.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn line(&mut self, part: Part, texts: &[&[u8]]) -> Result<()> {
        let Some(open) = self.files.iter_mut().find(|open| open.sum.part == part) else { return Ok(()) };
        encode_line(texts, &mut open.buffer);
        open.sum.lines += 1;
        if open.buffer.len() >= BUFFER {
            let written = open.write();
            return written.map_err(|error| unwritable(&self.part, &error));
        }
        Ok(())
    }

    /// Ends the files of lines, and gives their sums without the names of keys. A part without lines is an empty file.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn finish(&mut self) -> Result<Vec<FileSum>> {
        let mut sums = Vec::new();
        for mut open in std::mem::take(&mut self.files) {
            let ended = open.write().and_then(|()| open.file.sync_all());
            ended.map_err(|error| unwritable(&self.part.join(open.sum.part.file_name()), &error))?;
            sums.push(FileSum { sha256: open.digest.finish(), ..open.sum });
        }
        Ok(sums)
    }

    /// The folder as it is until it is published.
    pub fn path(&self) -> &Path {
        &self.part
    }

    /// Writes the manifest, and the sums of all files in the form of `sha256sum`.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn seal(&self, manifest: Manifest) -> Result<Sealed> {
        let mut text = serde_json::to_string_pretty(&manifest).map_err(|error| Failure::failed(error.to_string()))?;
        text.push('\n');
        let sha256 = Digest::of(text.as_bytes());
        let mut sums = format!("{sha256}  {MANIFEST}\n");
        manifest.files.iter().for_each(|file| sums += &format!("{}  {}\n", file.sha256, file.file));
        for (name, text) in [(MANIFEST, text), (SUMS, sums)] {
            let path = self.part.join(name);
            let written = create(&path).and_then(|mut file| {
                file.write_all(text.as_bytes())?;
                file.sync_all()
            });
            written.map_err(|error| unwritable(&path, &error))?;
        }
        Ok(Sealed { manifest, sha256 })
    }

    /// Moves the folder to its place, instead of one that is there already.
    ///
    /// # Errors
    /// It cannot be moved.
    pub fn publish(self) -> Result<()> {
        let (folder, old) = (self.directory.folder(&self.name), self.directory.hidden(&self.name, "old"));
        let publish = || {
            File::open(&self.part)?.sync_all()?;
            if folder.exists() {
                fs::rename(&folder, &old)?;
            }
            fs::rename(&self.part, &folder)?;
            self.directory.directory.sync_all()?;
            removed(&old)
        };
        interrupt::uncut(publish).map_err(|error| unwritable(&folder, &error))
    }
}

impl Drop for ArchiveWriter<'_> {
    fn drop(&mut self) {
        // What cannot be removed now, the next run removes.
        _ = removed(&self.part);
    }
}

impl Open {
    fn write(&mut self) -> io::Result<()> {
        self.digest.add(&self.buffer);
        self.sum.bytes += self.buffer.len() as u64;
        let written = self.file.write_all(&self.buffer);
        self.buffer.clear();
        written
    }
}

/// Buyers are nobody else's business: mode 600.
fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Removes a folder, if it is there.
fn removed(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        ended => ended,
    }
}
