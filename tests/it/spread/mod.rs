//! Orders of activities in several slots: holds with one request id; the primary decides.

mod audit;
mod commands;
mod sale;
mod scripts;
