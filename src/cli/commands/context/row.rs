//! A context as it is shown: without a password.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::cli::input::contexts::Context;
use crate::cli::input::password::program;
use crate::cli::output::columns;
use crate::cli::output::{Cell, Tone};
use crate::model::layout::Layout;

#[derive(Debug, Serialize)]
pub struct ContextRow {
    name: String,
    /// Whether it is in use.
    current: bool,
    /// Without its password.
    url: String,
    layout: Option<Layout>,
    timezone: Option<String>,
    password_file: Option<String>,
    /// Only the program: the rest may be a secret.
    password_command: Option<String>,
    cacert: Option<String>,
    cert: Option<String>,
    key: Option<String>,
    protected: bool,
}

columns!(row: ContextRow {
    table "" => Cell::text(if row.current { "*" } else { "" }).tone(Tone::Good);
    name => Cell::text(&row.name).tone(Tone::Strong);
    data current;
    url => Cell::text(&row.url).flexible();
    layout => Cell::text(row.layout.map_or("", Layout::name));
    timezone => Cell::text(row.timezone.as_deref().unwrap_or_default());
    data password_file;
    data password_command;
    data cacert;
    data cert;
    data key;
    protected => Cell::text(if row.protected { "yes" } else { "" }).tone(Tone::Warn);
});

impl ContextRow {
    pub fn new(context: &Context, current: bool) -> Self {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        Self {
            name: context.name.clone(),
            current,
            url: context.target(Duration::ZERO).map(|target| target.shown).unwrap_or_default(),
            layout: context.layout,
            timezone: context.timezone.clone(),
            password_file: path(&context.password_file),
            password_command: context.password_command.as_deref().map(|command| match program(command) {
                whole if whole == command => whole.to_owned(),
                program => format!("{program} …"),
            }),
            cacert: path(&context.cacert),
            cert: path(&context.cert),
            key: path(&context.key),
            protected: context.protected,
        }
    }
}

/// A field of a context, a line of a table for people.
#[derive(Debug, Serialize)]
pub struct FieldRow {
    field: &'static str,
    value: String,
}

columns!(row: FieldRow {
    field => Cell::text(row.field).tone(Tone::Strong);
    value => Cell::text(&row.value).flexible();
});

impl FieldRow {
    /// The fields that are set.
    pub fn of(row: &ContextRow) -> Vec<Self> {
        let fields = [
            ("name", Some(row.name.clone())),
            ("current", row.current.then(|| "yes".to_owned())),
            ("url", Some(row.url.clone())),
            ("layout", row.layout.map(|layout| layout.name().to_owned())),
            ("timezone", row.timezone.clone()),
            ("password_file", row.password_file.clone()),
            ("password_command", row.password_command.clone()),
            ("cacert", row.cacert.clone()),
            ("cert", row.cert.clone()),
            ("key", row.key.clone()),
            ("protected", row.protected.then(|| "yes".to_owned())),
        ];
        fields.into_iter().filter_map(|(field, value)| Some(Self { field, value: value? })).collect()
    }
}
