//! Certificates for one test, by openssl, and servers that listen for TLS.

use std::net::TcpListener;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::TestRedis;

/// A CA and what it signed, as files: `ca.pem`, and `NAME.pem` with `NAME.key`; a `server` and a `client` are there from the start.
pub struct Authority {
    folder: TempDir,
}

impl Authority {
    pub fn new() -> Self {
        let authority = Self { folder: tempfile::tempdir().unwrap() };
        authority.openssl(&["-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=Test CA"]);
        authority.issue("server", "IP:127.0.0.1,DNS:localhost");
        authority.issue("client", "");
        authority
    }

    /// Signs a certificate. `names` are those of a server, such as `IP:127.0.0.1`; a client needs none.
    pub fn issue(&self, name: &str, names: &str) {
        let (key, out, subject) = (format!("{name}.key"), format!("{name}.pem"), format!("/CN={name}"));
        let names = format!("subjectAltName={names}");
        let mut arguments = vec!["-CA", "ca.pem", "-CAkey", "ca.key", "-keyout", &key, "-out", &out];
        arguments.extend(["-subj", &subject, "-addext", "basicConstraints=critical,CA:FALSE"]);
        if names != "subjectAltName=" {
            arguments.extend(["-addext", &names]);
        }
        self.openssl(&arguments);
    }

    /// The path of a file, whether it is there or not.
    pub fn path(&self, file: &str) -> String {
        self.folder.path().join(file).to_str().unwrap().to_owned()
    }

    /// Writes a file of the test's own.
    pub fn write(&self, file: &str, text: &str) -> String {
        std::fs::write(self.path(file), text).unwrap();
        self.path(file)
    }

    fn openssl(&self, arguments: &[&str]) {
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
            .args(arguments)
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .output()
            .expect("openssl, which Debian has wherever git is");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
}

impl TestRedis {
    /// Lets the server listen for TLS too, with the certificate `name`; `settings` are more of its `tls-` settings.
    /// `None`, with a note, if it cannot: some are built without TLS.
    pub fn listen_for_tls(&self, authority: &Authority, name: &str, settings: &[(&str, &str)]) -> Option<u16> {
        if self.ask::<Vec<String>>(&["CONFIG", "GET", "tls-port"]).is_empty() {
            eprintln!("not tested: this server is built without TLS");
            return None;
        }
        // One connection: a build of Valkey that ships in a wheel ends when it is asked to listen for TLS.
        let mut connection = self.connection();
        // Between finding a free port and using it, another process may take it.
        let port = (0..10).find_map(|_| {
            let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
            let mut command = redis::cmd("CONFIG");
            command.arg("SET").arg("tls-cert-file").arg(authority.path(&format!("{name}.pem")));
            command.arg("tls-key-file").arg(authority.path(&format!("{name}.key")));
            command.arg("tls-ca-cert-file").arg(authority.path("ca.pem"));
            for (setting, value) in settings {
                command.arg(setting).arg(value);
            }
            command.arg("tls-port").arg(port);
            command.exec(&mut connection).is_ok().then_some(port)
        });
        if port.is_none() {
            eprintln!("not tested: this server cannot listen for TLS");
        }
        port
    }
}
