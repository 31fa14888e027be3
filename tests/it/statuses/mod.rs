//! The texts of the scripts and their headers, the bounds of their arguments, and each status as the tool reports it. What scripts reply is
//! in `tests/sim/transcripts/`.

mod bounds;
mod headers;
mod upstream_lua;
