//! Orders of activities in several slots: holds with one request id, of which the primary decides.

mod commands;
mod model;
mod scripts;
