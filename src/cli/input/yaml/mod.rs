//! YAML as a tree of texts: what was written, and where, before anything is made a number or a date.
//!
//! serde_yaml turns `0123` and `no` into other values, stops at the first mistake and does not say where a
//! field was given twice. So the events of a parser become nodes here, and `fields` reads them.

pub mod contexts;
mod fields;
pub mod fixture;
pub mod layouts;

use std::collections::HashMap;
use std::rc::Rc;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput};

use crate::cli::input::error::{Location, Problem, quoted};

/// How deep a document may be nested; fixtures need five levels.
const DEEPEST: usize = 32;

/// How many nodes aliases may expand to in total: a few lines of them can otherwise mean billions.
const MAX_ALIASED: usize = 1_000_000;

/// One value of a document.
#[derive(Debug)]
pub struct Node {
    pub at: Location,
    pub value: Value,
    /// How many nodes it is, itself included.
    size: usize,
}

#[derive(Debug)]
pub enum Value {
    /// A text, and whether it was written without quotes.
    Scalar {
        text: String,
        /// Without quotes, and no block text either.
        plain: bool,
    },
    List(Vec<Rc<Node>>),
    /// Keys and values, in the order of the file, duplicates included.
    Mapping(Vec<(Rc<Node>, Rc<Node>)>),
}

impl Node {
    pub fn kind(&self) -> &'static str {
        match self.value {
            Value::Scalar { .. } => "a single value",
            Value::List(_) => "a list",
            Value::Mapping(_) => "a mapping",
        }
    }

    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }
}

/// What comes next in a document.
pub enum Next {
    Mapping(Location),
    List(Location),
    /// Anything else, read whole.
    Node(Rc<Node>),
    /// The list, mapping or stream that was begun is over.
    End(Location),
}

/// Reads a document piece by piece, so that a list of a million items is never in memory whole.
pub struct Reader<'a> {
    parser: Parser<'a, StrInput<'a>>,
    anchors: HashMap<usize, Rc<Node>>,
    aliased: usize,
}

impl<'a> Reader<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { parser: Parser::new_from_str(text), anchors: HashMap::new(), aliased: 0 }
    }

    /// Steps into what comes next, leaving the inside of a list or a mapping unread.
    pub fn enter(&mut self) -> Result<Next, Problem> {
        let (event, at) = self.event()?;
        Ok(match event {
            Event::MappingStart(..) => Next::Mapping(at),
            Event::SequenceStart(..) => Next::List(at),
            Event::MappingEnd | Event::SequenceEnd | Event::StreamEnd => Next::End(at),
            _ => Next::Node(self.whole(event, at, 0)?),
        })
    }

    /// The next node, read whole; `None` at the end of the list or mapping.
    pub fn node(&mut self) -> Result<Option<Rc<Node>>, Problem> {
        self.nested(0)
    }

    /// The rest of a list or mapping that was entered, passed over.
    pub fn skip_rest(&mut self) -> Result<(), Problem> {
        while self.node()?.is_some() {}
        Ok(())
    }

    fn nested(&mut self, depth: usize) -> Result<Option<Rc<Node>>, Problem> {
        let (event, at) = self.event()?;
        match event {
            Event::MappingEnd | Event::SequenceEnd | Event::StreamEnd => Ok(None),
            event => self.whole(event, at, depth).map(Some),
        }
    }

    /// The node that begins with an event.
    fn whole(&mut self, event: Event<'a>, at: Location, depth: usize) -> Result<Rc<Node>, Problem> {
        if depth > DEEPEST {
            return Err(Problem::new(at, format!("nested deeper than {DEEPEST} levels")));
        }
        let (anchor, tag, value) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                (anchor, tag, Value::Scalar { text: text.into_owned(), plain: style == ScalarStyle::Plain })
            }
            Event::SequenceStart(anchor, tag) => {
                let mut items = Vec::new();
                while let Some(item) = self.nested(depth + 1)? {
                    items.push(item);
                }
                (anchor, tag, Value::List(items))
            }
            Event::MappingStart(anchor, tag) => {
                let mut entries = Vec::new();
                while let Some(key) = self.nested(depth + 1)? {
                    let Some(value) = self.nested(depth + 1)? else { break };
                    entries.push((key, value));
                }
                (anchor, tag, Value::Mapping(entries))
            }
            Event::Alias(anchor) => return self.aliased(anchor, at),
            _ => return Err(Problem::new(at, "not a value")),
        };
        if let Some(tag) = tag {
            let handle = if tag.is_yaml_core_schema() { "!!" } else { &tag.handle };
            let message = format!("tag {} has no meaning here", quoted(&format!("{handle}{}", tag.suffix)));
            return Err(Problem::new(at, message)
                .hint("write the value without it; ids are kept exactly as written".to_owned()));
        }
        let size = 1 + match &value {
            Value::Scalar { .. } => 0,
            Value::List(items) => items.iter().map(|item| item.size).sum(),
            Value::Mapping(entries) => entries.iter().map(|(key, value)| key.size + value.size).sum(),
        };
        let node = Rc::new(Node { at, value, size });
        // The parser counts anchors from 1.
        if anchor > 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        Ok(node)
    }

    /// The node that an alias refers to. It is shared, not copied.
    fn aliased(&mut self, anchor: usize, at: Location) -> Result<Rc<Node>, Problem> {
        let Some(node) = self.anchors.get(&anchor) else {
            return Err(Problem::new(
                at,
                "this alias stands for something it is itself a part of, or for a whole section",
            ));
        };
        self.aliased = self.aliased.saturating_add(node.size);
        if self.aliased > MAX_ALIASED {
            return Err(Problem::new(at, format!("aliases stand for more than {MAX_ALIASED} values")));
        }
        Ok(Rc::clone(node))
    }

    /// The next event that matters, and where it begins.
    fn event(&mut self) -> Result<(Event<'a>, Location), Problem> {
        loop {
            match self.parser.next_event() {
                Some(Ok((Event::StreamStart | Event::DocumentEnd | Event::Nothing, _))) => {}
                Some(Ok((event, span))) => return Ok((event, begin(span))),
                Some(Err(error)) => return Err(syntax(&error)),
                None => return Ok((Event::StreamEnd, Location::START)),
            }
        }
    }

    /// Begins the next document; `None` if there is none.
    pub fn document(&mut self) -> Result<Option<Location>, Problem> {
        match self.event()? {
            (Event::DocumentStart(_), at) => Ok(Some(at)),
            _ => Ok(None),
        }
    }
}

/// The only document of a text, read whole; `None` if there is none. `expected` says what a file has one of.
fn only_document(text: &str, expected: &str) -> Result<Option<Rc<Node>>, Problem> {
    let mut reader = Reader::new(text);
    if reader.document()?.is_none() {
        return Ok(None);
    }
    let node = reader.node()?;
    match reader.document()? {
        Some(at) => Err(Problem::new(at, format!("a second document begins, expected {expected}"))),
        None => Ok(node),
    }
}

fn begin(span: Span) -> Location {
    Location { line: span.start.line(), column: span.start.col() + 1 }
}

fn syntax(error: &ScanError) -> Problem {
    let at = Location { line: error.marker().line(), column: error.marker().col() + 1 };
    let hint = error.info().contains("tab").then(|| "indent with spaces".to_owned());
    Problem::new(at, format!("this is not YAML: {}", error.info())).hint(hint)
}
