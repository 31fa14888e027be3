//! Files of holds, of payments and of cancellations: each row once, however often the file comes.

use super::WITH_USERS;
use crate::support::TestRedis;

#[test]
fn rows_of_a_file_say_whose_hold_it_is_and_until_when() {
    for layout in WITH_USERS {
        let redis = TestRedis::start();
        redis.seckill(["-l", layout.name, "preheat", "--id", "1", "--stock", "2"]).code(0);
        let run = |line: &str, input: &str, code| {
            redis.seckill(["-l", layout.name]).args(line.split(' ')).stdin(input).code(code)
        };
        // The second row wants more than is left.
        let holds = "activity,user,quantity,request\n1,\"o'neil \"\"[x\",1,ra\n1,9,7,rb\n1,王,1,rc\n";
        let file = "-o jsonl hold --from - --for 1h --job j";
        let held = run(file, holds, 3).jsonl();
        // The same file again says until when each holds; of what was refused there is nothing to say.
        let again = run(file, holds, 3).jsonl();
        assert!(again.iter().all(|row| row["status"] == "replayed"), "{layout:?}");
        for (index, id) in ["ra", "rb", "rc"].into_iter().enumerate() {
            let Some(record) = redis.hget(&layout.requests("1"), &format!("\th:{id}")) else {
                assert!(held[index]["status"] != "ok" && held[index]["deadline"].is_null(), "{}", held[index]);
                assert!(again[index]["deadline"].is_null(), "{}", again[index]);
                continue;
            };
            let shown: jiff::Timestamp = held[index]["deadline"].as_str().unwrap().parse().unwrap();
            assert_eq!(record.split(' ').nth(2).unwrap(), shown.as_millisecond().to_string(), "{}", held[index]);
            assert_eq!(again[index]["deadline"], held[index]["deadline"]);
            let user = held[index]["user"].as_str().unwrap();
            let one = redis.seckill(["-l", layout.name, "-o", "json", "hold", "1", "--for", "2h", "--user", user]);
            assert_eq!(
                one.args(["--request", id]).code(0).json()["deadline"],
                held[index]["deadline"],
                "as one hold says"
            );
        }
        let more = run("-o csv hold --from - --for 1h --job csv", "activity,user,quantity\n1,n,1\n", 3).stdout;
        assert!(more.starts_with("line,activity,user,quantity,status,stock,bought,request,deadline\n"), "{more}");

        let ends = "activity,request\n1,ra\n1,none\n1,rc\n";
        let users = |line: &str, code| -> Vec<String> {
            let rows = run(line, ends, code).jsonl();
            rows.iter().map(|row| format!("{} {}", row["status"].as_str().unwrap(), row["user"])).collect()
        };
        let named = |statuses: [&str; 3]| {
            let names = [r#""o'neil \"[x""#, "null", "\"王\""];
            statuses.iter().zip(names).map(|(status, name)| format!("{status} {name}")).collect::<Vec<_>>()
        };
        let paid = "-o jsonl confirm --from - --job paid";
        assert_eq!(users(paid, 3), named(["ok", "not_held", "ok"]), "{layout:?}");
        assert_eq!(users(paid, 3), named(["replayed"; 3]), "{layout:?}: the same file again");
        // A deadline is also that of a hold that was confirmed, as one `hold` says.
        let confirmed = run(file, holds, 3).jsonl();
        let deadlines = |rows: &[serde_json::Value]| rows.iter().map(|row| row["deadline"].clone()).collect::<Vec<_>>();
        assert_eq!(deadlines(&confirmed), deadlines(&held), "{layout:?}");
        let csv = run("-o csv release --from - --job gone", ends, 3).stdout;
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines[0], "line,activity,user,quantity,status,stock,bought,request,user_hex", "{layout:?}");
        assert_eq!(lines[1], "2,1,\"o'neil \"\"[x\",1,confirmed,0,1,ra,", "{layout:?}");
    }
}
