//! Colours, named by what they mean.

/// What a text means, which decides its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tone {
    #[default]
    Plain,
    Good,
    Bad,
    Warn,
    Info,
    Dim,
    Strong,
}

/// Appends a text in the colour of its tone. The sixteen colours of the terminal's own theme stay readable on
/// light and dark backgrounds alike.
pub(crate) fn paint(line: &mut String, text: &str, tone: Tone, coloured: bool) {
    let code = match tone {
        Tone::Plain => "",
        Tone::Good => "32",
        Tone::Bad => "31",
        Tone::Warn => "33",
        Tone::Info => "36",
        Tone::Dim => "2",
        Tone::Strong => "1",
    };
    if !coloured || code.is_empty() || text.is_empty() {
        line.push_str(text);
        return;
    }
    for part in ["\u{1b}[", code, "m", text, "\u{1b}[0m"] {
        line.push_str(part);
    }
}
