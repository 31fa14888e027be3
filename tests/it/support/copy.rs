//! A server that goes back to what it held before, as a failover to a replica that lagged leaves it.

use redis::Cmd;

use super::TestRedis;

/// Everything a server held at one instant.
pub struct Copy {
    /// Each key and its dump.
    parts: Vec<Vec<u8>>,
}

impl Copy {
    #[track_caller]
    pub fn of(redis: &TestRedis) -> Self {
        let script = "local parts = {} for _, key in ipairs(redis.call('KEYS', '*')) do \
            parts[#parts + 1] = key parts[#parts + 1] = redis.call('DUMP', key) end return parts";
        Self { parts: redis.ask(("EVAL", script, 0)) }
    }

    /// Lets the server forget all that it did since, at one instant.
    #[track_caller]
    pub fn put_back(&self, redis: &TestRedis) {
        let script = "for _, key in ipairs(redis.call('KEYS', '*')) do redis.call('DEL', key) end \
            for at = 1, #ARGV, 2 do redis.call('RESTORE', ARGV[at], 0, ARGV[at + 1]) end";
        let call = Cmd::new().arg("EVAL").arg(script).arg(0).arg(&self.parts).exec(&mut redis.connection());
        call.expect("the server takes its own dumps");
    }
}
