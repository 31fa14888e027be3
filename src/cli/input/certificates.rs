//! The files of `--cacert`, `--cert` and `--key`. What is in them is read by the store.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::cli::input::error::InputError;
use crate::error::cause;
use crate::redis::connect::Pem;

/// The longest file; the CAs of a whole system take a quarter of a megabyte.
const MOST_BYTES: u64 = 4 * 1024 * 1024;

/// The text of a file, which may be a pipe. `what` it is, for messages: "CA file".
///
/// # Errors
/// Usage: it cannot be read, is empty or too long.
pub fn of_file(what: &str, flag: &str, path: &Path) -> Result<Pem, InputError> {
    let origin = format!("the {what} `{}` (`{flag}`)", path.display());
    let unread = |why: &str| {
        InputError::invalid(format!("cannot read {origin}: {why}"))
            .with_hint(format!("`{flag}` expects the path of a PEM file"))
    };
    let mut text = Vec::new();
    let file = File::open(path).map_err(|error| unread(&cause(&error)))?;
    file.take(MOST_BYTES + 1).read_to_end(&mut text).map_err(|error| unread(&cause(&error)))?;
    if text.len() as u64 > MOST_BYTES {
        return Err(unread(&format!("it is longer than {MOST_BYTES} bytes")));
    }
    if text.is_empty() {
        return Err(unread("it is empty"));
    }
    Ok(Pem { origin, text })
}
