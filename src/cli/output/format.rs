//! The forms in which a result can be printed.

/// How results are printed. Field names and order are the same in all but `table`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Format {
    /// For people: aligned, cut to the terminal's width
    #[default]
    Table,
    /// One JSON value, an object or an array
    Json,
    /// One JSON object a line
    Jsonl,
    /// Comma separated, with a header
    Csv,
    /// Tab separated, with a header
    Tsv,
    /// One YAML document
    Yaml,
}

impl Format {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Json => "json",
            Self::Jsonl => "jsonl",
            Self::Csv => "csv",
            Self::Tsv => "tsv",
            Self::Yaml => "yaml",
        }
    }

    /// Whether a value may hold other values, so that errors can be objects too.
    pub fn is_nested(self) -> bool {
        matches!(self, Self::Json | Self::Jsonl | Self::Yaml)
    }
}
