//! What the formats promise beside their rows: a mark for spreadsheets, errors as objects, text that no terminal acts on.

use crate::support::{TestRedis, seckill};

fn sale() -> TestRedis {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1001", "--stock", "10", "--title", "双11"]).code(0);
    redis
}

#[test]
fn a_byte_order_mark_is_for_csv_alone() {
    let redis = sale();
    for line in ["inspect", "inspect 1001 --all", "ledger 1001", "deduct 1001 --user 7 --dry-run", "script list"] {
        let plain = redis.seckill(["-o", "csv"]).args(line.split(' ')).code(0).stdout;
        redis.seckill(["-o", "csv", "--bom"]).args(line.split(' ')).code(0).stdout_is(&format!("\u{feff}{plain}"));
    }
    let before = redis.dump_all();
    for format in ["table", "json", "jsonl", "tsv", "yaml"] {
        let call = redis.seckill(["deduct", "1001", "--user", "7", "--bom"]).env("SECKILL_OUTPUT", format);
        call.code(2).stdout_is("").stderr_has("`--bom`").stderr_has("-o csv");
    }
    redis.assert_unchanged_since(&before);
}

#[test]
fn what_was_exported_for_a_spreadsheet_can_be_read_again() {
    let redis = sale();
    redis.seckill(["deduct", "1001", "--user", "7", "--quantity", "2"]).code(0);
    let exported = redis.seckill(["inspect", "1001", "--all", "-o", "csv", "--bom"]).code(0).stdout;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), exported.replace("bought", "quantity")).unwrap();
    redis.seckill(["deduct", "--from", file.path().to_str().unwrap()]).code(0);
    assert_eq!(redis.int("seckill:stock:1001"), 6);
}

#[test]
fn no_format_sends_control_characters_to_a_terminal() {
    let redis = TestRedis::start();
    redis.cmd(("SET", "seckill:stock:9", 5));
    redis.cmd(("HSET", "seckill:participants:9", "a\u{1b}[2Jb\u{9b}", 1));
    // Warnings and errors are seen by a person too.
    redis.cmd(("SET", "seckill:stock:8", "\u{1b}[2J"));
    redis.seckill(["inspect", "8"]).seen().code(3).stderr_lacks("\u{1b}[2J").stderr_has("\\u{1b}[2J");
    redis.seckill(["inspect", "9"]).code(0).stdout_has("a\\u{1b}[2Jb\\u{9b}");
    redis.seckill(["deduct", "9", "--user", "\u{1b}[2J"]).code(2).stderr_lacks("\u{1b}");
    redis.seckill(["preheat", "--id", "10", "--stock", "1", "--title", "x\u{1b}[31my"]).run();
    redis.seckill(["inspect"]).run().stdout_lacks("\u{1b}");
}

#[test]
fn a_table_of_scripts_leaves_out_the_keys_that_all_have() {
    seckill(["script", "list"]).code(0).stdout_has("NAME").stdout_lacks("KEYS").stdout_lacks("seckill:");
    seckill(["script", "list", "-o", "csv"]).code(0).stdout_has("name,sha1,keys\n");
    seckill(["script", "list", "--drop-in"]).code(0).stdout_has("KEYS").stdout_has("seckill:stock:<id>");
}
