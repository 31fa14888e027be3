//! Where a server is, who logs in there, and that no password is ever printed.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::support::{TestRedis, seckill};

#[test]
fn a_server_is_a_url_or_a_host_and_port() {
    let redis = TestRedis::with_tcp([]);
    let url = redis.url();
    let address = url.strip_prefix("redis://").unwrap();
    let port = address.split_once(':').unwrap().1;
    seckill(["inspect", "-u", address]).code(0);
    seckill(["inspect", "-u", &format!("localhost:{port}")]).code(0);
    seckill(["inspect", "-v"]).env("SECKILL_URL", address).code(0).stderr_has(&url);
}

/// The password of every URL here is `hushhush`.
#[test]
fn no_part_of_a_url_that_cannot_be_read_is_printed() {
    for url in [
        "me:hushhush@127.0.0.1",
        "me:hushhush@127.0.0.1:6379",
        "redis:/me:hushhush@127.0.0.1",
        "redis://127.0.0.1?password=hushhush",
        "redis://127.0.0.1/?user=a@b&pass=hushhush",
        "redis://me:hushhush@host:port",
        "redis://me:hushhush@127.0.0.1/db",
        "http://me:hushhush@127.0.0.1",
        "unix://run/r.sock?pass=hushhush",
        "unix:///run/r.sock?password=hushhush",
        "hushhush",
    ] {
        for format in ["table", "json"] {
            let flag = seckill(["inspect", "-v", "-o", format, "-u", url]).code(2).stdout_is("");
            flag.stderr_lacks("hush").stderr_lacks("127.0.0.1").stderr_has("`--url`").stderr_has("--password-file");
            for name in ["SECKILL_URL", "REDIS_URL"] {
                let call = seckill(["inspect", "-v", "-o", format]).without_env("SECKILL_URL").env(name, url);
                call.code(2).stdout_is("").stderr_lacks("hush").stderr_has(name);
            }
        }
    }
}

#[test]
fn the_password_of_a_url_is_masked_in_every_message() {
    for (url, shown) in [
        ("redis://me:hush@hush@127.0.0.1:1", "redis://me:***@127.0.0.1:1"),
        ("redis://:hushhush@127.0.0.1:1/2", "redis://:***@127.0.0.1:1/2"),
        ("redis://hushhush@127.0.0.1:1", "redis://***@127.0.0.1:1"),
        ("unix:///nonexistent/r.sock?user=a@b&pass=hushhush", "unix:///nonexistent/r.sock?user=a@b&pass=***"),
    ] {
        for format in ["table", "json"] {
            let call = seckill(["inspect", "-v", "-o", format, "--timeout", "1s", "-u", url]).code(5);
            call.stderr_lacks("hush").stderr_has(shown).stderr_lacks("os error");
        }
    }
    let url = "redis://me:hushhush@127.0.0.1:1";
    seckill(["script", "list", url]).code(2).stderr_lacks("hush");
    seckill(["inspect", "--embedded", "-u", url]).code(2).stderr_lacks("hush");
    seckill(["inspect", "--uri", url]).code(2).stderr_lacks("hush").stderr_has("`--url`");
}

/// A file that its owner alone may read.
fn private_file(folder: &Path, name: &str, text: &[u8]) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_password_file_that_others_may_read_is_refused() {
    let redis = TestRedis::with(["--requirepass", "hushhush"]);
    let plain = format!("unix://{}", redis.socket().display());
    let folder = tempfile::tempdir().unwrap();
    let path = private_file(folder.path(), "my secret", b"hushhush\n");
    let call = || seckill(["inspect", "-u", &plain, "--password-file", &path]);
    for mode in [0o644, 0o640, 0o604] {
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let refused = call().code(2).stdout_is("");
        refused.stderr_has("others may read the password file").stderr_lacks("hushhush");
    }
    // The hint works as it is printed.
    let hint = call().code(2).stderr_has(&format!("hint: chmod 600 '{path}'")).stderr.clone();
    let command = hint.lines().find_map(|line| line.strip_prefix("hint: ")).unwrap();
    assert!(std::process::Command::new("sh").args(["-c", command]).status().unwrap().success());
    call().code(0);
    std::fs::set_permissions(&path, Permissions::from_mode(0o400)).unwrap();
    call().code(0);
}

#[test]
fn the_password_file_may_be_a_pipe_and_is_read_with_care() {
    let redis = TestRedis::with(["--requirepass", "open sesame "]);
    let plain = format!("unix://{}", redis.socket().display());
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &[u8]| private_file(folder.path(), name, text);
    for (name, text) in [("bare", &b"open sesame "[..]), ("line", b"open sesame \n"), ("dos", b"open sesame \r\n")] {
        seckill(["inspect", "-u", &plain, "--password-file", &file(name, text)]).code(0);
    }
    seckill(["inspect", "-u", &plain, "--password-file", "-"]).stdin("open sesame \n").code(0);
    // The flag beats the environment, and a URL from it.
    let with_wrong = format!("{plain}?pass=guess");
    let right = file("right", b"open sesame ");
    seckill(["inspect", "--password-file", &right]).env("SECKILL_URL", &with_wrong).code(0);
    seckill(["inspect", "-u", &plain, "--password-file", &right]).env("SECKILL_PASSWORD", "guess").code(0);
    let named = |first: &str, second: &str| {
        seckill(["inspect", "-u", &plain]).env("SECKILL_PASSWORD", first).env("REDISCLI_AUTH", second)
    };
    named("", "open sesame ").code(0);
    named("open sesame ", "guess").code(0);
    named("", "").code(4).stderr_has("--password-file");
    let wrong = seckill(["inspect", "-u", &plain, "--password-file", &file("wrong", b"guess")]).code(4);
    wrong.stderr_has("SECKILL_PASSWORD").stderr_lacks("guess");

    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let call = seckill(["inspect", "-u", &plain, "--password-file", pipe.to_str().unwrap()]).spawn();
    std::fs::File::options().write(true).open(&pipe).unwrap().write_all(b"open sesame \n").unwrap();
    call.wait().code(0);

    for (path, why) in [
        (file("empty", b"\n"), "it is empty"),
        (file("binary", b"\xff\xfe"), "not UTF-8"),
        (folder.path().to_str().unwrap().to_owned(), "directory"),
        ("/dev/zero".to_owned(), "longer than"),
        ("/nonexistent".to_owned(), "no such file"),
    ] {
        let call = seckill(["inspect", "-u", &plain, "--password-file", &path]).code(2);
        call.stderr_has(&path).stderr_has(why).stderr_lacks("os error");
    }
    seckill(["inspect", "--embedded", "--password-file", &right]).code(2);
}

#[test]
fn a_user_without_a_password_is_never_the_default_user() {
    let redis = TestRedis::start();
    redis.cmd(("ACL", "SETUSER", "open", "on", "nopass", "~*", "+@all"));
    redis.cmd(("ACL", "SETUSER", "ann", "on", ">secret", "+ping"));
    let url = |user: &str| format!("unix://{}?user={user}", redis.socket().display());
    seckill(["preheat", "--id", "1", "--stock", "5", "-u", &url("open")]).code(0);
    for user in ["ann", "nobody"] {
        let refused = seckill(["pause", "1", "-u", &url(user)]).code(4);
        refused.stderr_has("no password is given").stderr_has("SECKILL_PASSWORD");
    }
    seckill(["inspect", "1", "-u", &redis.url()]).code(0).stdout_has("live");
}

#[test]
fn a_user_of_the_acl_logs_in_with_the_url_or_a_file() {
    let redis = TestRedis::start();
    redis.cmd(("ACL", "SETUSER", "ann", "on", ">se:c/r?t", "~*", "+@all"));
    redis.cmd(("ACL", "SETUSER", "default", "off"));
    let socket = redis.socket();
    let url = format!("unix://{}?user=ann", socket.display());
    seckill(["inspect", "-u", &url]).env("SECKILL_PASSWORD", "se:c/r?t").code(0);
    seckill(["inspect", "-u", &format!("{url}&pass=se%3Ac%2Fr%3Ft")]).code(0);
    seckill(["inspect", "-u", &url]).env("SECKILL_PASSWORD", "wrong").code(4).stderr_lacks("wrong");
}
