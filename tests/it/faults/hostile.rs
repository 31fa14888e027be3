//! A server, or whatever listens there, that answers without end: an error, and bounded memory.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::support::Authority;

/// A listener that answers everything with some first bytes and then the same ones without end.
fn endless(first: &'static [u8], then: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || answer(stream.unwrap(), first, then));
        }
    });
    format!("redis://{address}")
}

/// The same over TLS, where the first command is a PING.
fn endless_over_tls(first: &'static [u8], then: &'static [u8]) -> String {
    let authority = Authority::new();
    let certificate = CertificateDer::from_pem_file(authority.path("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(authority.path("server.key")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let config = Arc::new(config.with_single_cert(vec![certificate], key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            std::thread::spawn(move || answer(StreamOwned::new(connection, stream.unwrap()), first, then));
        }
    });
    format!("rediss://{address}/#insecure")
}

fn answer(mut stream: impl Read + Write, first: &[u8], then: &[u8]) {
    if stream.read(&mut [0; 4096]).is_ok_and(|read| read > 0) && stream.write_all(first).is_ok() {
        let many = then.repeat(10_000);
        while stream.write_all(&many).is_ok() {}
    }
}

#[test]
fn a_reply_without_end_is_an_error_in_bounded_memory() {
    let (text, list) = ((&b"$1700000000\r\n"[..], &b"0000000000"[..]), (&b"*200000000\r\n"[..], &b"$1\r\nx\r\n"[..]));
    for url in [endless(text.0, text.1), endless(list.0, list.1), endless_over_tls(b"+PONG\r\n$1700000000\r\n", text.1)]
    {
        for (line, codes) in
            [("inspect", &[1, 5][..]), ("deduct 1 --user 7 --request r", &[6]), ("reconcile 1", &[1, 5])]
        {
            // Twice what a reply may hold, and the program itself; 0.1 took 1.7 GB.
            let limited = format!("ulimit -v 600000; exec \"$0\" -q {line} --timeout 5s");
            let ended = Command::new("sh")
                .args(["-c", &limited])
                .arg(crate::support::binary())
                .env_clear()
                .env("SECKILL_URL", &url)
                .output()
                .unwrap();
            let error = String::from_utf8_lossy(&ended.stderr);
            assert!(ended.status.code().is_some_and(|code| codes.contains(&code)), "{line}: {ended:?}");
            // A page that begins with a text is refused at its first line already.
            let is_named = error.contains("larger than") || error.contains("does not understand");
            assert!(error.starts_with("error: ") && is_named, "{line}: {error}");
        }
    }
}
