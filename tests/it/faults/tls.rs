//! `rediss://`: an order over TLS, and a certificate that nobody vouches for.

use std::net::TcpListener;
use std::process::{Command, Stdio};

use crate::support::{TestRedis, seckill};

/// A certificate for 127.0.0.1 that vouches for itself: the folder with `cert.pem` and `key.pem`.
pub(super) fn certificate() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
        .args(["-keyout", "key.pem", "-out", "cert.pem", "-subj", "/CN=127.0.0.1"])
        .args(["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .output()
        .expect("openssl, which Debian has wherever git is");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    folder
}

/// Lets a server listen for TLS too. `None` where it cannot.
fn listen(redis: &TestRedis, folder: &tempfile::TempDir) -> Option<u16> {
    if redis.ask::<Vec<String>>(&["CONFIG", "GET", "tls-port"]).is_empty() {
        return None;
    }
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    // One connection: a build of Valkey that ships in a wheel ends when it is told to listen for TLS.
    let mut connection = redis.connection();
    // Between finding a free port and using it, somebody else may take it.
    (0..10).find_map(|_| {
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let mut command = redis::cmd("CONFIG");
        command.arg("SET").arg("tls-cert-file").arg(path("cert.pem")).arg("tls-key-file").arg(path("key.pem"));
        command.arg("tls-ca-cert-file").arg(path("cert.pem")).arg("tls-auth-clients").arg("no");
        command.arg("tls-port").arg(port);
        command.exec(&mut connection).is_ok().then_some(port)
    })
}

#[test]
fn orders_over_tls_are_as_any_other_and_an_unknown_certificate_is_refused() {
    let (redis, folder) = (TestRedis::start(), certificate());
    let Some(port) = listen(&redis, &folder) else {
        eprintln!("not tested: this server cannot listen for TLS");
        return;
    };
    let url = format!("rediss://127.0.0.1:{port}");
    let trusted = folder.path().join("cert.pem");
    let trusted = trusted.to_str().unwrap();
    seckill(["preheat", "-u", &url, "--id", "1", "--stock", "5"]).env("SSL_CERT_FILE", trusted).code(0);
    seckill(["deduct", "-u", &url, "1", "--user", "7"]).env("SSL_CERT_FILE", trusted).code(0).stdout_has("ok");
    seckill(["inspect", "-u", &url, "1", "--all", "-o", "csv"])
        .env("SSL_CERT_FILE", trusted)
        .code(0)
        .stdout_is("activity,user,bought,user_hex\n1,7,1,\n");
    seckill(["preheat", "-u", &url, "--id", "2", "--stock", "1000"]).env("SSL_CERT_FILE", trusted).code(0);
    let file = folder.path().join("orders.csv");
    let rows: String = (0..1000).map(|user| format!("2,u{user},1\n")).collect();
    std::fs::write(&file, format!("activity,user,quantity\n{rows}")).unwrap();
    for status in ["ok", "replayed"] {
        let call = seckill(["deduct", "-u", &url, "--fast", "--from", file.to_str().unwrap()]);
        call.env("SSL_CERT_FILE", trusted).code(0).stdout_has(status);
    }
    assert_eq!(redis.ask::<String>(&["GET", "seckill:stock:2"]), "0");
    let before = redis.dump_all();
    seckill(["deduct", "-u", &url, "1", "--user", "8", "--timeout", "2s"]).code(5).stderr_has("rediss://127.0.0.1");
    seckill(["inspect", "-u", &format!("{url}/#insecure"), "1"]).code(0);
    redis.assert_unchanged_since(&before);
}
