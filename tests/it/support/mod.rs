//! What tests are written with: a real server each, the built binary, and a network that breaks on demand.

mod certificates;
mod cluster;
mod copy;
mod dump;
pub mod layout;
mod meta;
mod proxy;
mod resp;
mod running;
pub mod scripts;
mod seckill;
mod sentinel;
mod server;
mod server_binary;
mod terminal;
pub mod transcript;

pub use certificates::Authority;
pub use cluster::TestCluster;
pub use copy::Copy;
pub use dump::Dump;
pub use layout::{CLUSTER, COUPON, LAYOUTS, Layout, PRODUCT, SECKILL, SKU};
pub use proxy::{Fault, Proxy, When};
pub use running::Running;
pub use scripts::Scripts;
pub use seckill::{Call, Outcome, binary, seckill};
pub use sentinel::{TestSentinel, Watched, follow};
pub use server::{TestRedis, redis_cli};
pub use server_binary::server_binary;

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use tempfile::TempDir;

/// How long anything that happens within milliseconds may take before a test gives up on it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until something is so, looking again and again.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Launches what listens on a port. Between finding a free port and using it, another process may take it.
#[track_caller]
fn in_ten_tries<T>(what: &str, mut launch: impl FnMut() -> Result<T, String>) -> T {
    let mut why = String::new();
    for _ in 0..10 {
        match launch() {
            Ok(launched) => return launched,
            Err(failed) => why = failed,
        }
    }
    panic!("no {what} in ten tries: {why}");
}

/// A port of 127.0.0.1 that nobody uses now.
fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).and_then(|found| found.local_addr()).expect("a free port").port()
}

/// The folder of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A file of the repository.
#[track_caller]
pub fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The rows of a page's table whose head begins with these columns, without their backticks.
#[track_caller]
pub fn table_rows(page: &str, columns: &str) -> Vec<Vec<String>> {
    let page = read(page);
    let (_, table) = page.split_once(&format!("\n| {columns} |")).unwrap_or_else(|| panic!("a table `{columns}`"));
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let cells = |row: &str| row.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect();
    rows.map(cells).collect()
}

/// All files below a folder.
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push(path);
        }
    }
    files
}

/// An instant, in milliseconds, as RFC 3339.
pub fn rfc3339(millis: i64) -> String {
    jiff::Timestamp::from_millisecond(millis).unwrap().to_string()
}

/// Writes a file as of now. The time is set by hand: what the file system notes may be some milliseconds old, before the last order.
pub fn write_now(file: &Path, text: &str) {
    fs::write(file, text).unwrap();
    fs::File::options().write(true).open(file).unwrap().set_modified(SystemTime::now()).unwrap();
}

/// A directory whose path is short, because the path of a socket inside holds at most 108 bytes.
fn short_temp_dir() -> TempDir {
    let wanted = std::env::temp_dir();
    let parent = if wanted.as_os_str().len() <= 40 { wanted } else { PathBuf::from("/tmp") };
    tempfile::Builder::new().prefix("sk").tempdir_in(parent).expect("a temporary directory")
}
