//! `seckill context`: servers by name, kept in a file. They are shown without their passwords.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_yaml::{Mapping, Value};

use crate::cli::args::{Global, config_file, first_variable, variable};
use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::input::credentials::{password_of_file, program};
use crate::cli::input::yaml::contexts::{self, Context, Contexts, check, name};
use crate::cli::input::yaml::layouts;
use crate::cli::output::{Cell, Format, Output, PrivateFile, Tone, row, unencodable};
use crate::cli::shared::target::{URL_VARIABLES, find};
use crate::model::{Layout, shell_quoted};
use crate::redis::connect::Target;

/// Name servers, and choose one
///
/// A context is a server with its layout, time zone and login, kept in `seckill/config.yaml` in `$XDG_CONFIG_HOME`, else
/// in `~/.config` (mode 600). `use` chooses the current context. `--context NAME`, or SECKILL_CONTEXT, chooses another for
/// one command.
///
/// A flag overrides the environment, which overrides the context. `--context` is a flag itself: what it names overrides the
/// environment too. If a flag or the environment has a URL, the current context is not used. Of a context that is named
/// beside `--url`, or by SECKILL_CONTEXT beside SECKILL_URL, layout and time zone are used, never its password or its
/// certificates.
#[derive(Debug, clap::Subcommand)]
#[command(disable_help_subcommand = true)]
#[command(after_long_help = "
# The sale's server, protected against the wrong window
seckill context add sale --url rediss://ops@10.0.0.5:6379 --password-file ~/.sale.pw --protected
seckill context use sale
# One command on another server
seckill inspect --context staging
# In a script, a change of a protected context needs its name
seckill pause 1001 --confirm sale
")]
pub enum ContextCommand {
    /// List contexts
    ///
    /// The one in use is marked by `*`. No password is shown.
    #[command(after_long_help = "
seckill context list
")]
    List,
    Add(AddArgs),
    /// Choose the current context
    #[command(after_long_help = "
seckill context use sale
# No context from now on
seckill context use --none
")]
    Use {
        /// Context to use from now on
        #[arg(value_name = "NAME", required_unless_present = "none", value_parser = name)]
        name: Option<String>,
        /// Use no context from now on
        #[arg(long, conflicts_with = "name")]
        none: bool,
    },
    /// Show a context
    ///
    /// No password is shown; of a password command only the program.
    #[command(after_long_help = "
# The context in use
seckill context show
seckill context show staging
")]
    Show {
        /// Context to show [default: the one in use]
        #[arg(value_name = "NAME", value_parser = name)]
        name: Option<String>,
    },
    /// Print the name of the context in use
    #[command(after_long_help = "
seckill context current
")]
    Current,
    /// Remove a context
    ///
    /// Nothing but the entry in the file is removed, not even its password file.
    #[command(visible_alias = "rm")]
    #[command(after_long_help = "
seckill context remove staging
")]
    Remove {
        /// Context to remove
        #[arg(value_name = "NAME", value_parser = name)]
        name: String,
    },
}

/// Shows or changes contexts. No server is asked.
pub fn run(command: ContextCommand, global: &Global, out: &mut Output) -> Result<Exit> {
    match command {
        ContextCommand::List => list(global, out),
        ContextCommand::Add(args) => add(args, global, out),
        ContextCommand::Use { name, none: _ } => choose(name, out),
        ContextCommand::Show { name } => show(name, global, out),
        ContextCommand::Current => current(global, out),
        ContextCommand::Remove { name } => remove(&name, out),
    }
}

fn list(global: &Global, out: &mut Output) -> Result<Exit> {
    let Contexts { current, all } = known()?;
    let in_use = named(global)?.or(current);
    if all.is_empty() {
        out.note(format!("there are no contexts in `{}`", path()?.display()));
        out.hint("`seckill context add NAME --url URL` makes one");
    }
    let row = |context: &Context| ContextRow::new(context, in_use.as_ref() == Some(&context.name));
    let rows: Vec<ContextRow> = all.iter().map(row).collect();
    if !rows.is_empty() || out.format() != Format::Table {
        out.array(&rows)?;
    }
    if in_use.is_some() {
        say_overridden(global, out)?;
    }
    Ok(Exit::Done)
}

/// The context that this command line or its environment names.
fn named(global: &Global) -> Result<Option<String>> {
    match &global.context {
        Some(name) => Ok(Some(name.clone())),
        None => variable("SECKILL_CONTEXT"),
    }
}

/// Says what keeps the current context from being used, unless another is named.
fn say_overridden(global: &Global, out: &Output) -> Result<()> {
    if named(global)?.is_none()
        && let Some((name, _)) = first_variable(&URL_VARIABLES)?
    {
        out.note(format!("{name} is set: the server is that one, and the current context is not in use"));
    }
    Ok(())
}

fn choose(name: Option<String>, out: &mut Output) -> Result<Exit> {
    let file = PrivateFile::lock(&path()?)?;
    let mut contexts = known()?;
    let found = name.as_deref().map(|name| find(&contexts, name)).transpose()?.cloned();
    contexts.current = name;
    write(&contexts, &file)?;
    match &found {
        Some(context) => out.object(&ContextRow { is_written: true, ..ContextRow::new(context, true) })?,
        None => out.note("no context is current"),
    }
    if found.is_some()
        && let Some((variable, _)) = first_variable(&["SECKILL_CONTEXT", URL_VARIABLES[0], URL_VARIABLES[1]])?
    {
        out.warn(format!("{variable} is set in this shell, and overrides the current context"));
        out.hint(format!("unset {variable}"));
    }
    Ok(Exit::Done)
}

fn show(name: Option<String>, global: &Global, out: &mut Output) -> Result<Exit> {
    let row = named_or_in_use(name, global)?;
    match out.format() {
        Format::Table => out.table(None, &FieldRow::of(&row)?)?,
        _ => out.object(&row)?,
    }
    Ok(Exit::Done)
}

fn current(global: &Global, out: &mut Output) -> Result<Exit> {
    let row = named_or_in_use(None, global)?;
    match out.format() {
        Format::Table => out.line(&row.name),
        _ => out.object(&row)?,
    }
    say_overridden(global, out)?;
    Ok(Exit::Done)
}

/// The context of that name, else the one in use.
fn named_or_in_use(name: Option<String>, global: &Global) -> Result<ContextRow> {
    let contexts = known()?;
    let in_use = named(global)?.or_else(|| contexts.current.clone());
    let Some(name) = name.or_else(|| in_use.clone()) else {
        return Err(Failure::usage("no context is in use")
            .hint("`seckill context use NAME` chooses one; `seckill context list` shows them"));
    };
    Ok(ContextRow::new(find(&contexts, &name)?, in_use.as_ref() == Some(&name)))
}

fn remove(name: &str, out: &mut Output) -> Result<Exit> {
    let file = PrivateFile::lock(&path()?)?;
    let mut contexts = known()?;
    let context = find(&contexts, name)?.clone();
    let was_current = contexts.current.as_deref() == Some(name);
    contexts.all.retain(|other| other.name != name);
    contexts.current = contexts.current.filter(|_| !was_current);
    write(&contexts, &file)?;
    // A table would look as if it were still there.
    if out.format() != Format::Table {
        out.object(&ContextRow { is_written: true, ..ContextRow::new(&context, false) })?;
    }
    out.note(format!("context `{name}` is removed{}", if was_current { "; no context is current" } else { "" }));
    Ok(Exit::Done)
}

/// A path that stays what it is wherever the next command runs.
fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path)
        .map_err(|error| Failure::failed(format!("`{}`: {}", path.display(), crate::error::cause(&error))))
}

/// Add a context
///
/// It keeps `--url`, `--layout`, `--timezone`, `--password-file`, `--cacert`, `--cert` and `--key` as they are given
/// here; the environment adds nothing. The server is not asked.
///
/// A command that changes data of a protected context's server asks for the context's name, also if `--url`, the
/// environment or another context names that server. Without a terminal it needs `--confirm NAME`; `--yes` is not enough.
/// Servers are compared by their addresses as given: name all nodes of a cluster.
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
fn add(args: AddArgs, global: &Global, out: &mut Output) -> Result<Exit> {
    let AddArgs { name, password_command, protected, replace } = args;
    if global.embedded.is_some() || global.context.is_some() {
        return Err(Failure::usage("a context has a server of its own").hint("give it by `--url`"));
    }
    let Some(url) = global.url.clone() else {
        return Err(Failure::usage(format!("context `{name}` needs the URL of its server"))
            .hint(format!("seckill context add {} --url redis://10.0.0.5:6379", shell_quoted(&name))));
    };
    Target::new(&url, "the value of `--url`", global.timeout())?;
    let kept = |path: &Option<PathBuf>| path.as_deref().map(absolute).transpose();
    if global.password_file.as_deref().is_some_and(|path| path.as_os_str() == "-") {
        return Err(Failure::usage("`--password-file -`: standard input cannot be kept")
            .hint("give the path of a file, or `--password-command CMD`"));
    }
    if let Some(failure) = global.password_file.as_deref().and_then(|path| password_of_file(path).err()) {
        out.warn(failure.message);
    }
    let context = Context {
        name,
        url,
        password_file: kept(&global.password_file)?,
        password_command: password_command.filter(|command| !command.trim().is_empty()),
        layout: global.layout.as_deref().map(layouts::given).transpose()?,
        timezone: global.timezone.as_ref().map(|zone| zone.text().to_owned()),
        cacert: kept(&global.cacert)?,
        cert: kept(&global.cert)?,
        key: kept(&global.key)?,
        protected,
    };
    check(&context).map_err(Failure::usage)?;
    let file = PrivateFile::lock(&path()?)?;
    let mut contexts = known()?;
    let name = context.name.clone();
    match contexts.all.iter_mut().find(|other| other.name == name) {
        Some(_) if !replace => {
            return Err(Failure::usage(format!("there is a context `{name}` already"))
                .hint("`--replace` replaces all of it; `seckill context show` shows it"));
        }
        Some(other) => *other = context.clone(),
        None => contexts.all.push(context.clone()),
    }
    write(&contexts, &file)?;
    let is_current = contexts.current.as_ref() == Some(&name);
    out.object(&ContextRow { is_written: true, ..ContextRow::new(&context, is_current) })?;
    if context.has_secret() {
        out.note(format!("the URL's password is in `{}` now, which only you may read", path()?.display()));
    }
    if !is_current {
        out.hint(format!("`seckill context use {}` makes it the current one", shell_quoted(&context.name)));
    }
    Ok(Exit::Done)
}

row! {
    struct ContextRow as row from (context: &Context, current: bool) {
        table "" => Cell::text(if row.current { "*" } else { "" }).tone(Tone::Good);
        /// Whether this command wrote or removed it.
        hidden is_written: bool = false;
        name: String = context.name.clone() => Cell::text(&row.name).tone(Tone::Strong);
        /// Whether `context use` chose it; a URL that is given goes before it.
        data current: bool = current;
        /// Without its password.
        url: String = context.target(Duration::ZERO).map(|target| target.shown).unwrap_or_default(), flexible;
        layout: Option<Layout> = context.layout => Cell::text(row.layout.map_or("", Layout::name));
        timezone: Option<String> = context.timezone.clone();
        data password_file: Option<String> = path(&context.password_file);
        /// Only the program: the rest may be a secret.
        data password_command: Option<String> = context.password_command.as_deref().map(shown);
        data cacert: Option<String> = path(&context.cacert);
        data cert: Option<String> = path(&context.cert);
        data key: Option<String> = path(&context.key);
        protected: bool = context.protected => Cell::text(if row.protected { "yes" } else { "" }).tone(Tone::Warn);
    }
    where {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let shown = |command| match program(command) {
            whole if whole == command => whole.to_owned(),
            program => format!("{program} …"),
        };
    }
    named name
    changed if row.is_written
}

row! {
    /// A field of a context, a line of a table for people.
    struct FieldRow as row {
        field: String => Cell::text(&row.field).tone(Tone::Strong);
        value: String, flexible;
    }
}

impl FieldRow {
    /// The fields that are set.
    fn of(row: &ContextRow) -> Result<Vec<Self>> {
        let fields: Mapping = serde_yaml::to_value(row).and_then(serde_yaml::from_value).map_err(unencodable)?;
        let shown = |(field, value): (Value, Value)| {
            let value = match &value {
                Value::Bool(true) => "yes",
                // A layout of a file.
                Value::Mapping(_) => row.layout?.name(),
                value => value.as_str()?,
            };
            Some(Self { field: field.as_str()?.to_owned(), value: value.to_owned() })
        };
        Ok(fields.into_iter().filter_map(shown).collect())
    }
}

const HEAD: &str =
    "# Contexts of seckill: see `seckill context --help`. It writes this file anew: comments are not kept.\n";

/// The contexts that there are.
fn known() -> Result<Contexts> {
    contexts::read(&path()?)
}

/// Writes them to the file, which nobody else changes.
fn write(contexts: &Contexts, file: &PrivateFile) -> Result<()> {
    if let Some(path) = contexts.all.iter().flat_map(Context::files).find(|path| path.to_str().is_none()) {
        return Err(Failure::usage(format!("`{}` is not UTF-8: rename it", path.display())));
    }
    let text = serde_yaml::to_string(contexts).map_err(unencodable)?;
    file.replace(&format!("{HEAD}{text}"))
}

fn path() -> Result<PathBuf> {
    config_file().ok_or_else(|| {
        Failure::usage("neither XDG_CONFIG_HOME nor HOME is set, so contexts have no place")
            .hint("set XDG_CONFIG_HOME to an absolute path")
    })
}
