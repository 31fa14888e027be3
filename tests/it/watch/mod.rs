//! `inspect --watch`: what an operator has open during the sale.

mod rows;
mod screen;

use crate::support::{Call, Running, TestRedis};

/// A shop with these activities of ten units each.
fn shop(activities: &[&str]) -> TestRedis {
    let redis = TestRedis::start();
    for id in activities {
        redis.seckill(["preheat", "--id", id, "--stock", "10", "--title", "双十一手机"]).code(0);
    }
    redis
}

/// Whether the server sends percentiles and lags: Redis 6.2 does not.
fn is_new(redis: &TestRedis) -> bool {
    !redis.ask::<String>(("INFO", "latencystats")).is_empty()
}

fn watched(redis: &TestRedis) -> Call {
    redis.seckill(["inspect", "--watch=100ms"])
}

/// The line of a frame that has a text.
fn line<'a>(frame: &'a [String], part: &str) -> Option<&'a str> {
    frame.iter().map(String::as_str).find(|line| line.contains(part))
}

#[track_caller]
fn wait_for_line(call: &Running, part: &str) -> Vec<String> {
    call.wait_for_frame(part, |frame| line(frame, part).is_some())
}
