//! A context as it is shown: without a password.

use std::path::PathBuf;
use std::time::Duration;

use crate::cli::input::credentials::program;
use crate::cli::input::yaml::contexts::Context;
use crate::cli::output::{Cell, Tone, row};
use crate::model::layout::Layout;

row! {
    pub(super) struct ContextRow as row from (context: &Context, current: bool) {
        table "" => Cell::text(if row.current { "*" } else { "" }).tone(Tone::Good);
        pub(super) name: String = context.name.clone() => Cell::text(&row.name).tone(Tone::Strong);
        /// Whether it is in use.
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
}

row! {
    /// A field of a context, a line of a table for people.
    pub(super) struct FieldRow as row {
        field: &'static str => Cell::text(row.field).tone(Tone::Strong);
        value: String, flexible;
    }
}

impl FieldRow {
    /// The fields that are set.
    pub(super) fn of(row: &ContextRow) -> Vec<Self> {
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
