//! The file of contexts: servers by name, with what belongs to each.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::cli::failure::{Failure, Result};
use crate::cli::input::credentials::{others_may_read, owner_alone};
use crate::cli::input::error::{Problems, Reported, quoted, unreadable};
use crate::cli::input::source::Source;
use crate::cli::input::yaml::fields::{Context as Reading, Fields, distinct};
use crate::cli::input::yaml::{Node, Value, layouts};
use crate::model::Layout;
use crate::model::time::{UnknownZone, Zone};
use crate::redis::connect::Target;

/// The longest file; a thousand contexts have a tenth of it.
const MAX_BYTES: u64 = 1024 * 1024;
/// The longest name of a context, in bytes.
const LONGEST_NAME: usize = 64;

const SECTIONS: [&str; 2] = ["current", "contexts"];
const FIELDS: [&str; 11] = [
    "url",
    "password_file",
    "password_command",
    "layout",
    "kind",
    "keys",
    "timezone",
    "cacert",
    "cert",
    "key",
    "protected",
];

/// All contexts, and which of them is used if none is named. Serialized, they are the file.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Contexts {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// In the order of the file; each name once.
    #[serde(rename = "contexts", serialize_with = "by_name")]
    pub all: Vec<Context>,
}

/// A server, and what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Context {
    #[serde(skip)]
    pub name: String,
    pub url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
    /// A shell command that prints the password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_command: Option<String>,
    #[serde(flatten, serialize_with = "layout_fields")]
    pub layout: Option<Layout>,
    /// The name of a time zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cacert: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// Whether each change of its server asks for the context's name.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub protected: bool,
}

fn by_name<S: Serializer>(all: &[Context], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(all.iter().map(|context| (&context.name, context)))
}

/// A layout without a name is in two fields of its own.
fn layout_fields<S: Serializer>(layout: &Option<Layout>, serializer: S) -> Result<S::Ok, S::Error> {
    match layout {
        Some(Layout::Custom(_)) => layout.serialize(serializer),
        named => serializer.collect_map(named.map(|layout| ("layout", layout))),
    }
}

impl Context {
    /// The server of its URL; no password but one in the URL.
    pub fn target(&self, timeout: Duration) -> Option<Target> {
        Target::new(&self.url, "", timeout).ok()
    }

    /// Whether the URL itself has a password.
    pub fn has_secret(&self) -> bool {
        self.target(Duration::ZERO).is_some_and(|target| target.has_password())
    }

    /// The files that it names.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.password_file, &self.cacert, &self.cert, &self.key].into_iter().flatten()
    }

    /// Its time zone.
    pub fn zone(&self) -> Option<Zone> {
        self.timezone.as_ref().and_then(|name| name.parse().ok())
    }
}

impl Contexts {
    pub fn find(&self, name: &str) -> Option<&Context> {
        self.all.iter().find(|context| context.name == name)
    }
}

/// Checks what a context is to be called.
pub fn name(text: &str) -> Result<String, String> {
    match is_name(text) {
        true => Ok(text.to_owned()),
        false => Err(format!("expected {NAME}")),
    }
}

const NAME: &str = "1 to 64 bytes without white space, the first no `-`";

fn is_name(text: &str) -> bool {
    let is_bad = |c: char| c.is_whitespace() || c.is_control();
    (1..=LONGEST_NAME).contains(&text.len()) && !text.starts_with('-') && !text.contains(is_bad)
}

/// Reads the file; nothing if there is none.
///
/// # Errors
/// It cannot be read, is not valid, or others may change it, or read a password that it holds.
pub fn read(path: &Path) -> Result<Contexts> {
    let shown = path.display().to_string();
    let unreadable = |error: &io::Error| unreadable(&shown, error);
    let file = match File::open(path) {
        Ok(file) => file,
        // Also a parent that is a file.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Contexts::default());
        }
        Err(error) => return Err(unreadable(&error)),
    };
    let metadata = file.metadata().map_err(|error| unreadable(&error))?;
    if metadata.permissions().mode() & 0o022 != 0 {
        return Err(Failure::usage(format!("others may change `{shown}`, and it names commands that you run"))
            .hint(owner_alone(path)));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| unreadable(&error))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Failure::usage(format!("`{shown}` is longer than {MAX_BYTES} bytes")));
    }
    let contexts = parse(&Source::of(&shown, bytes)?, path.parent().unwrap_or(Path::new("")))?;
    if others_may_read(&metadata)
        && let Some(context) = contexts.all.iter().find(|context| context.has_secret())
    {
        let name = &context.name;
        return Err(Failure::usage(format!("others may read `{shown}`, and the URL of `{name}` has a password"))
            .hint(owner_alone(path)));
    }
    Ok(contexts)
}

/// Reads the text. Relative paths are relative to `folder`.
fn parse(source: &Source, folder: &Path) -> Result<Contexts> {
    let mut reading = Reading { source, problems: Problems::of(&source.name) };
    let mut contexts = Contexts::default();
    // What is wrong is reported.
    let _ = document(&mut reading, folder, &mut contexts);
    reading.problems.end()?;
    Ok(contexts)
}

fn document(reading: &mut Reading<'_>, folder: &Path, found: &mut Contexts) -> Result<(), Reported> {
    let Some(root) = reading.only_document("one")? else { return Ok(()) };
    // Only comments, or all contexts removed.
    if matches!(&root.value, Value::Scalar { text, plain: true } if matches!(text.as_str(), "" | "~" | "null")) {
        return Ok(());
    }
    let fields = Fields::of(reading, "the file", &SECTIONS, &root)?;
    if let Some(node) = fields.node("contexts") {
        let Value::Mapping(mapping) = &node.value else {
            return Err(reading.report(node.at, "contexts: expected a mapping of names"));
        };
        for (name, at, node) in distinct(reading, "contexts", mapping) {
            if !is_name(name) {
                reading.report(at, format!("contexts: {} is no name, expected {NAME}", quoted(name)));
                continue;
            }
            if let Ok(context) = context(reading, name, node, folder) {
                found.all.push(context);
            }
        }
    }
    if let Some(node) = fields.node("current") {
        found.current = Some(reading.scalar("current", node)?);
    }
    fields.all_known()
}

fn context(reading: &mut Reading<'_>, name: &str, node: &Node, folder: &Path) -> Result<Context, Reported> {
    if let Value::Mapping(mapping) = &node.value
        && let Some((key, _)) = mapping.iter().find(|(key, _)| key.text() == Some("password"))
    {
        let hint = "`password_file` or `password_command` says where it is".to_owned();
        return Err(reading.report_with_hint(key.at, "a context: passwords are not kept here", hint));
    }
    let fields = Fields::of(reading, "a context", &FIELDS, node)?;
    let text = |reading: &mut Reading<'_>, name| fields.optional::<String>(reading, name);
    let path = |reading: &mut Reading<'_>, name| Ok(text(reading, name)?.map(|path| absolute(&path, folder)));
    let url = url(reading, &fields);
    let timezone = text(reading, "timezone")?;
    if let (Some(zone), Some(node)) = (&timezone, fields.node("timezone"))
        && zone.parse::<Zone>().is_err()
    {
        let message = format!("timezone: {} is no known time zone", quoted(zone));
        reading.report_with_hint(node.at, message, UnknownZone::EXPECTED.to_owned());
    }
    let context = Context {
        name: name.to_owned(),
        password_file: path(reading, "password_file")?,
        password_command: text(reading, "password_command")?,
        layout: layouts::layout(reading, fields.at, ["layout", "kind", "keys"].map(|name| fields.node(name)))?,
        timezone,
        cacert: path(reading, "cacert")?,
        cert: path(reading, "cert")?,
        key: path(reading, "key")?,
        protected: fields.optional(reading, "protected")?.unwrap_or_default(),
        url: url?,
    };
    fields.all_known()?;
    check(&context).map_err(|why| reading.report(node.at, format!("`{name}`: {why}")))?;
    Ok(context)
}

/// The URL. Nothing of it is shown: any part may be a password.
fn url(reading: &mut Reading<'_>, fields: &Fields<'_>) -> Result<String, Reported> {
    let Some(node) = fields.node("url") else {
        return Err(fields.missing(reading, "url", "the URL of a server"));
    };
    match node.text().filter(|url| Target::new(url, "", Duration::ZERO).is_ok()) {
        Some(url) => Ok(url.to_owned()),
        None => {
            let hint =
                "expected redis://, rediss:// or unix:///path.sock, or host:port, as `--url` takes it".to_owned();
            Err(reading.report_with_hint(node.at, "url: it is not the URL of a server", hint))
        }
    }
}

/// What of a context contradicts the rest.
pub fn check(context: &Context) -> Result<(), String> {
    let Context { password_file, password_command, cacert, cert, key, .. } = context;
    let files = [("cacert", cacert), ("cert", cert), ("key", key)];
    if let Some((name, _)) = files.iter().find(|(_, file)| file.is_some())
        && !context.target(Duration::ZERO).is_some_and(|target| target.has_tls())
    {
        return Err(format!("`{name}` is for TLS, and the URL is without: write rediss://"));
    }
    if cert.is_some() != key.is_some() {
        return Err("`cert` and `key` are a pair, and one of them is missing".to_owned());
    }
    let given = [password_file.is_some(), password_command.is_some(), context.has_secret()];
    if given.into_iter().filter(|given| *given).count() > 1 {
        return Err("a password in the URL, `password_file` and `password_command`: give one of them".to_owned());
    }
    Ok(())
}

/// A path as it is written in the file.
fn absolute(path: &str, folder: &Path) -> PathBuf {
    match path.strip_prefix("~/").zip(std::env::var_os("HOME")) {
        Some((rest, home)) => Path::new(&home).join(rest),
        None => folder.join(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Contexts> {
        let source = Source { name: "c.yaml".to_owned(), text: text.to_owned() };
        parse(&source, Path::new("/etc/seckill"))
    }

    #[test]
    fn contexts_are_read_as_they_are_written() {
        let contexts = parsed(
            "current: sale\ncontexts:\n  sale: {url: 'rediss://ops@h', password_file: pw, layout: sku, timezone: UTC, \
             cacert: /ca.pem, protected: true}\n  '0123': {url: 'h:1'}\n",
        )
        .unwrap();
        let sale = contexts.find("sale").unwrap();
        assert_eq!(contexts.current.as_deref(), Some("sale"));
        assert_eq!((sale.layout, sale.protected), (Some(Layout::Sku), true));
        assert_eq!(sale.password_file.as_deref(), Some(Path::new("/etc/seckill/pw")));
        assert_eq!(sale.cacert.as_deref(), Some(Path::new("/ca.pem")));
        assert!(contexts.find("0123").is_some_and(|other| !other.protected && other.layout.is_none()));
        for nothing in ["", "# only a comment\n", "contexts: {}\n", "null\n"] {
            assert_eq!(parsed(nothing).unwrap(), Contexts::default(), "{nothing:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_by_line_and_field_and_never_by_its_password() {
        for (text, message, hint) in [
            ("contexts:\n  a: {url: 'h:1', layot: sku}\n", "c.yaml:2:19: a context: unknown field `layot`", "`layout`"),
            (
                "contexts:\n  a: {url: 'h:1', password: hush}\n",
                "2:19: a context: passwords are not kept",
                "password_file",
            ),
            ("contexts:\n  a: {url: 'redis://me:hush@h/x'}\n", "2:12: url: it is not the URL", "redis://"),
            ("contexts:\n  a: {url: ['redis://me:hush@h']}\n", "2:12: url: it is not the URL", "redis://"),
            ("contexts:\n  a: {}\n", "2:6: a context: `url` is missing", ""),
            ("contexts:\n  a: {url: 'h:1', cacert: ca}\n", "`a`: `cacert` is for TLS", ""),
            ("contexts:\n  a: {url: 'rediss://h', cert: c}\n", "`cert` and `key` are a pair", ""),
            (
                "contexts:\n  a: {url: 'redis://:hush@h', password_file: f}\n",
                "a password in the URL, `password_file` and",
                "",
            ),
            ("contexts:\n  a: {url: 'h:1', timezone: Mars}\n", "timezone: `Mars` is no known", "Asia/Shanghai"),
            ("contexts:\n  a: {url: 'h:1', protected: maybe}\n", "protected: `maybe` is not `true` or `false`", ""),
            ("contexts:\n  a b: {url: 'h:1'}\n", "2:3: contexts: `a b` is no name", ""),
            ("contexts: [a]\n", "1:11: contexts: expected a mapping", ""),
            ("curent: a\n", "1:1: the file: unknown field `curent`", "`current`"),
            ("a: b: c\n", "this is not YAML", ""),
        ] {
            let error = parsed(text).unwrap_err();
            let said = format!("{error} {}", error.hint.as_deref().unwrap_or_default());
            assert!(error.to_string().contains(message), "{text}: {error}");
            assert!(
                error.hint.as_deref().unwrap_or_default().contains(hint) && !said.contains("hush"),
                "{text}: {said}"
            );
        }
    }
}
