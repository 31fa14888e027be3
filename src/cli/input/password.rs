//! A password from a file, so that no list of processes shows it.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cli::input::error::InputError;
use crate::error::cause;

/// The longest password; a device such as /dev/zero has no end.
const MOST_BYTES: u64 = 64 * 1024;

/// What a shell command prints, without its line end: `pass show sale`, or whatever keeps secrets. It may ask on the
/// terminal; standard input stays what the command line reads.
///
/// # Errors
/// It cannot be run, fails, or prints no password.
pub fn of_command(command: &str) -> Result<String, InputError> {
    let failed = |what: String| {
        let hint = "it is `password_command` of the context; its exit status must be 0";
        InputError::Command {
            kind: "password",
            command: program(command).to_owned(),
            what,
            hint: Some(hint.to_owned()),
        }
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
    if bytes.len() as u64 > MOST_BYTES {
        return Err(format!("it is longer than {MOST_BYTES} bytes"));
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
    password(bytes).map_err(|why| unread(&why).with_hint("it must hold the password, and nothing else"))
}
