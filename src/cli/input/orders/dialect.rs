//! The form of an input, and how it is recognised.

use std::path::Path;
use std::str::FromStr;

use crate::cli::failure::Failure;
use crate::names;

names! {
    /// The form of an input.
    #[derive(clap::ValueEnum)]
    pub enum Dialect {
        /// Comma separated, with a header
        Csv = "csv",
        /// Tab separated, with a header
        Tsv = "tsv",
        /// One JSON object a line
        Jsonl = "jsonl",
        /// What `mysql --batch` prints: tabs, backslash escapes, NULL
        Mysql = "mysql",
    }
}

/// What separates the values of csv.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delimiter(u8);

impl Delimiter {
    const COMMA: Self = Self(b',');
    const TAB: Self = Self(b'\t');

    pub fn get(self) -> u8 {
        self.0
    }
}

impl FromStr for Delimiter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.as_bytes() {
            b"\\t" => Ok(Self::TAB),
            [byte] if byte.is_ascii() && !byte.is_ascii_alphanumeric() && !b"\"\r\n\0".contains(byte) => {
                Ok(Self(*byte))
            }
            _ => Err("expected one ASCII character such as `;`, no letter, digit or quote; `\\t` is a tab".to_owned()),
        }
    }
}

/// The form that the caller gives: `--format` and `--delimiter`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RowFormat {
    /// The form; by name and first line, if it is not given.
    pub dialect: Option<Dialect>,
    /// The delimiter, of csv only.
    pub delimiter: Option<Delimiter>,
}

impl RowFormat {
    /// The form of an input, and its delimiter.
    ///
    /// # Errors
    /// Usage: a delimiter is given, and this is not csv.
    pub fn of(self, name: &str, first_line: &[u8]) -> Result<(Dialect, Delimiter), Failure> {
        let named = self.dialect.or_else(|| Dialect::of_name(name));
        match (named, self.delimiter) {
            (None | Some(Dialect::Csv), Some(delimiter)) => Ok((Dialect::Csv, delimiter)),
            (Some(other), Some(_)) => {
                Err(Failure::usage(format!("`--delimiter` is for csv, and this is {}", other.name()))
                    .hint("give `--format csv` too if it is csv, or leave `--delimiter` out"))
            }
            (named, None) => {
                let dialect = named.unwrap_or_else(|| Dialect::of_first_line(first_line));
                Ok((dialect, if dialect == Dialect::Tsv { Delimiter::TAB } else { Delimiter::COMMA }))
            }
        }
    }
}

impl Dialect {
    /// Its name in the digest of a job. It is stored: another name would apply a file a second time.
    pub fn stored_name(self) -> &'static str {
        match self {
            Self::Csv => "Csv",
            Self::Tsv => "Tsv",
            Self::Jsonl => "Jsonl",
            Self::Mysql => "Mysql",
        }
    }

    /// What the name of a file says.
    fn of_name(name: &str) -> Option<Self> {
        let extension = Path::new(name).extension().map(|it| it.to_string_lossy().to_ascii_lowercase());
        match extension.as_deref() {
            Some("csv") => Some(Self::Csv),
            Some("tsv" | "tab") => Some(Self::Tsv),
            Some("jsonl" | "ndjson") => Some(Self::Jsonl),
            _ => None,
        }
    }

    /// What the first line looks like.
    fn of_first_line(line: &[u8]) -> Self {
        match line {
            _ if line.trim_ascii_start().starts_with(b"{") => Self::Jsonl,
            _ if line.contains(&b'\t') && !line.contains(&b',') => Self::Tsv,
            _ => Self::Csv,
        }
    }
}
