//! `seckill script`: the Lua scripts, for backends that want to run the same.

use anyhow::Context;
use serde::Serialize;

use super::session::Session;
use crate::cli::error::Result;
use crate::cli::failure::{Exit, Failure};
use crate::cli::output::{Cell, columns};
use seckill::inventory::id::ActivityId;
use seckill::inventory::layout::Layout;
use seckill::store::keys::Keys;
use seckill::store::scripts::Script;

/// List, show or load the Lua scripts that backends can share
#[derive(Debug, clap::Subcommand)]
pub enum ScriptCommand {
    /// List the scripts: name, SHA-1 and keys in the layout
    List,
    /// Print a script: the exact bytes that run
    Show {
        /// Name of the script, see `script list`
        name: String,
    },
    /// Load the scripts into the server, for EVALSHA
    Load,
}

#[derive(Debug, Serialize)]
struct ScriptRow {
    name: &'static str,
    sha1: &'static str,
    keys: String,
}

columns!(row: ScriptRow {
    name;
    sha1;
    keys => Cell::text(&row.keys).flexible();
});

/// Does what is asked of the scripts; only `load` needs a server.
pub fn run(command: &ScriptCommand, session: &mut Session) -> Result<Exit> {
    let layout = session.layout(None)?;
    match command {
        ScriptCommand::List => session.out.array(&rows(layout)?)?,
        ScriptCommand::Show { name } => {
            let script = Script::all().into_iter().find(|script| script.name == name).ok_or_else(|| {
                let names: Vec<&str> = Script::all().iter().map(|script| script.name).collect();
                Failure::usage(format!("no script is named `{}`", name.escape_debug()))
                    .hint(format!("there are {}", names.join(", ")))
            })?;
            session.out.text(script.text)?;
        }
        ScriptCommand::Load => {
            session.store(layout)?.load_scripts()?;
            session.out.array(&rows(layout)?)?;
        }
    }
    Ok(Exit::Done)
}

fn rows(layout: Layout) -> Result<Vec<ScriptRow>> {
    let any: ActivityId = "<id>".parse().context("a placeholder for an activity")?;
    let keys = Keys::of(layout, &any).in_order().collect::<Vec<_>>().join(" ");
    Ok(Script::all()
        .into_iter()
        .map(|script| ScriptRow {
            name: script.name,
            sha1: script.sha1,
            keys: match script.name {
                "multi_deduct" | "mixed_orders" => format!("{keys} … for each activity"),
                _ => keys.clone(),
            },
        })
        .collect())
}
