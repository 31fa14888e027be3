//! What people see of a report.

use super::sale_of_2021;
use crate::snapshots::is_as_stored;

#[test]
fn a_report_fits_the_terminal() {
    let redis = sale_of_2021();
    for columns in ["80", "140", "30"] {
        let call = redis.seckill(["report", "1001", "--timezone", "Asia/Shanghai"]).env("COLUMNS", columns);
        let text = call.code(0).stdout;
        let width = columns.parse::<usize>().unwrap().max(40);
        // A title of Chinese characters is wider than its count, and in no chart.
        let charts = text.lines().skip(1).filter(|line| line.contains(['│', '┤', '┼']));
        assert!(charts.clone().count() > 15 && charts.clone().all(|line| line.chars().count() <= width), "{text}");
        if columns != "30" {
            is_as_stored(&format!("report_{columns}.txt"), &text);
        }
    }
}
