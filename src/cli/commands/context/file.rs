//! The file of contexts, read and written.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Serialize;
use serde_yaml::{Mapping, Value};

use crate::cli::args::config_file;
use crate::cli::error::Result;
use crate::cli::failure::Failure;
use crate::cli::input::yaml::contexts::{self, Context, Contexts};
use crate::cli::output::PrivateFile;
use crate::model::layout::{Layout, Pattern};

const HEAD: &str =
    "# Contexts of seckill: see `seckill context --help`. It writes this file anew: comments are not kept.\n";

/// The contexts that there are.
pub(super) fn read() -> Result<Contexts, Failure> {
    Ok(contexts::read(&path()?)?.unwrap_or_default())
}

/// The file, while nobody else changes it.
pub(super) struct ContextFile {
    path: PathBuf,
    locked: PrivateFile,
}

impl ContextFile {
    pub(super) fn lock() -> Result<Self> {
        let path = path()?;
        Ok(Self { locked: PrivateFile::lock(&path)?, path })
    }

    pub(super) fn shown(&self) -> String {
        self.path.display().to_string()
    }

    pub(super) fn read(&self) -> Result<Contexts> {
        Ok(contexts::read(&self.path)?.unwrap_or_default())
    }

    pub(super) fn write(&self, contexts: &Contexts) -> Result<()> {
        let mut all = Mapping::new();
        for context in &contexts.all {
            let stored = serde_yaml::to_value(Stored::of(context)?).context("cannot encode a context")?;
            all.insert(Value::String(context.name.clone()), stored);
        }
        let document = Document { current: contexts.current.as_deref(), contexts: all };
        let text = serde_yaml::to_string(&document).context("cannot encode the contexts")?;
        Ok(self.locked.replace(&format!("{HEAD}{text}"))?)
    }
}

pub(super) fn path() -> Result<PathBuf, Failure> {
    config_file().ok_or_else(|| {
        Failure::usage("neither XDG_CONFIG_HOME nor HOME is set, so contexts have no place")
            .hint("set XDG_CONFIG_HOME to an absolute path")
    })
}

#[derive(Serialize)]
struct Document<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<&'a str>,
    contexts: Mapping,
}

/// A context as the file has it: what is not set is left out.
#[derive(Serialize)]
struct Stored<'a> {
    url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    password_file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    password_command: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    layout: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<StoredKeys<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timezone: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cacert: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cert: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    protected: bool,
}

/// The keys of a custom layout.
#[derive(Serialize)]
struct StoredKeys<'a> {
    stock: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    participants: Option<&'a str>,
}

impl<'a> Stored<'a> {
    fn of(context: &'a Context) -> Result<Self, Failure> {
        let path = |path: &'a Option<PathBuf>| {
            let text = |path: &'a Path| {
                let not_utf8 = || Failure::usage(format!("`{}` is not UTF-8: rename it", path.display()));
                path.to_str().ok_or_else(not_utf8)
            };
            path.as_deref().map(text).transpose()
        };
        let custom = match context.layout {
            Some(Layout::Custom(custom)) => Some(custom),
            _ => None,
        };
        Ok(Self {
            url: &context.url,
            password_file: path(&context.password_file)?,
            password_command: context.password_command.as_deref(),
            layout: context.layout.filter(|_| custom.is_none()).map(Layout::name),
            kind: custom.map(|custom| custom.kind().name()),
            keys: custom.map(|custom| StoredKeys {
                stock: custom.stock().as_str(),
                participants: custom.participants().map(Pattern::as_str),
            }),
            timezone: context.timezone.as_deref(),
            cacert: path(&context.cacert)?,
            cert: path(&context.cert)?,
            key: path(&context.key)?,
            protected: context.protected,
        })
    }
}
