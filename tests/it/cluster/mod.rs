//! The tool on a cluster: every command, redirections, moving slots, failovers.

mod commands;
mod files;
mod layouts;
mod redirections;
mod scans;
