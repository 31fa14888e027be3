//! Orders of several activities, one of them sharded.

use super::sale::Sale;

#[test]
fn an_item_of_a_sharded_activity_is_at_the_home_of_the_user_and_borrows() {
    let sale = Sale::new(&[0, 0, 3], None);
    sale.seckill("preheat --id 2 --stock 5").code(0);
    let (ann, bob) = (sale.user(0, "ann"), sale.user(1, "bob"));
    let buy =
        |user: &str, request: &str| sale.seckill(&format!("multi-deduct --user {user} --request {request} 1001=2 2=1"));
    let left = |id: &str| sale.seckill(&format!("inspect {id}")).code(0).json()[0]["stock"].as_i64();
    let dry = sale.seckill(&format!("multi-deduct --user {ann} --dry-run 1001=2 2=1")).code(0).json();
    assert_eq!((dry["status"].as_str(), left("2"), sale.stocks()), (Some("ok"), Some(5), vec![0, 0, 3]), "{dry}");
    for status in ["ok", "replayed"] {
        let order = buy(&ann, "a").code(0).json();
        assert_eq!((order["status"].as_str(), left("2")), (Some(status), Some(4)), "{order}");
        assert_eq!(order["items"][0]["stock"], serde_json::Value::Null, "that of one shard would say nothing");
        assert_eq!(sale.stocks().iter().sum::<i64>(), 1);
    }
    let order = buy(&bob, "b").code(3).json();
    let statuses: Vec<_> =
        order["items"].as_array().unwrap().iter().map(|item| item["status"].as_str().unwrap()).collect();
    assert_eq!((statuses, left("2")), (vec!["out_of_stock", "refused"], Some(4)), "{order}");
    // By file: those before and behind it in the same activities, too.
    let file = format!(
        r#"{{"user":"{ann}","items":{{"2":1}}}}
{{"user":"{bob}","items":{{"1001":1,"2":1}}}}
{{"user":"{bob}","items":{{"1001":1}}}}
{{"user":"{bob}","items":{{"2":1}}}}
"#
    );
    for (done, code) in [("ok", 3), ("replayed", 3)] {
        let run = sale
            .redis()
            .seckill(["-l", "cluster", "multi-deduct", "--from", "-", "--job", "j", "-o", "jsonl"])
            .stdin(&file)
            .code(code);
        let rows: Vec<_> = run.jsonl().iter().map(|row| row["status"].as_str().unwrap().to_owned()).collect();
        assert_eq!(rows, [done, done, "refused", done]);
        assert_eq!((left("2"), sale.stocks()), (Some(1), vec![0, 0, 0]));
    }
    sale.check(3);
}
