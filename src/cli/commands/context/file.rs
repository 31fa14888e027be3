//! The file of contexts, read and written.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_yaml::{Mapping, Value};

use crate::cli::args::config_file;
use crate::cli::failure::{Failure, Result};
use crate::cli::input::yaml::contexts::{self, Context, Contexts};
use crate::cli::output::PrivateFile;
use crate::model::layout::{CustomLayout, Layout};

const HEAD: &str =
    "# Contexts of seckill: see `seckill context --help`. It writes this file anew: comments are not kept.\n";

/// The contexts that there are.
pub(super) fn read() -> Result<Contexts> {
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
        let each = |context: &Context| Ok((Value::from(context.name.as_str()), Value::Mapping(stored(context)?)));
        let all = contexts.all.iter().map(each).collect::<Result<Mapping>>()?;
        let current = contexts.current.clone().map(Value::from);
        let document = mapping([("current", current), ("contexts", Some(Value::Mapping(all)))]);
        let text = serde_yaml::to_string(&document).context("cannot encode the contexts")?;
        self.locked.replace(&format!("{HEAD}{text}"))
    }
}

pub(super) fn path() -> Result<PathBuf> {
    config_file().ok_or_else(|| {
        Failure::usage("neither XDG_CONFIG_HOME nor HOME is set, so contexts have no place")
            .hint("set XDG_CONFIG_HOME to an absolute path")
    })
}

/// A context as the file has it.
fn stored(context: &Context) -> Result<Mapping> {
    let path = |path: &Option<PathBuf>| {
        let not_utf8 = |path: &Path| Failure::usage(format!("`{}` is not UTF-8: rename it", path.display()));
        path.as_deref().map(|path| path.to_str().map(Value::from).ok_or_else(|| not_utf8(path))).transpose()
    };
    let text = |text: &Option<String>| text.clone().map(Value::from);
    let (named, custom) = match context.layout {
        Some(Layout::Custom(custom)) => (None, Some(custom)),
        layout => (layout.map(|layout| Value::from(layout.name())), None),
    };
    let keys = |custom: &CustomLayout| {
        let participants = custom.participants().map(|pattern| Value::from(pattern.as_str()));
        mapping([("stock", Some(Value::from(custom.stock().as_str()))), ("participants", participants)])
    };
    Ok(mapping([
        ("url", Some(Value::from(context.url.as_str()))),
        ("password_file", path(&context.password_file)?),
        ("password_command", text(&context.password_command)),
        ("layout", named),
        ("kind", custom.map(|custom| Value::from(custom.kind().name()))),
        ("keys", custom.map(|custom| Value::Mapping(keys(custom)))),
        ("timezone", text(&context.timezone)),
        ("cacert", path(&context.cacert)?),
        ("cert", path(&context.cert)?),
        ("key", path(&context.key)?),
        ("protected", context.protected.then_some(Value::Bool(true))),
    ]))
}

/// A mapping of what is set.
fn mapping<const N: usize>(fields: [(&str, Option<Value>); N]) -> Mapping {
    fields.into_iter().filter_map(|(name, value)| Some((Value::from(name), value?))).collect()
}
