//! Layouts as they are given: by name, or by what a shop calls its keys, in a file or in fields of a fixture or context.

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};

use crate::cli::failure::{Failure, Result};
use crate::cli::input::error::{Location, Problems, Reported, quoted};
use crate::cli::input::source::Source;
use crate::cli::input::yaml::Node;
use crate::cli::input::yaml::fields::{Context, Fields};
use crate::model::layout::{CustomLayout, Pattern};
use crate::model::{Kind, Layout};

/// What a file of a layout has; fixtures and contexts may have the same fields.
pub const FIELDS: [&str; 2] = ["kind", "keys"];
const KEYS: [&str; 2] = ["stock", "participants"];

/// What `--layout` and `SECKILL_LAYOUT` take, for errors.
pub const EXPECTED: &str =
    "expected seckill, sku, coupon, product, cluster, or a file such as shop.yaml with the keys of a shop";

/// Whether a text is the path of a file and no name: it has a `/`, or ends in `.yaml` or `.yml`.
pub fn is_file(text: &str) -> bool {
    text.contains('/') || text.ends_with(".yaml") || text.ends_with(".yml")
}

/// The layout of that name, or of the file of that name.
///
/// # Errors
/// It is neither, or the file cannot be read or has no layout.
pub fn given(text: &str) -> Result<Layout> {
    match Layout::named(text) {
        Some(layout) => Ok(layout),
        None if is_file(text) => read(text),
        None => Err(Failure::usage(format!("{} is no layout", quoted(text))).hint(EXPECTED)),
    }
}

/// Reads the value of `--layout`, a name or a path, and completes the names. The file is read when the layout is wanted.
#[derive(Clone)]
pub struct LayoutParser;

impl TypedValueParser for LayoutParser {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, clap::Error> {
        let check =
            |text: String| if is_file(&text) || Layout::named(&text).is_some() { Ok(text) } else { Err(EXPECTED) };
        StringValueParser::new().try_map(check).parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let named = Layout::NAMED.into_iter();
        Some(Box::new(named.map(|layout| PossibleValue::new(layout.name()).help(layout.purpose()))))
    }
}

/// The layout of a file.
fn read(path: &str) -> Result<Layout> {
    let source = Source::read(path)?;
    let mut context = Context { source: &source, problems: Problems::of(&source.name) };
    let layout = document(&mut context);
    context.problems.end()?;
    layout.map_err(|_| Failure::usage(format!("{} has no layout", quoted(path))))
}

fn document(context: &mut Context<'_>) -> Result<Layout, Reported> {
    let Some(node) = context.only_document("one layout in a file")? else {
        return Err(context.report(Location::START, "the file holds nothing, expected `kind:` and `keys:`"));
    };
    let fields = Fields::of(context, "the layout", &FIELDS, &node)?;
    fields.all_known()?;
    let found = layout(context, node.at, [None, fields.node("kind"), fields.node("keys")])?;
    found.ok_or_else(|| fields.missing(context, "keys", "the names of a shop's keys"))
}

/// The layout that the fields `layout`, `kind` and `keys` of something say; `None` if there is none of them.
pub fn layout(context: &mut Context<'_>, at: Location, fields: [Option<&Node>; 3]) -> Result<Option<Layout>, Reported> {
    let missing = |name: &str, other: &str, expected: &str| {
        format!("`{name}` is missing, which belongs to `{other}`, expected {expected}")
    };
    match fields {
        [None, None, None] => Ok(None),
        [Some(named), None, None] => context.scalar::<Layout>("layout", named).map(Some),
        [Some(_), Some(other), _] | [Some(_), None, Some(other)] => {
            let hint = "`kind` and `keys` are a layout of their own: leave `layout` out".to_owned();
            Err(context.report_with_hint(other.at, "a layout by name and by keys, expected one of them", hint))
        }
        [None, Some(_), None] => {
            Err(context.report(at, missing("keys", "kind", "a mapping of `stock` and `participants`")))
        }
        [None, None, Some(_)] => Err(context.report(at, missing("kind", "keys", Kind::EXPECTED))),
        [None, Some(kind), Some(keys)] => {
            let kind = context.scalar::<Kind>("kind", kind);
            let fields = Fields::of(context, "keys", &KEYS, keys)?;
            let stock = fields.required::<Pattern>(context, "stock");
            let participants = fields.optional::<Pattern>(context, "participants");
            fields.all_known()?;
            let layout = CustomLayout::new(kind?, stock?, participants?);
            layout
                .map(|custom| Some(Layout::Custom(custom)))
                .map_err(|why| context.report(keys.at, format!("keys: {why}")))
        }
    }
}
