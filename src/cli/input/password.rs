//! A password from a file, so that no list of processes shows it.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::error::InputError;
use seckill::store::error::cause;

/// The longest password; a device such as /dev/zero has no end.
const MOST_BYTES: u64 = 64 * 1024;

/// The text of a file (or pipe; `-` is standard input) without the line end that editors add.
///
/// # Errors
/// Usage: it cannot be read, is empty, too long or not UTF-8.
pub fn of_file(path: &Path) -> Result<String, InputError> {
    let shown = path.display();
    let unread = |why: &str| InputError::invalid(format!("cannot read the password file `{shown}`: {why}"));
    let mut bytes = Vec::new();
    let reader: Box<dyn Read> = match path.as_os_str() == "-" {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(path).map_err(|error| unread(&cause(&error)))?),
    };
    reader.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(|error| unread(&cause(&error)))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(unread(&format!("it is longer than {MOST_BYTES} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|_| unread("it is not UTF-8"))?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let password = line.strip_suffix('\r').unwrap_or(line);
    if password.is_empty() {
        return Err(unread("it is empty").with_hint("it must hold the password, and nothing else"));
    }
    Ok(password.to_owned())
}
