//! One server, and each script twice: its quick path alone, and without its quick path.

use std::collections::HashMap;

use redis::Value;

use super::calls::Shape;
use super::damage::Damage;
use super::outcome::{LUA_ERROR, READ_ALL, compared, is_left, lines, text};
use crate::support::scripts::{SCRIPTS, commands, quick_only, reference_only, shown_of as script_text};
use crate::support::{Layout, Scripts, TestRedis};

/// Scripts that calls are made of, or compared with, as they are.
const WITH_ONE_PATH: [&str; 6] = ["deduct", "refund", "hold", "deduct_file", "refund_file", "hold_file"];

/// What scripts take for the server's clock.
const CLOCK: &str = "{'1795355857', '669123'}";
/// The same in Unix ms, the next one, and the one before, as `preheat` takes the ends of a window.
pub const NOW: &str = "=1795355857669";
pub const SOON: &str = "=1795355857670";
pub const JUST_OVER: &str = "=1795355857668";

/// The keys of the activity as `DUMP` gives them.
pub type Saved = Vec<(String, Option<Vec<u8>>)>;
/// A script, its keys and arguments.
pub type Call<'a> = (&'static str, &'a [String], &'a [Vec<u8>]);
/// The words of a command.
pub type Command = Vec<Vec<u8>>;

pub struct Twins {
    activities: &'static [&'static str],
    redis: TestRedis,
    layout: Layout,
    scripts: Scripts,
    /// SHA-1 of each script's quick path alone, and of the script without it.
    pub hashes: HashMap<&'static str, [String; 2]>,
    pub can_check: bool,
    users: HashMap<&'static str, redis::Connection>,
    pub connection: redis::Connection,
    /// How often the quick path replied, and how often it left a call to the reference path.
    replied: u32,
    left: u32,
}

impl Twins {
    pub fn of(layout: Layout, activities: &'static [&'static str]) -> Self {
        let redis = TestRedis::start();
        let mut connection = redis.connection();
        let mut load =
            |text: &str| -> String { redis::cmd("SCRIPT").arg("LOAD").arg(text).query(&mut connection).unwrap() };
        let (mut hashes, mut users) = (HashMap::new(), HashMap::new());
        for name in SCRIPTS.into_iter().filter(|name| quick_only(name).is_some() || WITH_ONE_PATH.contains(name)) {
            let texts = [quick_only(name), reference_only(name)];
            let whole = |text: Option<String>| text.unwrap_or_else(|| script_text(name, layout).to_owned());
            // Both must make the same deadline of a hold, and find a window open or not.
            let at_one_time = |text: String| {
                text.replace("redis.call('TIME')", CLOCK).replace("= call('TIME')", &format!("= {CLOCK}"))
            };
            let texts = texts.map(|text| at_one_time(whole(text)));
            assert!(texts.iter().all(|text| !text.contains("call('TIME')")), "{name} has a clock of its own");
            hashes.insert(name, texts.map(|text| load(&text)));
            let mut rules = redis::cmd("ACL");
            rules.arg("SETUSER").arg(name).arg(&["reset", "on", "nopass", "~*", "+evalsha"]);
            for command in commands(name, layout.kind) {
                rules.arg(format!("+{command}"));
            }
            rules.exec(&mut redis.connection()).unwrap();
            let mut user = redis.connection();
            redis::cmd("AUTH").arg(name).arg("any").exec(&mut user).unwrap();
            users.insert(name, user);
        }
        let scripts = Scripts::of(&redis, layout);
        Self {
            activities,
            layout,
            scripts,
            hashes,
            users,
            connection,
            can_check: redis.scripts_can_check_permissions(),
            redis,
            replied: 0,
            left: 0,
        }
    }

    /// New activities, and nothing else.
    pub fn preheat(&mut self, shape: &Shape) {
        self.redis.cmd(&["FLUSHALL"]);
        let limit = shape.limit.map(|limit| limit.to_string()).unwrap_or_default();
        let mut fields = vec![("ledger", if shape.ledger { "1" } else { "0" })];
        if !limit.is_empty() && self.layout.kind == "hash" {
            fields.push(("per_user_limit", &limit));
        }
        for (name, text) in ["starts_at", "ends_at"].into_iter().zip(shape.window) {
            fields.extend(text.strip_prefix('=').map(|text| (name, text)));
        }
        for activity in self.activities {
            let reply = self.scripts.preheat_as("create", activity, &shape.total.to_string(), &fields);
            assert!(reply.starts_with("1 create "), "{reply}");
        }
        if shape.paused {
            self.scripts.call("pause", &self.layout.keys("1"), &["paused", "tester", "", "0"]);
        }
    }

    /// The last line that a job decided in an activity.
    pub fn watermark(&mut self, activity: &str, field: &str) -> u64 {
        let read = redis::cmd("HGET").arg(self.layout.requests(activity)).arg(field).query(&mut self.connection);
        let record: String = read.ok().flatten().unwrap_or_default();
        record.split(' ').next().and_then(|line| line.parse().ok()).unwrap_or_default()
    }

    /// Damages the data, and takes a right of a script's user away: the data before and after, and the right.
    fn begin(
        &mut self,
        script: &'static str,
        damage: Option<&Damage>,
        denied: Option<usize>,
    ) -> (Saved, Saved, Option<String>) {
        let before = self.saved();
        if let Some(damage) = damage {
            damage.apply(&self.redis, self.layout);
        }
        let names = commands(script, self.layout.kind);
        let denied = denied.filter(|_| self.can_check).map(|nth| names[nth % names.len()].clone());
        self.allow(script, '-', denied.as_deref());
        (before, self.saved(), denied)
    }

    /// Runs a call on equal data by both paths. An error says what differs.
    pub fn run(
        &mut self,
        (script, keys, args): Call<'_>,
        damage: Option<&Damage>,
        denied: Option<usize>,
    ) -> Result<(), String> {
        let (before, damaged, right) = self.begin(script, damage, denied);
        let denied = right.as_deref();
        let (quick, quick_data, after) = self.observe(script, 0, keys, args);
        // What the quick path does without a right is whole, or nothing.
        self.allow(script, '+', denied);
        self.restore(&damaged);
        let unchanged = self.data();
        self.restore(&damaged);
        let (reference, reference_data, after_reference) = self.observe(script, 1, keys, args);
        let is_left = is_left(&quick, denied);
        self.restore(if damage.is_some() || denied.is_some() {
            &before
        } else if is_left {
            &after_reference
        } else {
            &after
        });
        self.count(is_left);
        if reference.starts_with(LUA_ERROR) && denied.is_none() {
            return Err(format!("a Lua error: {reference}"));
        }
        let expected = if is_left { (&*quick, &unchanged[..]) } else { (&*reference, &reference_data[..]) };
        compared((&quick, &quick_data), expected, denied)
    }

    /// Runs a call by both paths on a state that some commands change before, without a right. An error says what differs. The
    /// reference path runs only if the quick path replies, which else must write nothing.
    pub fn run_after(
        &mut self,
        state: &Saved,
        (script, keys, args): Call<'_>,
        fault: &[Command],
        denied: Option<&str>,
    ) -> Result<(), String> {
        self.restore_and(state, fault);
        let unchanged = self.data();
        self.allow(script, '-', denied);
        let quick = self.reply(script, 0, keys, args);
        self.allow(script, '+', denied);
        let quick_data = self.data();
        let is_left = is_left(&quick, denied);
        self.count(is_left);
        if is_left {
            return compared((&quick, &quick_data), (&quick, &unchanged), denied);
        }
        self.restore_and(state, fault);
        let reference = self.reply(script, 1, keys, args);
        compared((&quick, &quick_data), (&reference, &self.data()), denied)
    }

    fn count(&mut self, is_left: bool) {
        if is_left {
            self.left += 1;
        } else {
            self.replied += 1;
        }
    }

    /// Whether the quick path replied to some calls, and left some.
    pub fn assert_both_paths_were_used(&self, share: u32) {
        let (replied, left) = (self.replied, self.left);
        assert!(replied * 100 >= (replied + left) * share && left > 0, "{replied} by the quick path, {left} left");
    }

    fn allow(&self, user: &str, sign: char, command: Option<&str>) {
        if let Some(command) = command {
            self.redis.cmd(&["ACL", "SETUSER", user, &format!("{sign}{command}")]);
        }
    }

    /// The reply of one of both texts of a script, and all data afterwards.
    fn observe(
        &mut self,
        script: &'static str,
        which: usize,
        keys: &[String],
        args: &[Vec<u8>],
    ) -> (String, Vec<String>, Saved) {
        let reply = self.reply(script, which, keys, args);
        let saved = self.saved();
        (reply, self.data(), saved)
    }

    fn reply(&mut self, script: &'static str, which: usize, keys: &[String], args: &[Vec<u8>]) -> String {
        let mut command = redis::cmd("EVALSHA");
        command.arg(&self.hashes[script][which]).arg(keys.len()).arg(keys).arg(args);
        text(&command.query(self.users.get_mut(script).unwrap()))
    }

    /// The keys of all activities.
    pub fn keys(&self) -> Vec<String> {
        self.activities.iter().flat_map(|activity| self.layout.all_keys(activity)).collect()
    }

    pub fn saved(&mut self) -> Saved {
        let keys = self.keys();
        let mut pipeline = redis::pipe();
        for key in &keys {
            pipeline.cmd("DUMP").arg(key);
        }
        let bytes: Vec<Option<Vec<u8>>> = pipeline.query(&mut self.connection).unwrap();
        keys.into_iter().zip(bytes).collect()
    }

    fn restore(&mut self, saved: &Saved) {
        self.restore_and(saved, &[]);
    }

    pub fn restore_and(&mut self, saved: &Saved, commands: &[Command]) {
        let mut pipeline = redis::pipe();
        add_state(&mut pipeline, saved, commands);
        pipeline.exec(&mut self.connection).unwrap();
    }

    /// What each key holds, a line each and one for the number of all keys.
    fn data(&mut self) -> Vec<String> {
        let keys = self.keys();
        let mut command = redis::cmd("EVAL");
        command.arg(READ_ALL).arg(keys.len()).arg(&keys);
        let found: Vec<(String, Value)> = command.query(&mut self.connection).unwrap();
        let mut lines = lines(found);
        lines.push(redis::cmd("DBSIZE").query::<u64>(&mut self.connection).unwrap().to_string());
        lines
    }
}

/// Makes the data what it was, and changes it then.
pub fn add_state(pipeline: &mut redis::Pipeline, saved: &Saved, commands: &[Command]) {
    for (key, bytes) in saved {
        pipeline.cmd("DEL").arg(key).ignore();
        if let Some(bytes) = bytes {
            pipeline.cmd("RESTORE").arg(key).arg(0).arg(&bytes[..]).ignore();
        }
    }
    for command in commands {
        pipeline.add_command(redis::Cmd::new().arg(command).clone()).ignore();
    }
}
