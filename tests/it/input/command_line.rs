//! A command line that cannot be read: exit 2, on stderr, and an object if the output is one.

use crate::support::seckill;

#[test]
fn a_usage_error_is_an_object_where_the_output_is_one() {
    let lines: [&[&str]; 9] = [
        &[],
        &["frobnicate"],
        &["deduct"],
        &["deduct", "1", "--user"],
        &["deduct", "1", "--usr", "7"],
        &["deduct", "1", "--user", "7", "--quantity", "many"],
        &["refund", "1", "--user", "7", "--all", "--quantity", "1"],
        &["preheat", "--id", "1"],
        &["inspect", "--timeout", "0s"],
    ];
    for line in lines {
        for format in ["json", "jsonl", "yaml"] {
            let calls = [
                seckill([]).args(line).args(["-o", format]),
                seckill([]).args(line).args([format!("--output={format}")]),
                seckill([]).args(line).env("SECKILL_OUTPUT", format),
            ];
            for call in calls {
                let error = call.code(2).stdout_is("").error_json();
                assert!(!error["error"].as_str().unwrap().is_empty(), "{error}");
                assert_eq!(error["code"], 2, "{error}");
                assert!(error.as_object().unwrap().contains_key("hint"), "{error}");
            }
        }
        let people = seckill([]).args(line).code(2).stdout_is("");
        assert!(line.is_empty() || people.stderr.starts_with("error: "), "{}", people.stderr);
    }
}

#[test]
fn without_a_command_the_short_help_goes_to_stderr() {
    for group in [&[][..], &["context"], &["script"]] {
        let help = seckill([]).args(group).args(["-h"]).code(0).stdout;
        seckill([]).args(group).code(2).stdout_is("").stderr(&help);
    }
}

#[test]
fn a_misspelt_flag_and_command_are_answered_with_the_right_one() {
    seckill(["deduct", "1", "--usr", "7"]).code(2).stderr_has("hint: a similar argument exists: '--user'");
    seckill(["refnd"]).code(2).stderr_has("'refund'");
    seckill(["help", "deduct"]).code(0).stdout_has("--per-user-limit");
    seckill(["deduct", "1001", "12345"]).code(2).stderr_has("hint: did you mean `--user 12345`?");
    seckill(["deduct", "1001", "--user", "7", "--qty", "2"]).code(2).stderr_has("hint: did you mean `--quantity`?");
    seckill(["inspect", "--password", "x", "-o", "json"]).code(2).stderr_has("SECKILL_PASSWORD");
    seckill(["inspect", "-l", "coupons"]).code(2).stderr_has("seckill, sku, coupon, product, cluster");
    seckill(["inspect", "-o", "xml"]).code(2).stderr_has("table, json, jsonl, csv, tsv, yaml");
}

#[test]
fn what_was_meant_is_named_and_never_passed_as_a_value() {
    for (line, hint) in [
        ("deduct --embedded data 1001 --user 7", "did you mean `--embedded=data`?"),
        ("--embedded data inspect", "did you mean `--embedded=data`?"),
        ("deduct 1001 --all", "`seckill deduct --help` lists the options"),
        ("confirm 1001 order-1", "did you mean `--request order-1`?"),
        ("pause --id 1001", "an activity is given without an option: `seckill pause 1001`"),
        ("watch", "did you mean `seckill inspect --watch`?"),
    ] {
        seckill([]).args(line.split(' ')).code(2).stdout_is("").stderr_has(hint).stderr_lacks("as a value");
    }
}

#[test]
fn flags_that_contradict_each_other_are_refused() {
    for line in [
        "inspect -q -v",
        "inspect -u redis://x --embedded",
        "-u redis://x inspect --embedded",
        "--embedded preheat --id 1 --stock 5 -u redis://x",
        "--embedded pause 1 --context shop",
        "inspect --nodes 3",
        "preheat --id 1 --stock 5 --update --reset",
        "preheat file.yaml --id 1 --stock 5",
        "preheat --stock 5",
        "preheat",
        "inspect 1 --all --top 5",
        "inspect 1 --scan",
        "inspect --top 5",
        "multi-deduct --user 7",
        "pause",
    ] {
        seckill([]).args(line.split(' ')).code(2).stdout_is("").stderr_has("error: ");
    }
}

#[test]
fn an_item_of_a_multi_order_is_an_activity_and_a_quantity() {
    for bad in ["1001", "1001:2", "=2", "1001=", "1001=2=x"] {
        seckill(["multi-deduct", "--user", "7", bad]).code(2).stdout_is("").stderr_has("error: ");
    }
    seckill(["multi-deduct", "--user", "7", "1001"]).code(2).stderr_has("expected ACTIVITY=QUANTITY, as in `1001=2`");
}

#[test]
fn a_url_that_cannot_be_read_is_usage_and_says_what_one_looks_like() {
    for bad in ["nonsense", "http://localhost", "redis://", "redis://host:port", "127.0.0.1", "localhost:"] {
        seckill(["inspect", "-u", bad])
            .without_env("SECKILL_URL")
            .code(2)
            .stdout_is("")
            .stderr_has("the value of `--url` is not a server URL")
            .stderr_has("redis://, rediss:// or unix:///path.sock")
            .stderr_has("host:port");
    }
}
