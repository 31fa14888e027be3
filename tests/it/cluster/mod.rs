//! The tool on a cluster: every command, redirections, moving slots, failovers.

mod commands;
mod layouts;
mod redirections;
