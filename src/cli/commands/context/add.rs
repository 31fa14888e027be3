//! `seckill context add`: the options that are given are those that are kept.

use crate::cli::args::Global;
use crate::cli::commands::context::file::ContextFile;
use crate::cli::commands::context::row::ContextRow;
use crate::cli::error::Result;
use crate::cli::failure::{Exit, Failure};
use crate::cli::input::yaml::contexts::{Context, check, name};
use crate::cli::input::yaml::layouts;
use crate::cli::output::Output;
use crate::redis::connect::Target;

/// Add a context
///
/// It keeps `--url`, `--layout`, `--timezone`, `--password-file`, `--cacert`, `--cert` and `--key` as they are given
/// here; the environment adds nothing. The server is not asked.
///
/// A command that changes data of a protected context's server asks for the context's name, also if `--url`, the
/// environment or another context names that server. Without a terminal it needs `--confirm NAME`; `--yes` is not enough.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "
seckill context add staging --url redis://10.0.1.5:6379 --layout sku --timezone Asia/Shanghai
# The password comes from a program; changes ask for the name
seckill context add sale --url rediss://ops@10.0.0.5 --password-command 'pass show sale' --protected
")]
pub struct AddArgs {
    /// Name of the context
    #[arg(value_name = "NAME", value_parser = name)]
    name: String,
    /// Shell command that prints the password
    ///
    /// It runs whenever a command connects, such as `pass show sale`. `--password-file` names a file instead.
    #[arg(long, value_name = "CMD")]
    password_command: Option<String>,
    /// Ask for the context's name before each change
    #[arg(long)]
    protected: bool,
    /// Replace the context of that name
    #[arg(long)]
    replace: bool,
}

/// Adds it.
pub(super) fn run(args: AddArgs, global: &Global, out: &mut Output) -> Result<Exit> {
    let AddArgs { name, password_command, protected, replace } = args;
    if global.embedded.is_some() || global.context.is_some() {
        return Err(Failure::usage("a context has a server of its own").hint("give it by `--url`").into());
    }
    let Some(url) = global.url.clone() else {
        return Err(Failure::usage(format!("context `{name}` needs the URL of its server"))
            .hint(format!("seckill context add {name} --url redis://10.0.0.5:6379"))
            .into());
    };
    Target::new(&url, "the value of `--url`", global.timeout())?;
    let path =
        |path: &Option<std::path::PathBuf>| path.as_deref().map(crate::cli::commands::context::absolute).transpose();
    if global.password_file.as_deref().is_some_and(|path| path.as_os_str() == "-") {
        return Err(Failure::usage("`--password-file -`: standard input cannot be kept")
            .hint("give the path of a file, or `--password-command CMD`")
            .into());
    }
    let context = Context {
        name,
        url,
        password_file: path(&global.password_file)?,
        password_command: password_command.filter(|command| !command.trim().is_empty()),
        layout: global.layout.as_deref().map(layouts::given).transpose()?,
        timezone: global.timezone.as_ref().map(|zone| zone.text().to_owned()),
        cacert: path(&global.cacert)?,
        cert: path(&global.cert)?,
        key: path(&global.key)?,
        protected,
    };
    check(&context).map_err(Failure::usage)?;
    let file = ContextFile::lock()?;
    let mut contexts = file.read()?;
    let name = context.name.clone();
    match contexts.all.iter_mut().find(|other| other.name == name) {
        Some(_) if !replace => {
            return Err(Failure::usage(format!("there is a context `{name}` already"))
                .hint("`--replace` replaces all of it; `seckill context show` shows it")
                .into());
        }
        Some(other) => *other = context.clone(),
        None => contexts.all.push(context.clone()),
    }
    file.write(&contexts)?;
    let is_current = contexts.current.as_ref() == Some(&name);
    out.object(&ContextRow::new(&context, is_current))?;
    if context.has_secret() {
        out.note(format!("the URL's password is in `{}` now, which only you may read", file.shown()));
    }
    if !is_current {
        out.hint(format!("`seckill context use {name}` makes it the current one"));
    }
    Ok(Exit::Done)
}
