//! Why there is no private server.

use std::path::PathBuf;

/// Why a private server did not start.
#[derive(Debug, Clone, thiserror::Error)]
#[allow(missing_docs, reason = "each variant's text names its fields")]
pub enum EmbeddedError {
    /// Its directory cannot be made or used.
    #[error("cannot use the directory `{}`: {why}", path.display())]
    Directory { path: PathBuf, why: String },
    /// Another command used the directory for longer than the caller waits.
    #[error("`{}` is in use by {holder}", path.display())]
    InUse { path: PathBuf, holder: String },
    /// The caller asked to stop while the directory was in use.
    #[error("interrupted while `{}` was in use", path.display())]
    Stopped { path: PathBuf },
    /// The directory has another number of nodes.
    #[error("the directory of `--embedded` has the data of {found}, and `--nodes` is {wanted}")]
    Nodes { found: String, wanted: usize },
    /// `SECKILL_SERVER` names no file.
    #[error("`SECKILL_SERVER` names `{name}`, which is no file")]
    NamedServer { name: String },
    /// This machine has no server.
    #[error("no valkey-server or redis-server was found on PATH, and `--embedded` needs one")]
    NoServer,
    /// The server's program, or its log, cannot be opened.
    #[error("cannot start `{}`: {why}", server.display())]
    Spawn { server: PathBuf, why: String },
    /// The server ended, or did not answer in time.
    #[error("the private server {what}; its log ends: {log}")]
    NotReady { what: &'static str, log: String },
}
