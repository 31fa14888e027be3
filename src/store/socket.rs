//! What bytes go through: a TCP or unix socket, with TLS or without.

use std::io::{Read, Write};

/// What bytes go through.
pub trait Socket: Read + Write + Send {}

impl<S: Read + Write + Send> Socket for S {}
