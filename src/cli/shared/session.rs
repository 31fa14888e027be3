//! What a command needs before it can begin: an output, a layout, a server to talk to, and the consent to change it.

use std::cell::RefCell;
use std::path::Path;

use crate::cli::args::{Global, Mutating, variable};
use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::input::credentials;
use crate::cli::input::yaml::contexts::Context;
use crate::cli::interrupt;
use crate::cli::output::{Format, Output};
use crate::cli::shared::fix::Options;
use crate::cli::shared::target::{self, InUse, Standing};
use crate::error::StoreError;
use crate::model::{ActivityId, Layout};
use crate::redis::connect::Target;
use crate::redis::embedded::{Embedded, EmbeddedError, Wait};
use crate::store::{Replicated, Store};

pub use crate::cli::input::window::now as own_clock;

/// The options every command takes, and what follows from them.
pub struct Session {
    pub global: Global,
    /// The context in use.
    in_use: Option<InUse>,
    /// What waits for replicas when the command is over.
    waiting: RefCell<Option<Store>>,
    pub out: Output,
}

impl Session {
    /// Nothing is connected or started yet.
    pub fn new(global: Global) -> Result<Self> {
        let mut out = output(&global)?;
        out.name_commands_with(target::options(&global));
        let in_use = target::in_use(&global)?;
        out.protect("read", target::files(&global, in_use.as_ref()));
        target::zone(&global, in_use.as_ref())?.use_in_process();
        Ok(Self { global, in_use, waiting: RefCell::default(), out })
    }

    /// The layout: that of a file (a fixture, a plan, an archive) beats the environment, and a flag that contradicts it is refused.
    pub fn layout(&self, of_fixture: Option<Layout>) -> Result<Layout> {
        target::layout(&self.global, self.in_use.as_ref(), of_fixture)
    }

    /// A store for a layout: connects when first asked, or starts a private server now.
    pub fn store(&mut self, layout: Layout) -> Result<Store> {
        let (target, _) = self.target()?;
        self.store_at(target, layout)
    }

    /// The same for a command that changes data, and names these activities: it names its server on standard error, and if the
    /// server is that of a protected context, whichever way it was named, asks for the context's name before anything else.
    ///
    /// # Errors
    /// Nobody gave the name, or `--confirm` has another one; the layout cannot keep an activity of such an id.
    pub fn store_to_change<'a>(
        &mut self,
        layout: Layout,
        mutating: &Mutating,
        activities: impl IntoIterator<Item = &'a ActivityId>,
    ) -> Result<Store> {
        activities.into_iter().try_for_each(|activity| layout.check_id(activity)).map_err(Failure::usage)?;
        let (target, context) = self.target()?;
        let name = context.map(|context| context.name.clone());
        let Standing { protected_by, overrides } = target::standing(&self.global, self.in_use.as_ref(), &target)?;
        let shown = match (&name, &self.global.embedded) {
            (Some(name), _) => format!("{name} ({}, layout {})", target.shown, layout.name()),
            (None, Some(_)) => format!("a private server (layout {})", layout.name()),
            (None, None) => format!("{} (layout {})", target.shown, layout.name()),
        };
        self.out.set_target(&match overrides {
            Some((variable, context)) => format!("{shown}: `{variable}` overrides the context `{context}`"),
            None => shown.clone(),
        });
        consent(mutating, name.as_deref(), &protected_by, &shown, &self.out)?;
        self.out.set_dry_run(mutating.dry_run);
        let store = self.store_at(target, layout)?;
        self.waiting.borrow_mut().iter_mut().for_each(|waiting| waiting.require_replicas(mutating.wait_replicas));
        Ok(store)
    }

    /// Refuses the default server for what should not happen to a server by accident.
    pub fn require_named(&self, what: &str) -> Result<()> {
        if target::is_named(&self.global, self.in_use.as_ref())? {
            return Ok(());
        }
        Err(Failure::usage(format!("{what} needs a server that is named"))
            .hint("give `--url URL` or `--context NAME`, or try a private server with `--embedded`"))
    }

    fn store_at(&mut self, target: Target, layout: Layout) -> Result<Store> {
        // That of a fixture or an archive; one of their own keys has no name.
        if self.layout(None).is_ok_and(|given| given != layout) {
            let name = Layout::named(layout.name()).map_or("FILE", |named| named.name());
            self.out.name_commands_with(format!(" -l {name}{}", target::options(&self.global)));
        }
        self.out.detail(format!("server {}, layout {}", target.shown, layout.name()));
        let store = Store::new(target, layout, operator()?).stop_when(interrupt::requested);
        *self.waiting.borrow_mut() = Some(store.unconnected_copy());
        Ok(store)
    }

    /// The server, and the context that it is of. A private one is started.
    fn target(&self) -> Result<(Target, Option<&Context>)> {
        if let Some(directory) = &self.global.embedded {
            return Ok((self.start_embedded(directory)?, None));
        }
        let run = |command: &str| credentials::password_of_command(command);
        target::target(&self.global, self.in_use.as_ref(), run)
    }

    /// What a command that is printed needs for the same server and layout.
    pub fn options(&self) -> Result<Options> {
        Options::of(&self.global, self.in_use.as_ref())
    }

    /// Waits for the replicas of `--wait-replicas`, once for all that the command changed. What a command that failed
    /// did is waited for when it is repeated.
    ///
    /// # Errors
    /// Fewer replicas have it, or nobody can say.
    pub fn wait_for_replicas(&self, exit: Exit) -> Result<Exit> {
        let Some(mut store) = self.waiting.take() else { return Ok(exit) };
        let failure = match store.wait_for_replicas() {
            Ok(None) => return Ok(exit),
            Ok(Some(short)) => few_replicas(&short),
            Err(error) => {
                let why = match &error {
                    StoreError::Unknown { why, .. } => why.clone(),
                    error => error.to_string(),
                };
                let failure = Failure::from(error).in_part();
                let message = format!("applied, but whether replicas have it is not known: {why}");
                let hint = failure.hint.clone().unwrap_or_else(|| {
                    "orders with `--request`, `preheat` and `pause` wait anew if they are sent again, and apply nothing twice; for anything else \
                     see INFO replication on the server"
                        .to_owned()
                });
                Failure { message, hint: Some(hint), ..failure }
            }
        };
        Err(Failure { exit: Exit::Unknown, ..failure })
    }

    /// Runs a command that needs no fixture.
    pub fn with(&mut self, command: impl FnOnce(&mut Store, &mut Output) -> Result<Exit>) -> Result<Exit> {
        let mut store = self.store(self.layout(None)?)?;
        command(&mut store, &mut self.out)
    }

    /// Runs a command that changes data and needs no fixture.
    pub fn change<'a>(
        &mut self,
        mutating: &Mutating,
        activities: impl IntoIterator<Item = &'a ActivityId>,
        command: impl FnOnce(&mut Store, &mut Output) -> Result<Exit>,
    ) -> Result<Exit> {
        let mut store = self.store_to_change(self.layout(None)?, mutating, activities)?;
        command(&mut store, &mut self.out)
    }

    /// Starts a private server or cluster, which stops at exit.
    fn start_embedded(&self, directory: &Path) -> Result<Target> {
        let kept = (!directory.as_os_str().is_empty()).then_some(directory);
        let nodes = self.global.nodes.map(usize::from);
        // A server whose stop is not yet arranged must not be left behind by a Ctrl-C.
        let mut target = interrupt::uncut(|| {
            let wait =
                Wait { at_most: self.global.timeout(), stop: &interrupt::requested, note: &|note| self.out.note(note) };
            let server = Embedded::start(kept, nodes, &wait)?;
            let target = server.target.clone();
            // It must stop however the command ends, Ctrl-C included.
            interrupt::at_exit(move || drop(server));
            Ok::<_, EmbeddedError>(target)
        })
        .map_err(Failure::from)?;
        if kept.is_none() {
            let what = if nodes.is_some() { "cluster" } else { "server" };
            self.out.note(format!(
                "a private {what} was started; its data is discarded at the end (`--embedded=DIR` keeps it)"
            ));
        }
        target.timeout = self.global.timeout();
        Ok(target)
    }
}

/// Checks the name that `--confirm` gives, or asks for it. `context` is the one in use; `protected_by` are the protected contexts
/// of its server, which `shown` names.
///
/// # Errors
/// The name is another one, or nobody is there to ask. Nothing was changed.
fn consent(
    mutating: &Mutating,
    context: Option<&str>,
    protected_by: &[String],
    shown: &str,
    out: &Output,
) -> Result<()> {
    let protection = protected_by.first().map(String::as_str);
    let Some(name) = &mutating.confirm else {
        return match protection {
            Some(protection) if !mutating.dry_run => out.confirm_name(protection, shown),
            _ => Ok(()),
        };
    };
    match protection.or(context) {
        Some(context) if context == name || protected_by.contains(name) => Ok(()),
        Some(context) => Err(Failure::usage(format!("`--confirm {name}`, but the context is `{context}`"))
            .hint("nothing was changed; `--context NAME` chooses another")),
        None => Err(Failure::usage(format!("`--confirm {name}`, but no context is in use: this is {shown}"))
            .hint("nothing was changed; `--context NAME` chooses one")),
    }
}

/// The output that the options ask for.
///
/// # Errors
/// `--bom` with another format than csv.
pub fn output(global: &Global) -> Result<Output> {
    let mut out = Output::new(global.output(), global.color, global.quiet, global.verbose);
    if global.bom && global.output() != Format::Csv {
        return Err(Failure::usage(format!("`--bom` is of csv, and the output is {}", global.output().name()))
            .hint("add `-o csv`, or leave `--bom` out"));
    }
    out.bom = global.bom;
    Ok(out)
}

/// What was applied is not where it should be too.
fn few_replicas(short: &Replicated) -> Failure {
    let Replicated { server, wanted, replicas, is_alone } = short;
    let message = match is_alone {
        true => format!("applied, but the server at `{server}` has no replica"),
        false => format!("applied, but {replicas} of {wanted} replicas of `{server}` have it"),
    };
    Failure::new(Exit::Unknown, message).hint(match is_alone {
        true => "connect a replica to it, or leave `--wait-replicas` out",
        false => {
            "what was reported as ok is applied, and a failover now could lose it: see INFO replication on the server, \
             or wait longer with `--timeout 30s`"
        }
    })
}

/// Who does this, for the ledger: the operating system's user at this host, unless `SECKILL_OPERATOR` says otherwise.
fn operator() -> Result<String> {
    if let Some(named) = variable("SECKILL_OPERATOR")? {
        return Ok(named);
    }
    // The variable first: asking the system reads its name service, which takes longer than an order.
    let login = |name| variable(name).ok().flatten();
    let user = login("USER").or_else(|| login("LOGNAME")).or_else(|| whoami::username().ok());
    let host = whoami::hostname().unwrap_or_else(|_| "unknown".to_owned());
    Ok(format!("{}@{host}", user.unwrap_or_else(|| "unknown".to_owned())))
}
