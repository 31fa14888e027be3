//! Nodes as typed values: the fields of a mapping, each read by the rule of its type.

use std::rc::Rc;

use crate::cli::input::error::{Location, Problem, Problems, Reported, did_you_mean, listed, quoted};
use crate::cli::input::source::Source;
use crate::cli::input::window::WindowTime;
use crate::cli::input::yaml::{Node, Value, only_document};
use crate::model::layout::Pattern;
use crate::model::order::Reason;
use crate::model::{
    ActivityId, FieldChange, HoldFor, Kind, Layout, Limit, Quantity, RequestId, ShardCount, Units, UserId,
};

/// A value that is written as one text.
pub trait Scalar: Sized {
    /// What the text must be, for errors: `… is not` this.
    const EXPECTED: &'static str;
    /// The value, if the text keeps the rule. `plain`: it was written without quotes.
    fn of(text: &str, plain: bool) -> Option<Self>;
}

/// Declares types: what the text must be, and the value of a text that was written `plain` or not.
macro_rules! scalars {
    ($($type:ty: $expected:expr, |$text:ident, $plain:pat_param| $value:expr;)*) => {$(
        impl $crate::cli::input::yaml::fields::Scalar for $type {
            const EXPECTED: &'static str = $expected;
            fn of($text: &str, $plain: bool) -> Option<Self> {
                $value
            }
        }
    )*};
}

pub(super) use scalars;

// Names and times may have quotes; numbers may not.
scalars! {
    ActivityId: Self::EXPECTED, |text, _| text.parse().ok();
    UserId: Self::EXPECTED, |text, _| text.parse().ok();
    RequestId: Self::EXPECTED, |text, _| text.parse().ok();
    WindowTime: Self::EXPECTED, |text, _| text.parse().ok();
    HoldFor: Self::EXPECTED, |text, _| text.parse().ok();
    Pattern: Self::EXPECTED, |text, _| text.parse().ok();
    Kind: Self::EXPECTED, |text, _| Self::named(text);
    Layout: "one of `seckill`, `sku`, `coupon`, `product`, `cluster`", |text, _| Self::named(text);
    Units: Self::EXPECTED, |text, plain| text.parse().ok().filter(|_| plain);
    Quantity: Self::EXPECTED, |text, plain| text.parse().ok().filter(|_| plain);
    Limit: Self::EXPECTED, |text, plain| text.parse().ok().filter(|_| plain);
    ShardCount: Self::EXPECTED, |text, plain| text.parse().ok().filter(|_| plain);
    bool: "`true` or `false`", |text, plain| text.parse().ok().filter(|_| plain);
    Reason: Self::EXPECTED, |text, plain| text.parse().ok().filter(|_| !(plain && is_null(text)));
    // Free text, such as a title. It must say something: an empty one is a forgotten one.
    String: "a text", |text, plain| Some(text.to_owned()).filter(|_| !(text.is_empty() || plain && is_null(text)));
}

/// What a plain scalar says that wants to be nothing. An id may be called so: `null` is as good as `no`.
fn is_null(text: &str) -> bool {
    matches!(text, "~" | "null" | "Null" | "NULL")
}

/// What everything that is read needs: the text for excerpts, and where problems are reported.
pub struct Context<'a> {
    pub source: &'a Source,
    pub problems: Problems,
}

impl Context<'_> {
    /// The only document, read whole; `None` if there is none. `expected` says what a file has one of.
    pub fn only_document(&mut self, expected: &str) -> Result<Option<Rc<Node>>, Reported> {
        only_document(&self.source.text, expected).map_err(|problem| self.problems.report(problem))
    }

    pub fn report(&mut self, at: Location, message: impl Into<String>) -> Reported {
        self.problems.report(Problem::new(at, message))
    }

    pub fn report_with_hint(
        &mut self,
        at: Location,
        message: impl Into<String>,
        hint: impl Into<Option<String>>,
    ) -> Reported {
        self.problems.report(Problem::new(at, message).hint(hint))
    }

    pub fn wrong_kind(&mut self, name: &str, node: &Node, expected: &str) -> Reported {
        if node.text() == Some("") {
            return self.report(node.at, format!("{name}: has no value, expected {expected}"));
        }
        let excerpt = self.excerpt(node.at);
        self.report(node.at, format!("{name}: {excerpt} is {}, expected {expected}", node.kind()))
    }

    /// The text at a location. Looking it up takes time, so nobody does for what will not be shown.
    pub fn excerpt(&self, at: Location) -> String {
        if self.problems.is_full() { String::new() } else { self.source.excerpt(at) }
    }

    /// A node as a value; `name` says what it is to be.
    pub fn scalar<T: Scalar>(&mut self, name: &str, node: &Node) -> Result<T, Reported> {
        let Value::Scalar { text, plain } = &node.value else {
            return Err(self.wrong_kind(name, node, T::EXPECTED));
        };
        if let Some(value) = T::of(text, *plain) {
            return Ok(value);
        }
        if *plain && text.is_empty() {
            return Err(self.report(node.at, format!("{name}: has no value, expected {}", T::EXPECTED)));
        }
        let hint = if !plain && T::of(text, true).is_some() {
            Some(format!("write {} without quotes", quoted(text)))
        } else if *plain && is_null(text) {
            Some(format!("give `{name}` a value, or leave it out"))
        } else {
            None
        };
        let shown = if *plain { quoted(text) } else { quoted(&format!("\"{text}\"")) };
        Err(self.report_with_hint(node.at, format!("{name}: {shown} is not {}", T::EXPECTED), hint))
    }

    /// The word of a list that a node says.
    pub fn word(&mut self, name: &str, node: &Node, known: &[&'static str]) -> Result<&'static str, Reported> {
        let expected = format!("one of {}", listed(known));
        let Some(text) = node.text() else {
            return Err(self.wrong_kind(name, node, &expected));
        };
        match known.iter().find(|word| **word == text) {
            Some(word) => Ok(word),
            None => {
                let message = format!("{name}: {} is not {expected}", quoted(text));
                Err(self.report_with_hint(node.at, message, did_you_mean(text, known)))
            }
        }
    }
}

/// The fields of one mapping: each known, none twice.
pub(super) struct Fields<'n> {
    pub at: Location,
    what: &'static str,
    entries: Vec<(&'n str, &'n Node)>,
    /// A field was misspelt or given twice, which may be why another seems to be missing.
    reported: Option<Reported>,
}

impl<'n> Fields<'n> {
    /// Reads a mapping; reports what is no field of `what` and what is given twice.
    pub(super) fn of(
        context: &mut Context,
        what: &'static str,
        known: &[&str],
        node: &'n Node,
    ) -> Result<Self, Reported> {
        let Value::Mapping(mapping) = &node.value else {
            let expected = format!("a mapping of {}", listed(known));
            return Err(context.wrong_kind(what, node, &expected));
        };
        let mut fields = Self { at: node.at, what, entries: Vec::with_capacity(mapping.len()), reported: None };
        for (name, at, value) in distinct(context, what, mapping) {
            if known.contains(&name) {
                fields.entries.push((name, value));
            } else {
                fields.reported = Some(unknown_field(context, what, known, name, at));
            }
        }
        Ok(fields)
    }

    pub(super) fn node(&self, name: &str) -> Option<&'n Node> {
        self.entries.iter().find(|(known, _)| *known == name).map(|(_, node)| *node)
    }

    /// Where a field is; if it is absent, where the mapping is.
    pub(super) fn at(&self, name: &str) -> Location {
        self.node(name).map_or(self.at, |node| node.at)
    }

    /// The value of a field that may be absent.
    pub(super) fn optional<T: Scalar>(&self, context: &mut Context, name: &str) -> Result<Option<T>, Reported> {
        self.node(name).map(|node| context.scalar(name, node)).transpose()
    }

    /// What becomes of a field that `null` clears.
    pub(super) fn clearable<T: Scalar>(&self, context: &mut Context, name: &str) -> Result<FieldChange<T>, Reported> {
        match self.node(name).map(|node| (node, &node.value)) {
            None => Ok(FieldChange::Keep),
            Some((_, Value::Scalar { text, plain: true })) if is_null(text) => Ok(FieldChange::Clear),
            Some((node, Value::Scalar { text, plain: true })) if text == "none" => {
                let message = format!("{name}: `none` is not {}", T::EXPECTED);
                Err(context.report_with_hint(node.at, message, format!("write `{name}: null` for none")))
            }
            Some((node, _)) => context.scalar(name, node).map(FieldChange::Set),
        }
    }

    /// The value of a field that must be there.
    pub(super) fn required<T: Scalar>(&self, context: &mut Context, name: &str) -> Result<T, Reported> {
        self.optional(context, name)?.ok_or_else(|| self.missing(context, name, T::EXPECTED))
    }

    /// Reports a field that must be there and is not.
    pub(super) fn given<T: Scalar>(&self, context: &mut Context, name: &str) -> Result<(), Reported> {
        self.node(name).map(|_| ()).ok_or_else(|| self.missing(context, name, T::EXPECTED))
    }

    /// Reports that a field is missing, unless it may only be misspelt.
    pub(super) fn missing(&self, context: &mut Context, name: &str, expected: &str) -> Reported {
        self.reported.unwrap_or_else(|| {
            context.report(self.at, format!("{}: `{name}` is missing, expected {expected}", self.what))
        })
    }

    /// Fails if an unknown field was given.
    pub(super) fn all_known(&self) -> Result<(), Reported> {
        self.reported.map_or(Ok(()), Err)
    }
}

/// The entries of a mapping whose keys are single values, each key once; reports all others.
pub(super) fn distinct<'n>(
    context: &mut Context,
    what: &str,
    mapping: &'n [(Rc<Node>, Rc<Node>)],
) -> Vec<(&'n str, Location, &'n Node)> {
    let mut seen: std::collections::HashMap<&str, Location> = std::collections::HashMap::with_capacity(mapping.len());
    let mut entries = Vec::with_capacity(mapping.len());
    for (key, value) in mapping {
        let Some(name) = key.text() else {
            context.wrong_kind(what, key, "the name of a field");
            continue;
        };
        if let Some(first) = seen.get(name) {
            let message = format!("{what}: {} is given twice, first in line {}", quoted(name), first.line);
            context.report(key.at, message);
            continue;
        }
        seen.insert(name, key.at);
        entries.push((name, key.at, value.as_ref()));
    }
    entries
}

pub(super) fn unknown_field(context: &mut Context, what: &str, known: &[&str], name: &str, at: Location) -> Reported {
    let hint = match name {
        "<<" => Some("merge keys are not followed; write the fields out".to_owned()),
        _ => did_you_mean(name, known),
    };
    context.report_with_hint(
        at,
        format!("{what}: unknown field {}, expected one of {}", quoted(name), listed(known)),
        hint,
    )
}
