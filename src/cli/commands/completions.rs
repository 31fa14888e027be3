//! `seckill completions`: what a shell runs to complete a command line, and what it is answered.

use std::ffi::{OsStr, OsString};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use clap::{Arg, Command, FromArgMatches, ValueHint};
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter};
use clap_complete::env::Shells;

use crate::admin::activities;
use crate::cli::args::{Global, config_file};
use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::input::yaml::contexts;
use crate::cli::output::Output;
use crate::cli::shared::target;
use crate::model::{ActivityId, Kind, Layout};
use crate::names;
use crate::script::Script;
use crate::store::Store;

/// By which the script of a shell says that it wants completions, and that it is that shell.
pub const VARIABLE: &str = "SECKILL_COMPLETE";

/// Behind the script of bash, which parts words at `:`, `=` and `@`, as in `-u HOST:6380`: puts them together again.
const WHOLE_WORDS: &str = r#"
_seckill() {
    local words=() line=$COMP_LINE word index typed=${COMP_WORDS[COMP_CWORD]}
    for ((index = 0; index <= COMP_CWORD; index++)); do
        word=${COMP_WORDS[index]}
        [[ $index -lt $COMP_CWORD || $word == [:=@]* ]] || word=$2
        if [[ $index -gt 0 && -n $word && $line == "$word"* ]]; then
            words[${#words[@]}-1]+=$word
        else
            words+=("$word")
        fi
        line=${line#*"$word"}
    done
    local last=$((${#words[@]} - 1))
    local COMP_WORDS=("${words[@]}") COMP_CWORD=$last prefix=${words[last]%"$2"}
    # Before what a shell acts on there is a backslash
    [[ $typed == [\"\']* ]] || COMP_WORDS[last]=${words[last]//\\}
    _clap_complete_seckill "$1" "${COMP_WORDS[last]}" "$3"
    # bash replaces what follows the last of them
    COMPREPLY=("${COMPREPLY[@]#"$prefix"}")
    for index in "${!COMPREPLY[@]}"; do
        word=${COMPREPLY[index]%[= ]}
        # Behind a quote nothing is offered that it does not cover
        case $typed in
        \'*) [[ $word != *\'* ]] || unset "COMPREPLY[index]"; continue ;;
        \"*) [[ $word != *[\$\`\"\\]* ]] || unset "COMPREPLY[index]"; continue ;;
        esac
        line=${COMPREPLY[index]#"$word"}
        [[ $word != *[^[:alnum:].,:@%+=~/_-]* ]] || printf -v word %q "$word"
        case $typed in
        "~/"*) [[ $word != "\\~"* ]] || word=${word#?} ;;
        *) [[ $word != "~"* ]] || word=\\$word ;;
        esac
        COMPREPLY[index]=$word$line
    done
}
"#;

/// Behind the script of zsh, for the first Tab, at which zsh reads it from a folder of `fpath`.
const FIRST_TAB: &str = "
[[ $funcstack[1] != _seckill ]] || _clap_dynamic_completer_seckill \"$@\"
";

/// A shell waits no longer than this for the server.
const PATIENCE: Duration = Duration::from_millis(100);

/// Print the completions of a shell
///
/// The script asks this binary at each Tab: for options and their values, files, contexts, and the activities of the server
/// that the command line, the environment or the context in use names. A server that does not answer within 100 ms, or whose
/// password a command must print, gives none.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "
# In this bash; in ~/.bashrc, in every one
source <(seckill completions bash)
# In zsh, in ~/.zshrc below `compinit`
source <(seckill completions zsh)
# In fish, in ~/.config/fish/config.fish
seckill completions fish | source
")]
pub struct CompletionsArgs {
    /// Shell to complete in
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
}

names! {
    #[derive(clap::ValueEnum)]
    pub enum Shell {
        Bash = "bash",
        Zsh = "zsh",
        Fish = "fish",
    }
}

/// Prints the script.
pub fn run(args: CompletionsArgs, _: &Global, out: &mut Output) -> Result<Exit> {
    let shells = Shells::builtins();
    let unknown = || Failure::failed(format!("no completions for {}", args.shell.name()));
    let shell = shells.completer(args.shell.name()).ok_or_else(unknown)?;
    let mut script = Vec::new();
    shell
        .write_registration(VARIABLE, "seckill", "seckill", "seckill", &mut script)
        .map_err(|error| Failure::failed(format!("cannot make the script: {error}")))?;
    let script = String::from_utf8_lossy(&script);
    out.text(&match args.shell {
        Shell::Bash => script.replace("-F _clap_complete_seckill", "-F _seckill") + WHOLE_WORDS,
        Shell::Zsh => script.into_owned() + FIRST_TAB,
        Shell::Fish => script.into_owned(),
    });
    Ok(Exit::Done)
}

/// Prints what may come next on the command line behind `--`. `tree` is the whole command tree.
pub fn complete(tree: fn() -> Command) -> bool {
    let tree = move || completed(tree());
    let here = std::env::current_dir().ok();
    let shells = CompleteEnv::with_factory(tree).var(VARIABLE);
    shells.try_complete(std::env::args_os(), here.as_deref()).unwrap_or(true)
}

/// The tree, with what completes activities, contexts, names of scripts and files.
fn completed(command: Command) -> Command {
    let names: Option<fn(&OsStr) -> Vec<CompletionCandidate>> = match command.get_name() {
        "use" | "remove" => Some(context_names),
        // Of `context`, and of `script`, which has drop-ins.
        "show" if command.get_arguments().all(|arg| arg.get_id() != "drop_in") => Some(context_names),
        "show" => Some(scripts),
        _ => None,
    };
    let command = command.mut_args(|arg| match (arg.get_id().as_str(), names) {
        ("activity" | "activities" | "only" | "id", _) => arg.add(ArgValueCompleter::new(activities)),
        ("items", _) => arg.add(ArgValueCompleter::new(items)),
        ("context" | "confirm", _) => arg.add(ArgValueCompleter::new(context_names)),
        ("command", _) => arg.add(ArgValueCompleter::new(commands)),
        // A directory follows only after `=`, which nobody here sees.
        ("embedded", _) => arg.value_hint(ValueHint::Other),
        ("layout", _) => arg.add(ArgValueCompleter::new(layouts)),
        ("name", Some(names)) => arg.add(ArgValueCompleter::new(names)),
        _ => with_files(arg),
    });
    command.mut_subcommands(completed)
}

/// An argument whose value is a file or a directory by its name.
fn with_files(arg: Arg) -> Arg {
    let is_named = |names: &[&str]| {
        arg.get_value_names().is_some_and(|known| known.iter().any(|name| names.contains(&name.as_str())))
    };
    if is_named(&["FILE", "FIXTURE"]) {
        return arg.value_hint(ValueHint::FilePath);
    }
    if is_named(&["DIR"]) { arg.value_hint(ValueHint::DirPath) } else { arg }
}

fn commands(current: &OsStr) -> Vec<CompletionCandidate> {
    let root = crate::cli::command_line();
    fitting(current, root.get_subcommands().map(|command| command.get_name().to_owned()))
}

fn scripts(current: &OsStr) -> Vec<CompletionCandidate> {
    fitting(current, Script::all(Kind::Hash).into_iter().map(|script| script.name.to_owned()))
}

/// Layouts that have a name, else files.
fn layouts(current: &OsStr) -> Vec<CompletionCandidate> {
    let named = fitting(current, Layout::NAMED.into_iter().map(|layout| layout.name().to_owned()));
    if named.is_empty() { PathCompleter::file().complete(current) } else { named }
}

fn activities(current: &OsStr) -> Vec<CompletionCandidate> {
    let found = preheated().into_iter().map(|activity| activity.to_string());
    fitting(current, found)
}

/// `1001=` of a multi-order.
fn items(current: &OsStr) -> Vec<CompletionCandidate> {
    fitting(current, preheated().into_iter().map(|activity| format!("{activity}=")))
}

fn context_names(current: &OsStr) -> Vec<CompletionCandidate> {
    let contexts = config_file().and_then(|file| contexts::read(&file).ok());
    fitting(current, contexts.into_iter().flat_map(|contexts| contexts.all).map(|context| context.name))
}

fn fitting(current: &OsStr, names: impl Iterator<Item = String>) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    names.filter(|name| name.starts_with(&*current)).map(CompletionCandidate::new).collect()
}

/// The preheated activities of the server that the line names, if it answers soon. The thread that asks it is left behind:
/// the process ends right after.
fn preheated() -> Vec<ActivityId> {
    let (found, result) = mpsc::channel();
    thread::spawn(move || found.send(ask().unwrap_or_default()));
    result.recv_timeout(PATIENCE).unwrap_or_default()
}

fn ask() -> Result<Vec<ActivityId>> {
    let words: Vec<OsString> = std::env::args_os().skip_while(|word| word != "--").skip(1).collect();
    let Some(global) = options(words) else { return Ok(Vec::new()) };
    if global.embedded.is_some() {
        return Ok(Vec::new());
    }
    let in_use = target::in_use(&global)?;
    let layout = target::layout(&global, in_use.as_ref(), None)?;
    // It may ask on the terminal, in the middle of the line that is completed.
    let run = |_: &str| Err::<String, _>(Failure::usage("a password command does not run for completions"));
    let (target, _) = target::target(&global, in_use.as_ref(), run)?;
    Ok(activities::preheated(&mut Store::new(target, layout, String::new()))?)
}

/// The global options of a line that is not complete.
fn options(words: Vec<OsString>) -> Option<Global> {
    let line = crate::cli::command_line().ignore_errors(true).try_get_matches_from(words).ok()?;
    let mut global = Global::from_arg_matches(&line).ok()?;
    global.wait_at_most(PATIENCE);
    Some(global)
}
