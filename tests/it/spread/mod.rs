//! Orders of activities in several slots: holds with one request id, of which the primary decides.

mod audit;
mod commands;
mod model;
mod sale;
mod scripts;
