//! A writer of SVG: elements, attributes and text, escaped. No scripts, no fonts, nothing from elsewhere.

use std::borrow::Cow;
use std::fmt::{Display, Write};

use crate::cli::output::text::{cut, escape, replaced, width};

/// The width of a character that takes one column of a terminal, as a part of the font's size: that of a digit and of most
/// letters of sans-serif fonts, or more.
const COLUMN: f64 = 0.58;

/// A picture being written.
#[derive(Debug)]
pub struct Svg {
    text: String,
}

/// A name and a value.
pub type Attribute<'a> = (&'a str, &'a dyn Display);

/// A number of pixels with two digits at most.
#[derive(Debug, Clone, Copy)]
pub struct Px(pub f64);

impl Display for Px {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without a minus before a zero.
        let text = format!("{:.2}", (self.0 * 100.0).round() / 100.0 + 0.0);
        formatter.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

impl Svg {
    /// Begins a picture of that size, with a title and a description for who cannot see it.
    pub fn new(size: (f64, f64), title: &str, description: &str, style: &str) -> Self {
        let (wide, high) = (Px(size.0), Px(size.1));
        let (xmlns, view) = ("http://www.w3.org/2000/svg", format!("0 0 {wide} {high}"));
        let root = format!(r#"<svg xmlns="{xmlns}" width="{wide}" height="{high}" viewBox="{view}" role="img">"#);
        let mut svg = Self { text: root + "\n" };
        svg.leaf("title", &[], title);
        svg.leaf("desc", &[], description);
        svg.leaf("style", &[], style);
        svg
    }

    /// An element without content, or with a text that shows when it is pointed at.
    pub fn shape(&mut self, name: &str, attributes: &[Attribute<'_>], tip: Option<&str>) {
        self.tag(name, attributes);
        match tip {
            Some(tip) => _ = writeln!(self.text, "><title>{}</title></{name}>", escaped(tip)),
            None => self.text.push_str("/>\n"),
        }
    }

    /// An element that holds a text.
    pub fn leaf(&mut self, name: &str, attributes: &[Attribute<'_>], text: &str) {
        self.tag(name, attributes);
        let _ = writeln!(self.text, ">{}</{name}>", escaped(text));
    }

    /// A line between two points.
    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let all: [Attribute<'_>; 5] =
            [("class", &class), ("x1", &Px(from.0)), ("y1", &Px(from.1)), ("x2", &Px(to.0)), ("y2", &Px(to.1))];
        self.shape("line", &all, None);
    }

    /// A rectangle by its upper left corner and its size, with corners of that radius.
    pub fn rect(&mut self, class: &str, at: (f64, f64), size: (f64, f64), radius: f64, tip: Option<&str>) {
        let (x, y, wide, high, radius) = (Px(at.0), Px(at.1), Px(size.0), Px(size.1), Px(radius));
        let all: [Attribute<'_>; 6] =
            [("class", &class), ("x", &x), ("y", &y), ("width", &wide), ("height", &high), ("rx", &radius)];
        let is_round = radius.0 > 0.0;
        self.shape("rect", &all[..5 + usize::from(is_round)], tip);
    }

    /// A line of text; the class has its size and colour, and says where it is anchored.
    pub fn write(&mut self, x: f64, y: f64, class: &str, text: &str) {
        self.leaf("text", &[("x", &Px(x)), ("y", &Px(y)), ("class", &class)], text);
    }

    /// The whole picture.
    pub fn finish(self) -> String {
        self.text + "</svg>\n"
    }

    fn tag(&mut self, name: &str, attributes: &[Attribute<'_>]) {
        let _ = write!(self.text, " <{name}");
        for (name, value) in attributes {
            let _ = write!(self.text, " {name}=\"{}\"", escaped(&value.to_string()));
        }
    }
}

/// About how wide a text is in a font of a size.
pub fn text_width(text: &str, size: f64) -> f64 {
    width(&escape(text)) as f64 * size * COLUMN
}

/// A text that fits, with `…` at the cut.
pub fn fitted(text: &str, room: f64, size: f64) -> String {
    let columns = (room / (size * COLUMN)).max(0.0).floor() as usize;
    cut(&escape(text), columns).into_owned()
}

/// A text as XML has it. What XML has no place for, such as control characters, is written as `\u{1b}`.
fn escaped(text: &str) -> Cow<'_, str> {
    let acts = |c: char| c.is_control() && c != '\n' || matches!(c, '\u{fffe}' | '\u{ffff}');
    let replaces = |c: char| acts(c) || matches!(c, '&' | '<' | '>' | '"' | '\'');
    replaced(text, replaces, |safe, c| match c {
        '&' => safe.push_str("&amp;"),
        '<' => safe.push_str("&lt;"),
        '>' => safe.push_str("&gt;"),
        '"' => safe.push_str("&quot;"),
        '\'' => safe.push_str("&#39;"),
        c => safe.extend(c.escape_unicode()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_and_elements_are_closed() {
        let mut svg = Svg::new((10.0, 5.5), "a <b> & \"c\"", "d", ".x{fill:red}");
        svg.shape("g", &[("class", &"x\"y")], None);
        svg.shape("rect", &[("x", &Px(1.0 / 3.0)), ("y", &Px(-0.001))], Some("tip \u{1b}[2J\u{ffff}"));
        let text = svg.finish();
        assert!(text.contains("<title>a &lt;b&gt; &amp; &quot;c&quot;</title>"), "{text}");
        assert!(text.contains(r#"<g class="x&quot;y"/>"#), "{text}");
        assert!(text.contains(r#"<rect x="0.33" y="0"><title>tip \u{1b}[2J\u{ffff}</title></rect>"#), "{text}");
        assert!(text.ends_with("</rect>\n</svg>\n") && text.contains(r#"viewBox="0 0 10 5.5""#), "{text}");
    }

    #[test]
    fn a_text_is_cut_to_the_room_it_has() {
        assert_eq!(fitted("user-1", 100.0, 10.0), "user-1");
        assert_eq!(fitted("user-1234567", 30.0, 10.0), "user…");
        assert_eq!(fitted("双十一手机", 30.0, 10.0), "双十…");
        assert!(text_width("双", 10.0) > text_width("a", 10.0));
    }
}
