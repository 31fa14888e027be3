//! The files of `--cacert`, `--cert` and `--key`, and a password from a file or a command, so that no list of processes shows it.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cli::failure::{Failure, Result};
use crate::cli::input::error::command_failed;
use crate::error::cause;
use crate::model::shell_quoted;
use crate::redis::connect::Pem;

/// The longest file; the CAs of a whole system take a quarter of a megabyte.
const MAX_PEM_BYTES: u64 = 4 * 1024 * 1024;

/// The text of a file, which may be a pipe. `what` it is, for messages: "CA file".
///
/// # Errors
/// Usage: it cannot be read, is empty or too long.
pub fn pem(what: &str, flag: &str, path: &Path) -> Result<Pem> {
    let origin = format!("the {what} `{}` (`{flag}`)", path.display());
    let unread = |why: &str| {
        Failure::usage(format!("cannot read {origin}: {why}")).hint(format!("`{flag}` expects the path of a PEM file"))
    };
    let mut text = Vec::new();
    let file = File::open(path).map_err(|error| unread(&cause(&error)))?;
    file.take(MAX_PEM_BYTES + 1).read_to_end(&mut text).map_err(|error| unread(&cause(&error)))?;
    if text.len() as u64 > MAX_PEM_BYTES {
        return Err(unread(&format!("it is longer than {MAX_PEM_BYTES} bytes")));
    }
    if text.is_empty() {
        return Err(unread("it is empty"));
    }
    Ok(Pem { origin, text })
}

/// The longest password; a device such as /dev/zero has no end.
const MAX_PASSWORD_BYTES: u64 = 64 * 1024;

/// What a shell command prints, without its line end: `pass show sale`, or whatever keeps secrets. It may ask on the
/// terminal; standard input stays what the command line reads.
///
/// # Errors
/// It cannot be run, fails, or prints no password.
pub fn password_of_command(command: &str) -> Result<String> {
    let failed = |what: String| {
        command_failed("password", program(command), &what)
            .hint("it is `password_command` of the context; its exit status must be 0")
    };
    let mut shell = Command::new("sh");
    let run = shell.arg("-c").arg(command).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = run.map_err(|error| failed(format!("cannot be run: {}", cause(&error))))?;
    match output.status.code() {
        Some(0) => password(output.stdout).map_err(|why| failed(format!("printed no password: {why}"))),
        Some(code) => Err(failed(format!("ended with {code}"))),
        None => Err(failed("was ended by a signal".to_owned())),
    }
}

/// The first word of a command: what follows may be a secret.
pub fn program(command: &str) -> &str {
    command.split_whitespace().next().unwrap_or_default()
}

/// Bytes as a password, without the line end that editors and programs add.
fn password(bytes: Vec<u8>) -> Result<String, String> {
    if bytes.len() as u64 > MAX_PASSWORD_BYTES {
        return Err(format!("it is longer than {MAX_PASSWORD_BYTES} bytes"));
    }
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8")?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    match line.strip_suffix('\r').unwrap_or(line) {
        "" => Err("it is empty".to_owned()),
        password => Ok(password.to_owned()),
    }
}

/// The text of a file (or pipe; `-` is standard input) without the line end that editors add.
///
/// # Errors
/// Usage: it cannot be read, others may read it, it is empty, too long or not UTF-8.
pub fn password_of_file(path: &Path) -> Result<String> {
    let shown = path.display();
    let unread = |why: &str| Failure::usage(format!("cannot read the password file `{shown}`: {why}"));
    let mut bytes = Vec::new();
    let reader: Box<dyn Read> = match path.as_os_str() == "-" {
        true => Box::new(io::stdin()),
        false => {
            let file = File::open(path).map_err(|error| unread(&cause(&error)))?;
            if others_may_read(&file.metadata().map_err(|error| unread(&cause(&error)))?) {
                return Err(
                    Failure::usage(format!("others may read the password file `{shown}`")).hint(owner_alone(path))
                );
            }
            Box::new(file)
        }
    };
    reader.take(MAX_PASSWORD_BYTES + 1).read_to_end(&mut bytes).map_err(|error| unread(&cause(&error)))?;
    password(bytes).map_err(|why| unread(&why).hint("it must hold the password, and nothing else"))
}

/// Whether others than the owner may read a file. A pipe is always private.
pub fn others_may_read(file: &Metadata) -> bool {
    file.is_file() && file.permissions().mode() & 0o044 != 0
}

/// The command that takes a file from everybody but its owner.
pub fn owner_alone(path: &Path) -> String {
    format!("chmod 600 {}", shell_quoted(&path.display().to_string()))
}
