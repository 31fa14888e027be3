//! The calls that `script show --lang` prints, as text and, where their languages are at hand, run against a server.

mod language;
mod run;
mod text;
