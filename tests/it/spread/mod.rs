//! Orders of activities in several slots: holds with one request id; the primary decides.

mod audit;
mod commands;
mod model;
mod sale;
mod scripts;
