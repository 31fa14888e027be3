//! `seckill script`: the Lua scripts, for backends that want to run the same.

mod calls;

use anyhow::Context;
use clap::builder::PossibleValuesParser;

use crate::admin::activities;
use crate::cli::commands::hold::require_users;
use crate::cli::commands::script::calls::Language;
use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::output::{Cell, row};
use crate::cli::shared::session::Session;
use crate::model::{ActivityId, Layout};
use crate::script::keys::Keys;
use crate::script::{DROP_INS, HOLD_SCRIPTS, Script};

/// List, show or load the Lua scripts that backends can share
#[derive(Debug, clap::Subcommand)]
#[command(after_long_help = "
seckill script list
seckill script show deduct
seckill script load
")]
pub enum ScriptCommand {
    /// List the scripts: name, SHA-1 and, with -o json, keys
    #[command(after_long_help = "
# Names, and the SHA-1 for EVALSHA
seckill script list
# Also the keys in the layout `sku`
seckill script list --layout sku -o json
# Names, SHA-1 and keys of the scripts for backends that change nothing else
seckill script list --drop-in
")]
    List {
        /// List the drop-in scripts
        #[arg(long)]
        drop_in: bool,
    },
    /// Print a script: the exact bytes that run
    ///
    /// A drop-in script has the KEYS, ARGV and replies of a plain script that shops run, and refuses what that one gets
    /// wrong. Its header says what it cannot know.
    #[command(after_long_help = "
# Save a script for your backend; its header explains keys, arguments and replies
seckill script show deduct > deduct.lua
# In place of the plain script that your backend has: same keys, arguments and replies, checked
seckill script show --drop-in seckill > seckill.lua
# A call of it in your language, with every status and with what to do after a timeout
seckill script show deduct --lang python > deduct.py
# Calls for orders that are paid later: `hold`, then `confirm` or `release`
seckill script show hold --lang python > hold.py
seckill script show settle --lang python > settle.py
")]
    Show {
        /// Name of the script, see `script list`
        #[arg(required_unless_present = "drop_in")]
        name: Option<String>,
        /// seckill, sku, sku-multi, coupon, product or hm-dianping
        #[arg(long, value_name = "NAME", hide_possible_values = true, value_parser = PossibleValuesParser::new(DROP_INS.iter().map(|script| script.name)), conflicts_with_all = ["name", "lang"])]
        drop_in: Option<String>,
        /// java-jedis, java-spring, php, go, node or python
        ///
        /// Prints a call of deduct, refund, multi_deduct, hold or settle in that language, with the keys of the layout,
        /// every status, and what to do if a reply is lost. Of borrow it is all that a backend does with a sharded activity
        /// (java-jedis, go, python): read the shards once, find the user's home, take units there, borrow.
        #[arg(long, value_name = "LANGUAGE", hide_possible_values = true)]
        lang: Option<Language>,
    },
    /// Load the scripts into the server, for EVALSHA
    #[command(after_long_help = "
# After this, EVALSHA finds every script of `script list`
seckill script load --url redis://10.0.0.5:6379
")]
    Load,
}

row! {
    /// A script. In a table the keys of most would say nothing: they are all keys of an activity. Those of a drop-in script say for
    /// which backends it is.
    struct ScriptRow as row from (script: &Script, all_keys: String) {
        name: &'static str = script.name;
        sha1: &'static str = script.sha1;
        data keys: String = all_keys;
        optional table "keys" => Cell::text(&row.keys).flexible();
    }
    named name
}

/// Does what is asked of the scripts; only `load` needs a server.
pub fn run(command: &ScriptCommand, session: &mut Session) -> Result<Exit> {
    let layout = session.layout(None)?;
    match command {
        ScriptCommand::List { drop_in: true } => {
            session.out.choose(&["keys"]);
            session.out.array(&drop_in_rows())?;
        }
        ScriptCommand::List { drop_in: false } => session.out.array(&rows(layout)?)?,
        ScriptCommand::Show { name, drop_in, lang } => {
            let drop_in = drop_in.as_deref().and_then(|name| DROP_INS.iter().find(|script| script.name == name));
            let script = match drop_in {
                Some(script) => script,
                None => named(name.as_deref().unwrap_or_default(), layout)?,
            };
            match lang {
                Some(language) => {
                    require_for_backends(script)?;
                    if !language.knows(script.name) {
                        return Err(Failure::usage("borrowing between shards is printed in java-jedis, go and python")
                            .hint("their texts show each step; the headers of peek, lend and borrow have keys, arguments and replies"));
                    }
                    session.out.text(&calls::call(*language, script, layout)?);
                }
                None => session.out.text(script.text),
            }
        }
        ScriptCommand::Load => {
            activities::load_scripts(&mut session.store(layout)?)?;
            session.out.array(&rows(layout)?)?;
        }
    }
    Ok(Exit::Done)
}

fn named(name: &str, layout: Layout) -> Result<&'static Script> {
    let all = Script::all(layout.kind());
    if HOLD_SCRIPTS.contains(&name) {
        require_users(layout, &format!("script show {name}"))?;
    }
    all.iter().find(|script| script.name == name).copied().ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|script| script.name).collect();
        let failure = Failure::usage(format!("no script is named `{}`", name.escape_debug()));
        let hint = match DROP_INS.iter().find(|script| script.name == name) {
            Some(_) => format!("the drop-in script is `seckill script show --drop-in {name}`"),
            None => format!("there are {}", names.join(", ")),
        };
        failure.hint(hint)
    })
}

/// The calls of other scripts cannot be printed. Most are called by the tool alone: their arguments are its own, and may change
/// with any version.
fn require_for_backends(script: &Script) -> Result<()> {
    if calls::purpose(script.name).is_some() {
        return Ok(());
    }
    if matches!(script.name, "peek" | "lend") {
        let failure = Failure::usage(format!("a call of `{}` is part of that of `borrow`", script.name));
        return Err(failure.hint("`seckill script show borrow --lang python`, or java-jedis or go"));
    }
    let command = match script.name {
        "deduct_file" => "deduct --from FILE",
        "multi_deduct_file" => "multi-deduct --from FILE",
        "refund_file" => "refund --from FILE",
        "hold_file" => "hold --from FILE",
        "settle_file" => "confirm --from FILE",
        "snapshot" => "inspect",
        "trim" => "ledger trim",
        "adopt" => "preheat --adopt",
        "parent" | "preheat_shard" => "preheat",
        name => name,
    };
    let failure = Failure::usage(format!(
        "the script `{}` is for this tool alone: its arguments may change with any version",
        script.name
    ));
    Err(failure.hint(format!("use `seckill {command}`; backends call deduct, refund, multi_deduct, hold and settle")))
}

fn drop_in_rows() -> Vec<ScriptRow> {
    let keys = |script: &Script| match script.name {
        "sku-multi" => format!("{} … for each SKU", script.key_patterns().join(" ")),
        _ => script.key_patterns().join(" "),
    };
    DROP_INS.iter().map(|script| ScriptRow::new(script, keys(script))).collect()
}

fn rows(layout: Layout) -> Result<Vec<ScriptRow>> {
    let any: ActivityId = "<id>".parse().context("a placeholder for an activity")?;
    let keys = Keys::of(layout, &any);
    let all = keys.all().collect::<Vec<_>>().join(" ");
    let keys = keys.in_order().collect::<Vec<_>>().join(" ");
    let keys = |script: &Script| match script.name {
        "multi_deduct" | "multi_deduct_file" | "deduct_file" | "refund_file" => format!("{keys} … for each activity"),
        _ if script.knows_holds() => all.clone(),
        _ => keys.clone(),
    };
    Ok(Script::all(layout.kind()).into_iter().map(|script| ScriptRow::new(script, keys(script))).collect())
}
