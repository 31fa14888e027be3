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
