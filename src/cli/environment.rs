//! Variables of the environment: an empty one counts as unset, and none is misread.

use std::env;
use std::path::PathBuf;

use crate::cli::failure::Failure;

/// The text of a variable; `None` if it is unset or empty.
///
/// # Errors
/// Usage, if it is not UTF-8: half a password or a mangled URL must not be used.
pub fn variable(name: &str) -> Result<Option<String>, Failure> {
    match env::var_os(name).map(std::ffi::OsString::into_string) {
        None => Ok(None),
        Some(Ok(value)) => Ok(Some(value).filter(|value| !value.is_empty())),
        Some(Err(_)) => Err(Failure::usage(format!("the environment variable `{name}` is not UTF-8"))
            .hint(format!("unset `{name}`, or set it to a valid text"))),
    }
}

/// What a variable means; `None` if it is unset or empty.
///
/// # Errors
/// Usage, if it is not UTF-8 or means nothing. `expected` says what it must be.
pub(crate) fn parsed<T>(
    name: &str,
    parse: impl FnOnce(&str) -> Option<T>,
    expected: &str,
) -> Result<Option<T>, Failure> {
    let Some(value) = variable(name)? else { return Ok(None) };
    let wrong = || Failure::usage(format!("the environment variable `{name}` is `{}`", value.escape_debug()));
    parse(&value).map(Some).ok_or_else(|| wrong().hint(expected.to_owned()))
}

/// The file of contexts: `seckill/config.yaml` in `XDG_CONFIG_HOME`, else in `~/.config`. `None` without a home.
pub fn config_file() -> Option<PathBuf> {
    let directory = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = directory("XDG_CONFIG_HOME").or_else(|| Some(directory("HOME")?.join(".config")))?;
    Some(folder.join("seckill").join("config.yaml"))
}
