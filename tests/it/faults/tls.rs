//! `rediss://`: everything works over TLS as without, and a handshake or a file that fails says why.

use std::io::Write;
use std::net::TcpListener;

use crate::support::{Authority, Call, Fault, Proxy, TestCluster, TestRedis, When, seckill};

/// The options of a client with its own certificate.
fn as_client(call: Call, authority: &Authority) -> Call {
    let (ca, cert, key) = (authority.path("ca.pem"), authority.path("client.pem"), authority.path("client.key"));
    call.args(["--cacert", &ca, "--cert", &cert, "--key", &key])
}

#[test]
fn orders_files_and_audits_work_with_an_own_ca_and_a_client_certificate() {
    let (redis, authority) = (TestRedis::start(), Authority::new());
    let Some(port) = redis.listen_for_tls(&authority, "server", &[("tls-auth-clients", "yes")]) else { return };
    let url = format!("rediss://127.0.0.1:{port}");
    // The system's CAs are not read if one is given.
    let no_system = authority.path("no-such-file.pem");
    let run = |line: &str| {
        let call = seckill(["-u", &url]).args(line.split(' ')).env("SSL_CERT_FILE", &no_system);
        as_client(call, &authority).code(0)
    };
    run("preheat --id 1 --stock 5");
    run("deduct 1 --user 7").stdout_has("ok");
    run("inspect 1 --all -o csv").stdout_is("activity,user,bought,user_hex\n1,7,1,\n");
    run("preheat --id 2 --stock 1000");
    let rows: String = (0..1000).map(|user| format!("2,u{user},1\n")).collect();
    let file = authority.write("orders.csv", &format!("activity,user,quantity\n{rows}"));
    for status in ["ok", "replayed"] {
        run(&format!("deduct --fast --from {file}")).stdout_has(status);
    }
    run(&format!("reconcile 2 --orders {file}")).stdout_has("match");
    run("multi-deduct --user 9 1=1");
    run("refund 1 --user 9");
    assert_eq!((redis.int("seckill:stock:1"), redis.int("seckill:stock:2")), (4, 0));
}

#[test]
fn every_node_of_a_cluster_is_reached_with_the_same_certificates() {
    let authority = Authority::new();
    if TestRedis::start().listen_for_tls(&authority, "server", &[]).is_none() {
        return;
    }
    let path = |file: &str| authority.path(file);
    let (cert, key, ca) = (path("server.pem"), path("server.key"), path("ca.pem"));
    let only_tls = ["--port", "0", "--tls-port", "PORT", "--tls-cluster", "yes", "--tls-replication", "yes"];
    let files = ["--tls-cert-file", &cert, "--tls-key-file", &key, "--tls-ca-cert-file", &ca];
    let cluster = TestCluster::with(3, false, &[&only_tls[..], &files[..]].concat());
    // What it does not name, the nodes do.
    let url = format!("rediss://127.0.0.1:{}", cluster.node(0).port().unwrap());
    let run = |line: &str| as_client(seckill(["-l", "cluster", "-u", &url]).args(line.split(' ')), &authority).code(0);
    let ids: Vec<String> = (0..3).map(|node| cluster.activity_on(node, "tls")).collect();
    for id in &ids {
        run(&format!("preheat --id {id} --stock 100"));
        run(&format!("deduct {id} --user 7"));
    }
    let rows: String = (0..60).map(|index| format!("{},u{index},1\n", ids[index % 3])).collect();
    let file = authority.write("orders.csv", &format!("activity,user,quantity\n{rows}"));
    run(&format!("deduct --from {file}")).stdout_has("ok");
    run("reconcile").stdout_has("match");
    for (node, id) in ids.iter().enumerate() {
        assert_eq!(cluster.node(node).int(&format!("seckill:{{{id}}}:stock")), 79);
    }
    seckill(["-l", "cluster", "-u", &url, "inspect", "--cacert", &ca])
        .code(5)
        .stderr_has("demands a client certificate");
}

#[test]
fn the_systems_certificates_are_trusted_without_an_option() {
    let (redis, authority) = (TestRedis::start(), Authority::new());
    let Some(port) = redis.listen_for_tls(&authority, "server", &[("tls-auth-clients", "no")]) else { return };
    let ca = authority.path("ca.pem");
    for url in [format!("rediss://127.0.0.1:{port}"), format!("rediss://localhost:{port}/2")] {
        seckill(["preheat", "-u", &url, "--id", "1", "--stock", "5"]).env("SSL_CERT_FILE", &ca).code(0);
        seckill(["deduct", "-u", &url, "1", "--user", "7"]).env("SSL_CERT_FILE", &ca).code(0);
    }
    seckill(["inspect", "-u", &format!("rediss://127.0.0.1:{port}/#insecure"), "1"]).code(0);
}

#[test]
fn a_refused_handshake_is_exit_5_says_why_and_changes_nothing() {
    let (redis, authority, stranger) = (TestRedis::start(), Authority::new(), Authority::new());
    authority.issue("elsewhere", "DNS:redis.example,IP:10.0.0.5");
    let before = redis.dump_all();
    let (ca, other_ca) = (authority.path("ca.pem"), stranger.path("ca.pem"));
    let (cert, key) = (stranger.path("client.pem"), stranger.path("client.key"));
    let fails = |port: u16, options: &[&str], says: &str, hint: &str| {
        for line in ["deduct 1 --user 8", "inspect 1"] {
            let url = format!("rediss://127.0.0.1:{port}");
            let call = seckill(["-u", &url, "-o", "json", "--timeout", "5s"]).args(line.split(' ')).args(options);
            let error = call.code(5).stdout_is("").error_json();
            let message = error["error"].as_str().unwrap();
            assert!(message.contains(says) && message.contains(&url), "{line} {options:?}: {error}");
            assert!(error["hint"].as_str().unwrap().contains(hint), "{line} {options:?}: {error}");
        }
    };
    for protocols in ["TLSv1.3", "TLSv1.2"] {
        let settings = [("tls-auth-clients", "yes"), ("tls-protocols", protocols)];
        let Some(port) = redis.listen_for_tls(&authority, "server", &settings) else { return };
        fails(port, &["--cacert", &ca], "demand", "--cert");
        let options = ["--cacert", &ca, "--cert", &cert, "--key", &key];
        fails(port, &options, "refused the client certificate: unknown_ca", "tls-ca-cert-file");
        fails(port, &["--cacert", &other_ca], "no CA that is trusted here signed", "--cacert");
        fails(port, &[], "no CA that is trusted here signed", "--cacert");
    }
    let port = redis.listen_for_tls(&authority, "elsewhere", &[("tls-auth-clients", "no")]).unwrap();
    fails(port, &["--cacert", &ca], "is for `redis.example`, `10.0.0.5`, not for `127.0.0.1`", "subjectAltName");
    // What most people try first: one self-signed certificate for everything.
    let port = redis.listen_for_tls(&authority, "ca", &[("tls-auth-clients", "no")]).unwrap();
    fails(port, &["--cacert", &ca], "is that of a CA, as self-signed ones are", "openssl s_client");
    redis.assert_unchanged_since(&before);
}

#[test]
fn a_port_without_tls_is_named_as_such() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("rediss://127.0.0.1:{}", listener.local_addr().unwrap().port());
    let answering = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        client.write_all(b"-ERR unknown command\r\n").unwrap();
        std::io::copy(&mut client, &mut std::io::sink()).ok();
    });
    let call = seckill(["inspect", "1", "-u", &url]).env("SSL_CERT_FILE", "/dev/null");
    call.code(5).stderr_has("does not speak TLS").stderr_has("redis://");
    answering.join().unwrap();
    // Redis waits for the end of a line, which a handshake may not have.
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("rediss://127.0.0.1:{}", silent.local_addr().unwrap().port());
    let call = seckill(["inspect", "1", "-u", &url, "--timeout", "100ms"]).env("SSL_CERT_FILE", "/dev/null");
    call.code(5).stderr_has("did not answer within 100ms").stderr_has("redis://");
}

#[test]
fn a_certificate_file_that_is_of_no_use_is_exit_2_and_named() {
    let (authority, other) = (Authority::new(), Authority::new());
    let path = |file: &str| authority.path(file);
    let (ca, cert, key, other_key) = (path("ca.pem"), path("client.pem"), path("client.key"), other.path("client.key"));
    let encrypted = authority.write(
        "encrypted.key",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIGjMF8GCSqGSIb3DQEFDTBS\n-----END ENCRYPTED PRIVATE KEY-----\n",
    );
    let text = std::fs::read_to_string(&cert).unwrap();
    let cut = authority.write("cut.pem", &text[..text.len() / 2]);
    let (empty, words) = (authority.write("empty.pem", ""), authority.write("words.pem", "no certificate\n"));
    let missing = path("missing.pem");
    let url = "rediss://127.0.0.1:1";
    for (options, says) in [
        (&["--cacert", &missing][..], "missing.pem` (`--cacert`): no such file"),
        (&["--cacert", &path("")], "(`--cacert`): is a directory"),
        (&["--cacert", &empty], "empty.pem` (`--cacert`): it is empty"),
        (&["--cacert", &words], "words.pem` (`--cacert`): it has no certificate"),
        (&["--cacert", &cut], "cut.pem` (`--cacert`): its last line"),
        (&["--cacert", &key], "client.key` (`--cacert`): it has no certificate"),
        (&["--cert", &cert, "--key", &missing], "missing.pem` (`--key`): no such file"),
        (&["--cert", &cert, "--key", &cert], "client.pem` (`--key`): it has no private key"),
        (&["--cert", &key, "--key", &key], "client.key` (`--cert`): it has no certificate"),
        (&["--cert", &cert, "--key", &other_key], "client.key` (`--key`): it is not the key"),
        (&["--cert", &cert, "--key", &encrypted], "encrypted.key` (`--key`): its private key is encrypted"),
        (&["--cert", &cert], "`--cert` needs `--key`"),
        (&["--cacert", &ca, "--key", &key], "`--key` needs `--cert`"),
        (&["--cacert", &ca, "-u", "rediss://127.0.0.1:1/#insecure"], "`#insecure` in the URL"),
        (&["--cacert", &ca, "-u", "redis://127.0.0.1:1"], "`--cacert` is for TLS, and `redis://127.0.0.1:1`"),
        (&["--cert", &cert, "--key", &key, "-u", "127.0.0.1:1"], "`--cert` is for TLS, and `redis://127.0.0.1:1`"),
        (&["--key", &key, "-u", "unix:///r.sock"], "`--key` is for TLS, and `unix:///r.sock`"),
    ] {
        for line in ["deduct 1 --user 7", "reconcile"] {
            let call = seckill(["-o", "json"]).args(line.split(' ')).env("SECKILL_URL", url).args(options);
            let error = call.code(2).stdout_is("").error_json();
            assert!(error["error"].as_str().unwrap().contains(says), "{options:?}: {error}");
            assert!(error["hint"].is_string(), "{options:?}: {error}");
            assert!(!error.to_string().contains("os error"), "{options:?}: {error}");
        }
    }
    seckill(["inspect", "--embedded", "--cacert", &ca]).code(2).stderr_has("--embedded").stderr_has("--cacert");
}

#[test]
fn an_order_without_tls_reads_no_certificates() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1", "--stock", "5"]).env("SSL_CERT_FILE", "/nonexistent/ca.pem").code(0);
}

#[test]
fn a_url_without_tls_for_a_port_with_tls_is_exit_5_with_the_right_scheme() {
    let (redis, authority) = (TestRedis::start(), Authority::new());
    for auth in ["no", "yes"] {
        let Some(port) = redis.listen_for_tls(&authority, "server", &[("tls-auth-clients", auth)]) else { return };
        let url = format!("redis://127.0.0.1:{port}");
        let file = authority.write("orders.csv", "activity,user\n1,7\n");
        for line in [
            "deduct 1 --user 7".to_owned(),
            "refund 1 --user 7 --request r1".to_owned(),
            "preheat --id 1 --stock 5".to_owned(),
            "preheat --id 1 --stock 5 --reset --yes".to_owned(),
            format!("deduct --from {file}"),
            "inspect".to_owned(),
            "reconcile 1".to_owned(),
            "ledger 1".to_owned(),
        ] {
            let call = seckill(["-u", &url, "--timeout", "100ms"]).args(line.split(' '));
            call.code(5).stdout_is("").stderr_has("speaks TLS").stderr_has("rediss://");
        }
        let login = format!("redis://:secret@127.0.0.1:{port}");
        seckill(["-u", &login, "--timeout", "100ms", "deduct", "1", "--user", "7"]).code(5).stderr_has("rediss://");
    }
    assert_eq!(redis.cmd("DBSIZE"), redis::Value::Int(0));
}

#[test]
fn an_order_whose_reply_never_comes_stays_in_doubt_at_a_port_without_tls() {
    let redis = TestRedis::selling("1", 5);
    let network = Proxy::before(&redis);
    network.inject(When::With("EVALSHA".to_owned()), Fault::LoseReply);
    network.seckill(["deduct", "1", "--user", "7", "--timeout", "100ms"]).code(6).stderr_lacks("rediss://");
}
