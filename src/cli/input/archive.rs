//! Reads archives: a folder with a manifest and the files that it names. Each file is verified before it is used.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::cli::failure::{Failure, Result};
use crate::cli::input::error::unreadable;
use crate::model::archive::{Bytes, Digest, MANIFEST, Manifest, Part, SUMS, Sealed, read_line};
use crate::model::{ActivityId, Kind};

/// A manifest is some kilobytes.
const MAX_MANIFEST: u64 = 16 * 1024 * 1024;
/// The longest line: an entry of the ledger has hundreds of orders.
const MAX_LINE: u64 = 64 * 1024 * 1024;
const BUFFER: usize = 256 * 1024;

/// An archive that was found, with its manifest.
#[derive(Debug)]
pub struct Archive {
    pub folder: PathBuf,
    pub id: ActivityId,
    pub sealed: Sealed,
}

/// All archives of a directory: it is the folder of one, or has folders of several.
///
/// # Errors
/// There is none, or a manifest cannot be used.
pub fn find(directory: &Path) -> Result<Vec<Archive>> {
    if directory.join(MANIFEST).exists() {
        return Ok(vec![Archive::open(directory)?]);
    }
    let shown = directory.display().to_string();
    if !directory.is_dir() {
        let why = if directory.exists() { "is not a directory" } else { "does not exist" };
        return Err(Failure::usage(format!("`{shown}` {why}"))
            .hint("give the directory of `seckill archive --to`, or one of its folders"));
    }
    let unreadable = |error: &std::io::Error| unreadable(&shown, error);
    let mut folders = Vec::new();
    for entry in fs::read_dir(directory).map_err(|error| unreadable(&error))? {
        let path = entry.map_err(|error| unreadable(&error))?.path();
        // One that begins with a dot is not complete.
        let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        // Sums of a ledger without a manifest are of an archive that lost it.
        let lost_manifest = || path.join(SUMS).exists() && path.join(Part::Ledger.file_name()).exists();
        if !is_hidden && (path.join(MANIFEST).exists() || lost_manifest()) {
            folders.push(path);
        }
    }
    folders.sort();
    if folders.is_empty() {
        return Err(Failure::usage(format!("`{shown}` holds no archive: no `{MANIFEST}` in it, or in a folder of it"))
            .hint("give the directory of `seckill archive --to`, or one of its folders"));
    }
    folders.iter().map(|folder| Archive::open(folder)).collect()
}

impl Archive {
    /// Reads the manifest of a folder, and the sums beside it.
    ///
    /// # Errors
    /// They cannot be read, or are not of an archive.
    pub fn open(folder: &Path) -> Result<Self> {
        let path = folder.join(MANIFEST);
        let text = read(&path, MAX_MANIFEST)?;
        let invalid = |why: String| Failure::usage(format!("`{}` is no manifest of an archive: {why}", path.display()));
        let manifest: Manifest = serde_json::from_slice(&text).map_err(|error| invalid(error.to_string()))?;
        manifest.check().map_err(invalid)?;
        let id = manifest.id().map_err(Failure::usage)?;
        let sealed = Sealed { manifest, sha256: Digest::of(&text) };
        let sums = folder.join(SUMS);
        let listed = String::from_utf8_lossy(&read(&sums, MAX_MANIFEST)?).into_owned();
        let is_listed = listed.lines().any(|line| line == format!("{}  {MANIFEST}", sealed.sha256));
        if !is_listed {
            return Err(damaged(&path, format!("its SHA-256 is not the one in `{SUMS}`")));
        }
        Ok(Self { folder: folder.to_owned(), id, sealed })
    }

    /// Reads each file to its end: its SHA-256, its size, and whether each line is one. `read` gets the number of lines
    /// that were read.
    ///
    /// # Errors
    /// A file is not as it was written.
    pub fn verify(&self, mut read: impl FnMut(u64)) -> Result<()> {
        let kind = self.sealed.manifest.layout.kind();
        for part in Part::of(kind) {
            let mut lines = self.lines(*part)?;
            let mut count = 0;
            while lines.next_line()?.is_some() {
                count += 1;
                if count % 10_000 == 0 {
                    read(10_000);
                }
            }
            read(count % 10_000);
            lines.finish(&self.sealed.manifest)?;
        }
        Ok(())
    }

    /// The lines of a part.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn lines(&self, part: Part) -> Result<Lines> {
        let path = self.folder.join(part.file_name());
        let file = File::open(&path).map_err(|error| unreadable_part(&path, &error))?;
        let (reader, kind) = (BufReader::with_capacity(BUFFER, file), self.sealed.manifest.layout.kind());
        Ok(Lines { path, part, kind, reader, line: Vec::new(), number: 0, bytes: 0, digest: Digest::default() })
    }
}

/// The lines of a file, one after the other.
pub struct Lines {
    path: PathBuf,
    part: Part,
    kind: Kind,
    reader: BufReader<File>,
    line: Vec<u8>,
    number: u64,
    bytes: u64,
    digest: Digest,
}

impl Lines {
    /// The texts of the next line.
    ///
    /// # Errors
    /// It cannot be read, or is none of this part.
    pub fn next_line(&mut self) -> Result<Option<Vec<Bytes>>> {
        self.line.clear();
        let read = (&mut self.reader).take(MAX_LINE).read_until(b'\n', &mut self.line);
        read.map_err(|error| unreadable_part(&self.path, &error))?;
        if self.line.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        self.bytes += self.line.len() as u64;
        self.digest.add(&self.line);
        match read_line(&self.line) {
            Some(texts) if self.line.ends_with(b"\n") && self.part.accepts(self.kind, texts.len()) => Ok(Some(texts)),
            _ => {
                let columns = self.part.columns(self.kind).join(", ");
                let path = self.path.display();
                Err(Failure::usage(format!("{path}:{}: not a JSON array of texts: {columns}", self.number))
                    .hint("it is not as it was archived: take another copy of the archive"))
            }
        }
    }

    /// Whether all that was read is as the manifest has it.
    ///
    /// # Errors
    /// It is not.
    pub fn finish(self, manifest: &Manifest) -> Result<()> {
        let Some(file) = manifest.file(self.part) else { return Ok(()) };
        let found = self.digest.finish();
        if (self.number, self.bytes) != (file.lines, file.bytes) {
            let why = format!("{} lines and {} bytes, not {} and {}", self.number, self.bytes, file.lines, file.bytes);
            return Err(damaged(&self.path, why));
        }
        if found != file.sha256 {
            return Err(damaged(&self.path, format!("its SHA-256 is {found}, not {}", file.sha256)));
        }
        Ok(())
    }
}

fn read(path: &Path, most: u64) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(most).read_to_end(&mut text));
    read.map_err(|error| unreadable_part(path, &error))?;
    Ok(text)
}

fn unreadable_part(path: &Path, error: &std::io::Error) -> Failure {
    unreadable(&path.display().to_string(), error).hint(ANOTHER_COPY)
}

fn damaged(path: &Path, why: String) -> Failure {
    Failure::usage(format!("`{}` is not as it was archived: {why}", path.display())).hint(ANOTHER_COPY)
}

const ANOTHER_COPY: &str =
    "take another copy of the archive: `sha256sum -c SHA256SUMS` in its folder says which files are whole";
