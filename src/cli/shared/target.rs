//! Which server a command is for, its layout, and how to log in there: by flags, the environment and the context in use.
//!
//! What belongs to a context's server is used with the URL of the context alone: no other server ever gets its password.

use std::path::{Path, PathBuf};

use crate::cli::args::{Global, config_file, first_variable, variable};
use crate::cli::failure::{Failure, Result};
use crate::cli::input::credentials;
use crate::cli::input::yaml::contexts::{Context, Contexts};
use crate::cli::input::yaml::{contexts, layouts};
use crate::model::time::Zone;
use crate::model::{Layout, shell_quoted};
use crate::redis::connect::{Certificates, Target, address};
use crate::redis::embedded::Embedded;

const DEFAULT_URL: &str = "redis://127.0.0.1:6379";

/// The variables that name a server.
pub const URL_VARIABLES: [&str; 2] = ["SECKILL_URL", "REDIS_URL"];

/// The context in use.
#[derive(Debug)]
pub struct InUse {
    pub context: Context,
    /// `--context` named it: a flag, which beats the environment.
    is_flag: bool,
}

/// The context that was named, else the current one. The current one is not in use, and not even read, if a flag or the
/// environment names another server: it belongs to its own.
///
/// # Errors
/// There is no context of that name, or the file cannot be used.
pub fn in_use(global: &Global) -> Result<Option<InUse>> {
    if global.embedded.is_some() {
        return Ok(None);
    }
    let (named, is_flag) = match &global.context {
        Some(name) => (Some(name.clone()), true),
        None => (variable("SECKILL_CONTEXT")?, false),
    };
    if named.is_none() && (global.url.is_some() || url_of_environment()?.is_some()) {
        return Ok(None);
    }
    let contexts = known()?;
    let context = named.as_ref().or(contexts.current.as_ref()).map(|name| find(&contexts, name)).transpose()?;
    Ok(context.map(|context| InUse { context: context.clone(), is_flag }))
}

/// The contexts that there are.
fn known() -> Result<Contexts> {
    config_file().map_or_else(|| Ok(Contexts::default()), |file| contexts::read(&file))
}

/// The context of that name.
///
/// # Errors
/// There is none.
pub fn find<'a>(contexts: &'a Contexts, name: &str) -> Result<&'a Context> {
    contexts.find(name).ok_or_else(|| {
        let failure = Failure::usage(format!("there is no context `{}`", name.escape_debug()));
        let known: Vec<&str> = contexts.all.iter().map(|context| context.name.as_str()).collect();
        failure.hint(match known.is_empty() {
            true => format!("`seckill context add {} --url URL` makes it", shell_quoted(name)),
            false => format!("there are `{}`; `seckill context list` shows them", known.join("`, `")),
        })
    })
}

/// The URL that the environment has, and the variable.
fn url_of_environment() -> Result<Option<(&'static str, String)>> {
    first_variable(&URL_VARIABLES)
}

/// What a flag gives, else the context that a flag names, else the environment, else the current context.
fn first_given<'a, T>(
    of_flag: Option<T>,
    in_use: Option<&'a InUse>,
    of_context: impl Fn(&'a Context) -> Option<T>,
    of_environment: impl FnOnce() -> Result<Option<T>>,
) -> Result<Option<T>> {
    let of_context = |is_flag| in_use.filter(|it| it.is_flag == is_flag).and_then(|it| of_context(&it.context));
    match of_flag.or_else(|| of_context(true)) {
        None => Ok(of_environment()?.or_else(|| of_context(false))),
        given => Ok(given),
    }
}

/// The time zone of people: that of the flag, the environment, the context, or the system.
pub fn zone(global: &Global, in_use: Option<&InUse>) -> Result<Zone> {
    let of_environment = || Ok(global.zone_of_environment.clone());
    let given = first_given(global.timezone.clone(), in_use, Context::zone, of_environment)?;
    Ok(given.unwrap_or_else(Zone::of_system))
}

/// The layout: that of a file (a fixture, a plan, an archive) beats the environment, as does `cluster` of a private cluster; a flag
/// that contradicts the file is refused.
pub fn layout(global: &Global, in_use: Option<&InUse>, of_file: Option<Layout>) -> Result<Layout> {
    let of_flag = global.layout.as_deref().map(layouts::given).transpose()?;
    if let (Some(flag), Some(file)) = (of_flag, of_file)
        && flag != file
    {
        return Err(Failure::usage(format!(
            "`--layout {}` contradicts the file, which says `layout: {}`",
            flag.name(),
            file.name()
        ))
        .hint("leave the flag out"));
    }
    // A private cluster is wanted by a flag, or was by the one that made its directory.
    let is_cluster = || global.nodes.is_some() || global.embedded.as_deref().is_some_and(Embedded::is_cluster);
    let of_environment = || match variable("SECKILL_LAYOUT") {
        _ if is_cluster() => Ok(Some(Layout::Cluster)),
        Ok(Some(name)) if Layout::named(&name).is_none() && !layouts::is_file(&name) => {
            Err(Failure::usage(format!("`SECKILL_LAYOUT` is `{}`, which is no layout", name.escape_debug()))
                .hint(layouts::EXPECTED))
        }
        name => name?.as_deref().map(layouts::given).transpose(),
    };
    Ok(first_given(of_flag.or(of_file), in_use, |context| context.layout, of_environment)?.unwrap_or_default())
}

/// Whether a flag, the environment or a context names the server; else it is the default.
pub fn is_named(global: &Global, in_use: Option<&InUse>) -> Result<bool> {
    let is_given = global.embedded.is_some() || global.url.is_some() || in_use.is_some();
    Ok(is_given || url_of_environment()?.is_some())
}

/// Where the password of a server is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PasswordSource {
    /// The server is asked without one.
    #[default]
    Absent,
    /// In the URL.
    Url,
    /// In a file; `-` is standard input.
    File(PathBuf),
    /// In a variable of the environment.
    Variable(&'static str),
    /// What a command of the context prints. Its text may hold a secret.
    Command(String),
}

/// The server, the context that it is of, and where its password is.
fn named_server<'a>(
    global: &Global,
    in_use: Option<&'a InUse>,
) -> Result<(Target, Option<&'a Context>, PasswordSource)> {
    let of_flag = global.url.clone().map(|url| (url, "the value of `--url`".to_owned(), None));
    let of_context = |context: &'a Context| {
        Some((context.url.clone(), format!("the URL of context `{}`", context.name), Some(context)))
    };
    let of_environment = || {
        let of_variable = |(name, url)| (url, format!("the value of the environment variable `{name}`"), None);
        Ok(url_of_environment()?.map(of_variable))
    };
    let default = || (DEFAULT_URL.to_owned(), "the default".to_owned(), None);
    let (url, source, context) = first_given(of_flag, in_use, of_context, of_environment)?.unwrap_or_else(default);
    let target = Target::new(&url, &source, global.timeout())?;

    let of_url = target.has_password().then_some(PasswordSource::Url);
    let of_flag = global.password_file.clone().map(PasswordSource::File).or(of_url);
    let of_context = |context: &Context| {
        let file = context.password_file.clone().map(PasswordSource::File);
        file.or_else(|| context.password_command.clone().map(PasswordSource::Command))
    };
    let of_environment = || Ok(variable_with_password()?.map(PasswordSource::Variable));
    let password = first_given(of_flag, in_use.filter(|_| context.is_some()), of_context, of_environment)?;
    Ok((target, context, password.unwrap_or_default()))
}

fn variable_with_password() -> Result<Option<&'static str>> {
    Ok(first_variable(&["SECKILL_PASSWORD", "REDISCLI_AUTH"])?.map(|(name, _)| name))
}

/// The server, and how to log in there; `run` runs the command that prints a context's password.
pub fn target<'a>(
    global: &Global,
    in_use: Option<&'a InUse>,
    run: impl FnOnce(&str) -> Result<String>,
) -> Result<(Target, Option<&'a Context>)> {
    let (mut target, context, password) = named_server(global, in_use)?;
    let password = match password {
        PasswordSource::Absent | PasswordSource::Url => None,
        PasswordSource::File(path) => Some(credentials::password_of_file(&path)?),
        PasswordSource::Variable(name) => variable(name)?,
        PasswordSource::Command(command) => Some(run(&command)?),
    };
    password.into_iter().for_each(|password| target.set_password(password));
    if target.primary_name().is_some()
        && let Some(password) = variable("SECKILL_SENTINEL_PASSWORD")?
    {
        target.set_sentinel_password(password);
    }
    if let Some(certificates) = certificates(global, context, &target)? {
        target.set_certificates(&certificates)?;
    }
    Ok((target, context))
}

/// How a command that is printed logs in to the same server, without any secret: where the password is, and the options of TLS by the
/// names that `redis-cli` and `seckill` share, `--cacert`, `--cert` and `--key` with their files.
///
/// # Errors
/// The URL cannot be read.
pub fn login(global: &Global, in_use: Option<&InUse>) -> Result<(PasswordSource, Vec<String>)> {
    if global.embedded.is_some() {
        return Ok(Default::default());
    }
    let (target, context, password) = named_server(global, in_use)?;
    let files = certificate_files(global, context).into_iter().flatten().filter(|_| target.has_tls());
    let option =
        |(name, file): (&str, &Path)| [format!("--{}", name.trim_start_matches('-')), file.display().to_string()];
    Ok((password, files.flat_map(option).collect()))
}

/// What the file of contexts says of a server that is to be changed.
#[derive(Debug, Default)]
pub struct Standing {
    /// The protected contexts of that server, the one in use first: the name of any of them allows a change.
    pub protected_by: Vec<String>,
    /// The variable that has the URL, and the context that would be in use without it.
    pub overrides: Option<(&'static str, String)>,
}

/// Finds out, whatever named the server.
///
/// # Errors
/// The file cannot be used.
pub fn standing(global: &Global, in_use: Option<&InUse>, target: &Target) -> Result<Standing> {
    if global.embedded.is_some() {
        return Ok(Standing::default());
    }
    let contexts = known()?;
    let is_same = |context: &&Context| {
        let other = context.target(global.timeout());
        context.protected && other.is_some_and(|other| other.is_same_server(target))
    };
    let mut protected_by: Vec<String> =
        contexts.all.iter().filter(is_same).map(|context| context.name.clone()).collect();
    protected_by.sort_by_key(|name| in_use.is_none_or(|it| it.context.name != *name));
    let is_flag = global.url.is_some() || in_use.is_some_and(|it| it.is_flag);
    let overridden = in_use.map(|it| it.context.name.clone()).or(contexts.current);
    let overrides = match url_of_environment()? {
        Some((variable, _)) if !is_flag => overridden.map(|name| (variable, name)),
        _ => None,
    };
    Ok(Standing { protected_by, overrides })
}

/// The options of a command for the same server and layout, as they were given to this one, without a password; the environment
/// and the current context hold for the next command, too.
pub fn options(global: &Global) -> String {
    let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let is_elsewhere = global.password_file.is_some() || matches!(variable_with_password(), Ok(Some(_)));
    let url = global.url.as_deref().and_then(|url| address::without_password(url, is_elsewhere));
    let directory = global.embedded.as_ref().filter(|directory| !directory.as_os_str().is_empty());
    let given = [
        ("-l ", global.layout.clone()),
        ("--context ", global.context.clone()),
        ("-u ", url),
        ("--embedded=", path(&directory.cloned())),
        ("--password-file ", path(&global.password_file)),
        ("--cacert ", path(&global.cacert)),
        ("--cert ", path(&global.cert)),
        ("--key ", path(&global.key)),
    ];
    let given = given.into_iter().filter_map(|(flag, value)| Some(format!(" {flag}{}", shell_quoted(&value?))));
    given.collect()
}

/// The files that say which server a command is for, its layout, and how to log in there.
pub fn files(global: &Global, in_use: Option<&InUse>) -> Vec<PathBuf> {
    let context = in_use.map(|it| &it.context);
    let layouts = [global.layout.clone(), variable("SECKILL_LAYOUT").ok().flatten()].into_iter().flatten();
    let passwords = [global.password_file.clone(), context.and_then(|context| context.password_file.clone())];
    let certificates = certificate_files(global, context).into_iter().flatten().map(|(_, path)| path.to_owned());
    let layouts = layouts.filter(|layout| layouts::is_file(layout)).map(PathBuf::from);
    config_file().into_iter().chain(passwords.into_iter().flatten()).chain(certificates).chain(layouts).collect()
}

/// The files of `--cacert`, `--cert` and `--key`, else of the context, each with the flag or field that names it.
fn certificate_files<'a>(global: &'a Global, of: Option<&'a Context>) -> [Option<(&'static str, &'a Path)>; 3] {
    // A pair of flags replaces the context's pair.
    let of_pair = of.filter(|_| global.cert.is_none() && global.key.is_none());
    let file = |flag: &'static str, given: &'a Option<PathBuf>, of_context: Option<&'a PathBuf>| match given {
        Some(path) => Some((flag, path.as_path())),
        None => of_context.map(|path| (&flag[2..], path.as_path())),
    };
    [
        file("--cacert", &global.cacert, of.and_then(|of| of.cacert.as_ref())),
        file("--cert", &global.cert, of_pair.and_then(|of| of.cert.as_ref())),
        file("--key", &global.key, of_pair.and_then(|of| of.key.as_ref())),
    ]
}

/// The certificates of a server with TLS.
fn certificates(global: &Global, of: Option<&Context>, target: &Target) -> Result<Option<Certificates>> {
    let files = certificate_files(global, of);
    let flag = files.iter().flatten().find(|(name, _)| name.starts_with("--"));
    if let Some((flag, _)) = flag.filter(|_| !target.has_tls()) {
        return Err(Failure::usage(format!("`{flag}` is for TLS, and `{}` is without", target.shown))
            .hint("write rediss:// instead of redis://, or leave it out"));
    }
    let read = |what, (name, path)| credentials::pem(what, name, path);
    let [ca, cert, key] = files;
    let client = match (cert, key) {
        (Some(cert), Some(key)) => Some((read("certificate", cert)?, read("private key", key)?)),
        (None, None) => None,
        (cert, _) => {
            let (given, missing) = if cert.is_some() { ("--cert", "--key") } else { ("--key", "--cert") };
            return Err(Failure::usage(format!("`{given}` needs `{missing}`"))
                .hint("give the client's certificate and its private key, a PEM file each"));
        }
    };
    let ca = ca.map(|ca| read("CA file", ca)).transpose()?;
    Ok((ca.is_some() || client.is_some()).then_some(Certificates { ca, client }))
}
