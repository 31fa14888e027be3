//! Which server the tests run on.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// `SECKILL_TEST_SERVER`, else a server on `PATH`, else one that `scripts/servers` fetched.
pub fn server_binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(named) = std::env::var_os("SECKILL_TEST_SERVER") {
            return PathBuf::from(named);
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|root| root.join(".servers"));
        std::env::split_paths(&path)
            .chain(fetched)
            .flat_map(|dir| [dir.join("valkey-server"), dir.join("redis-server")])
            .find(|candidate| candidate.is_file())
            .expect("no server to test on: run `make test`, or set SECKILL_TEST_SERVER")
    })
}
