//! The bytes of a file, or of standard input, as text.

use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, io};

use crate::cli::failure::{Failure, Result};
use crate::cli::input::error::{self, Location, Problem, Problems, STDIN, quoted, quoted_path, unreadable, utf16};

/// Fixtures, lists of activities and plans are read whole: a list of a million activities has about 50 MB.
const LARGEST: u64 = 256 * 1024 * 1024;

/// Whether nothing is left of standard input.
static STDIN_IS_READ: AtomicBool = AtomicBool::new(false);

/// A text and the name that messages call it by.
#[derive(Debug)]
pub struct Source {
    /// The path as it was given; `<stdin>` for standard input.
    pub name: String,
    /// What it holds, without a byte order mark.
    pub text: String,
}

impl Source {
    pub fn read(path: &str) -> Result<Self> {
        let mut bytes = Vec::new();
        let (name, read) = match path {
            "-" if STDIN_IS_READ.swap(true, Ordering::Relaxed) => {
                return Err(Failure::usage("standard input is given twice, and can be read once")
                    .hint("give one of them as a file"));
            }
            "-" => {
                crate::cli::interrupt::listen();
                (STDIN, io::stdin().lock().take(LARGEST + 1).read_to_end(&mut bytes))
            }
            _ => (path, fs::File::open(path).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes))),
        };
        read.map_err(|error| unreadable(name, &error))?;
        if bytes.len() as u64 > LARGEST {
            let most = LARGEST / 1024 / 1024;
            let message = format!("{} is larger than {most} MB, which are read at once", quoted_path(name));
            return Err(Failure::usage(message).hint("split it"));
        }
        Self::of(name, bytes)
    }

    /// Takes bytes as UTF-8.
    pub fn of(name: &str, bytes: Vec<u8>) -> Result<Self> {
        if error::is_utf16(&bytes[..bytes.len().min(4)]) {
            return Err(utf16(name));
        }
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
                let byte = error.as_bytes()[good.len()];
                let (message, hint) = error::not_utf8(byte, error::is_gbk(&error.as_bytes()[good.len()..]));
                return Err(Problems::only(name, Problem::new(end_of(good), message).hint(hint)));
            }
        };
        let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
        Ok(Self { name: name.to_owned(), text })
    }

    /// The text from a location to the end of its line.
    pub fn excerpt(&self, at: Location) -> String {
        let line = self.text.lines().nth(at.line.saturating_sub(1)).unwrap_or_default();
        let rest: String = line.chars().skip(at.column.saturating_sub(1)).collect();
        quoted(rest.trim_end())
    }
}

/// The location just after a text.
fn end_of(text: &[u8]) -> Location {
    let text = String::from_utf8_lossy(text);
    let last = text.rsplit('\n').next().unwrap_or_default();
    Location { line: text.matches('\n').count() + 1, column: last.chars().count() + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_that_is_not_utf8_is_named_with_its_place() {
        let error = Source::of("f", b"layout: sku\n# \xe5\x8f\x8c\xff".to_vec()).unwrap_err();
        assert_eq!(error.to_string(), "f:2:4: byte `0xff` is not UTF-8");
    }

    #[test]
    fn a_byte_order_mark_is_no_text() {
        assert_eq!(Source::of("f", b"\xef\xbb\xbfa".to_vec()).unwrap().text, "a");
    }
}
