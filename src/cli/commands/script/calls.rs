//! A call of a script in the language of a backend. A template a language, in which keys, arguments and codes are
//! filled in from where they are defined: `Keys`, and the script's header.
//!
//! In a template `«name»` is replaced by a value. Lines that begin with `%` are instructions: `%arg NAME = CODE` is what the
//! language writes for an argument; what is between `%if WORD`, `%else` and `%end` is for the script of that name, for
//! `one` activity or `multi`, or for an `order`, which `settle` is not; what is between `%codes` and `%end` is repeated for
//! each code.

use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};

use crate::model::{ActivityId, Layout};
use crate::script::keys::Keys;
use crate::script::{Code, DEDUCT, Script};

/// A language, with its client library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Language {
    JavaJedis,
    JavaSpring,
    Php,
    Go,
    Node,
    Python,
}

/// Stands for an activity in the patterns of keys.
const PLACEHOLDER: &str = "<id>";

/// The script whose call is that of a sharded activity: with all scripts that this takes.
pub(super) const BORROW: &str = "borrow";

/// What is done, for scripts that a backend may call: a sentence without its full stop.
pub(super) fn purpose(script: &str) -> Option<&'static str> {
    match script {
        "deduct" => Some("Takes units of one activity for a user"),
        "refund" => Some("Gives units of one activity back for a user"),
        "multi_deduct" => Some("Takes units of several activities for a user, all or nothing"),
        "hold" => Some("Takes units of one activity for a user until a deadline"),
        "settle" => Some("Confirms or releases a hold of one activity"),
        BORROW => Some("Takes units of a sharded activity for a user, and borrows what the user's shard lacks"),
        _ => None,
    }
}

impl Language {
    /// The template, and the one for a sharded activity; `None` in a language for which nobody wrote it.
    fn templates(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::JavaJedis => {
                (include_str!("calls/java_jedis.txt"), Some(include_str!("calls/sharded_java_jedis.txt")))
            }
            Self::JavaSpring => (include_str!("calls/java_spring.txt"), None),
            Self::Php => (include_str!("calls/php.txt"), None),
            Self::Go => (include_str!("calls/go.txt"), Some(include_str!("calls/sharded_go.txt"))),
            Self::Node => (include_str!("calls/node.txt"), None),
            Self::Python => (include_str!("calls/python.txt"), Some(include_str!("calls/sharded_python.txt"))),
        }
    }

    /// Whether it can print the call of a script.
    pub fn knows(self, script: &str) -> bool {
        script != BORROW || self.templates().1.is_some()
    }

    /// The key of the activity in a variable `activity`, of whose id the pattern has `before` and `after`.
    fn key(self, before: &str, after: &str) -> String {
        let (name, joint) = if self == Self::Php { ("$activity", '.') } else { ("activity", '+') };
        let quote = if self == Self::Php { '\'' } else { '"' };
        // Keys of a shop may have any of these.
        let escaped = |text: &str| {
            let text = text.replace('\\', r"\\");
            match self {
                Self::Php => text.replace('\'', r"\'"),
                Self::Node => text.replace('`', r"\`").replace("${", r"\${"),
                _ => text.replace('"', r#"\""#),
            }
        };
        let (before, after) = (escaped(before), escaped(after));
        match self {
            Self::Python => {
                let braces = |text: &str| text.replace('{', "{{").replace('}', "}}");
                format!("f\"{}{{activity}}{}\"", braces(&before), braces(&after))
            }
            Self::Node => format!("`{before}${{activity}}{after}`"),
            _ if after.is_empty() => format!("{quote}{before}{quote} {joint} {name}"),
            _ => format!("{quote}{before}{quote} {joint} {name} {joint} {quote}{after}{quote}"),
        }
    }
}

/// Whether a name ends no comment and begins no escape, in any language.
fn is_text(name: &str) -> bool {
    !name.contains(['\\', '"', '*'])
}

/// The last argument that a call of one order gives: others may be left out.
fn last_argument(script: &str) -> Option<&'static str> {
    match script {
        "multi_deduct" => None,
        "hold" => Some("duration"),
        "settle" => Some("step"),
        _ => Some("mode"),
    }
}

/// The call of a script, for which there is a [`purpose`], in a layout.
pub(super) fn call(language: Language, script: &Script, layout: Layout) -> Result<String> {
    let purpose = purpose(script.name).context("a script for backends")?;
    let is_sharded = script.name == BORROW;
    // Only this layout has shards.
    let layout = if is_sharded { Layout::Cluster } else { layout };
    let activity: ActivityId = PLACEHOLDER.parse()?;
    let keys = Keys::of(layout, &activity);
    let keys: Vec<&str> = if script.knows_holds() { keys.all().collect() } else { keys.in_order().collect() };
    let keys = keys.into_iter().map(|key| {
        let (before, after) = key.split_once(PLACEHOLDER).unwrap_or((key, ""));
        language.key(before, after)
    });
    let mut facts = Facts {
        keys: keys.collect(),
        codes: if is_sharded { DEDUCT.of(layout.kind()).codes() } else { script.codes() },
        words: match script.name {
            "multi_deduct" => vec!["multi_deduct", "multi", "order"],
            "settle" => vec!["settle", "one"],
            BORROW => vec![BORROW, "one"],
            name => vec![name, "one", "order"],
        },
        values: Vec::new(),
    };
    // The script is that of the kind, so that it is printed by a layout with a name.
    let named =
        Layout::NAMED.into_iter().find(|named| named.kind() == layout.kind()).context("a layout of each kind")?;
    let values = [
        ("purpose", purpose.to_owned()),
        ("purpose_lower", format!("{}{}", purpose[..1].to_lowercase(), &purpose[1..])),
        ("script", script.name.to_owned()),
        ("taken", if script.name == "refund" { "given back" } else { "taken" }.to_owned()),
        ("Script", pascal(script.name)),
        ("function", camel(script.name)),
        ("package", script.name.replace('_', "")),
        ("layout", if is_text(layout.name()) { layout.name() } else { "of a file" }.to_owned()),
        ("of_layout", if named == Layout::Seckill { String::new() } else { format!(" -l {}", named.name()) }),
        ("kind", layout.kind().name().to_owned()),
    ];
    facts.values.extend(values);
    let (template, sharded) = language.templates();
    let template = match is_sharded {
        true => sharded.context("a language that knows shards")?.to_owned(),
        false => facts.read_arguments(template, script)?,
    };
    let mut text = String::new();
    let ended = facts.render(&mut template.lines(), true, &mut text)?;
    ensure!(ended.is_none(), "the template for {language:?} has a block that does not begin");
    ensure!(!text.contains(['«', '»']), "the template for {language:?} has an unknown value");
    Ok(text)
}

struct Facts<'a> {
    keys: Vec<String>,
    codes: Vec<Code>,
    /// What `%if` is true for.
    words: Vec<&'a str>,
    values: Vec<(&'static str, String)>,
}

impl Facts<'_> {
    /// Takes the lines `%arg NAME = CODE`, and returns the others.
    fn read_arguments(&mut self, template: &str, script: &Script) -> Result<String> {
        let (mut rest, mut expressions) = (String::new(), Vec::new());
        for line in template.lines() {
            match line.strip_prefix("%arg ").and_then(|line| line.split_once(" = ")) {
                Some((name, code)) => expressions.push((name, self.filled(code))),
                None => writeln!(rest, "{line}")?,
            }
        }
        // The quantities of several come last.
        let names = script.arguments();
        let last = last_argument(script.name);
        let count = last.map_or(Some(names.len()), |last| names.iter().position(|name| *name == last).map(|at| at + 1));
        let count = count.context("an argument that the header does not name")?;
        let arguments = names[..count].iter().map(|name| {
            let found = expressions.iter().find(|(known, _)| known == name);
            found.map(|(_, code)| code.clone()).with_context(|| format!("no `%arg {name}`"))
        });
        let arguments = arguments.collect::<Result<Vec<_>>>()?.join(", ");
        self.values.push(("args", arguments));
        Ok(rest)
    }

    fn filled(&self, line: &str) -> String {
        self.values.iter().fold(line.to_owned(), |line, (name, value)| line.replace(&format!("«{name}»"), value))
    }

    /// Adds lines, unless they are not wanted, up to the `%else` or `%end` of the block that they are in, which it gives.
    fn render<'t, I: Iterator<Item = &'t str>>(
        &self,
        lines: &mut I,
        is_wanted: bool,
        text: &mut String,
    ) -> Result<Option<&'t str>> {
        while let Some(line) = lines.next() {
            if let Some(word) = line.strip_prefix("%if ") {
                let is_true = self.words.contains(&word);
                let mut ended = self.render(lines, is_wanted && is_true, text)?;
                if ended == Some("%else") {
                    ended = self.render(lines, is_wanted && !is_true, text)?;
                }
                ensure!(ended == Some("%end"), "a template lacks an `%end`");
                continue;
            }
            match line {
                "%else" | "%end" => return Ok(Some(line)),
                "%codes" => {
                    let repeated: Vec<&str> = lines.take_while(|line| *line != "%end").collect();
                    text.push_str(&if is_wanted { self.codes(&repeated)? } else { String::new() });
                }
                _ if is_wanted => self.line(line, text)?,
                _ => {}
            }
        }
        Ok(None)
    }

    fn line(&self, line: &str, text: &mut String) -> Result<()> {
        let keys = line.trim_start();
        if !matches!(keys, "«keys»" | "«keys_open»") {
            return Ok(writeln!(text, "{}", self.filled(line))?);
        }
        let indent = &line[..line.len() - keys.len()];
        for (index, key) in self.keys.iter().enumerate() {
            // A call in Java may not end with a comma.
            let is_last = keys == "«keys_open»" && index + 1 == self.keys.len();
            writeln!(text, "{indent}{key}{}", if is_last { "" } else { "," })?;
        }
        Ok(())
    }

    fn codes(&self, lines: &[&str]) -> Result<String> {
        let mut text = String::new();
        let widest = self.codes.iter().map(|code| pascal(code.name).len()).max().unwrap_or(0);
        let digits = self.codes.iter().map(|code| code.code.to_string().len()).max().unwrap_or(0);
        for (index, code) in self.codes.iter().enumerate() {
            let number = code.code.to_string();
            for line in lines {
                let line = line
                    .replace("«NAME»", &code.name.to_uppercase())
                    .replace("«name»", code.name)
                    .replace("«Name»", &pascal(code.name))
                    .replace("«Name_»", &format!("{:widest$}", pascal(code.name)))
                    .replace("«code»", &number)
                    .replace("«code_»", &format!("{number:digits$}"))
                    .replace("«meaning»", code.meaning)
                    .replace("«meaning_doc»", &capitalized(code.meaning))
                    .replace("«separator»", if index + 1 == self.codes.len() { ";" } else { "," });
                writeln!(text, "{}", self.filled(&line))?;
            }
        }
        Ok(text)
    }
}

/// `out_of_stock` as `OutOfStock`.
fn pascal(name: &str) -> String {
    name.split('_').map(capitalized).collect()
}

/// `multi_deduct` as `multiDeduct`.
fn camel(name: &str) -> String {
    let (first, rest) = name.split_once('_').unwrap_or((name, ""));
    format!("{first}{}", pascal(rest))
}

fn capitalized(text: &str) -> String {
    let first = text.chars().next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(text.chars().skip(1)).collect()
}
