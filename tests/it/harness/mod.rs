//! The harness is code too: what the other tests rest on is tested here, once.

mod backends;
mod binary;
mod cluster;
mod network;
mod servers;
