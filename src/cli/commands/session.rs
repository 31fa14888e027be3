//! What a command needs before it can begin: an output, a layout, and a server to talk to.

use std::cell::RefCell;
use std::path::Path;

use crate::cli::Global;
use crate::cli::environment::variable;
use crate::cli::error::Result;
use crate::cli::failure::{Exit, Failure};
use crate::cli::input::{certificates, password};
use crate::cli::interrupt;
use crate::cli::output::{Format, Output};
use seckill::inventory::layout::Layout;
use seckill::store::connect::{Certificates, Target};
use seckill::store::embedded::{Address, Embedded, EmbeddedError, Wait};
use seckill::store::{Replicated, Store};

const DEFAULT_URL: &str = "redis://127.0.0.1:6379";

/// The options every command takes, and what follows from them.
pub struct Session {
    global: Global,
    /// What waits for replicas when the command is over.
    waiting: RefCell<Option<Store>>,
    pub out: Output,
}

impl Session {
    /// Nothing is connected or started yet.
    pub fn new(global: Global) -> Result<Self> {
        let mut out = Output::new(global.output(), global.color, global.quiet, global.verbose);
        if global.bom && global.output() != Format::Csv {
            return Err(Failure::usage(format!("`--bom` is of csv, and the output is {}", global.output().name()))
                .hint("add `-o csv`, or leave `--bom` out")
                .into());
        }
        out.set_bom(global.bom);
        global.timezone().use_in_process();
        Ok(Self { global, waiting: RefCell::default(), out })
    }

    /// The layout: the fixture's beats the environment, and a flag that contradicts it is refused.
    pub fn layout(&self, of_fixture: Option<Layout>) -> Result<Layout> {
        if let (Some(flag), Some(fixture)) = (self.global.layout, of_fixture)
            && flag != fixture
        {
            return Err(Failure::usage(format!(
                "`--layout {}` contradicts the fixture, which says `layout: {}`",
                flag.name(),
                fixture.name()
            ))
            .hint("leave the flag out, or change the fixture")
            .into());
        }
        if let Some(layout) = self.global.layout.or(of_fixture) {
            return Ok(layout);
        }
        match variable("SECKILL_LAYOUT")? {
            Some(name) => Layout::named(&name).ok_or_else(|| {
                Failure::usage(format!("`SECKILL_LAYOUT` is `{}`, which is no layout", name.escape_debug()))
                    .hint("expected seckill, sku, coupon, product or cluster")
                    .into()
            }),
            None => Ok(Layout::default()),
        }
    }

    /// A store for a layout: connects when first asked, or starts a private server now.
    pub fn store(&self, layout: Layout) -> Result<Store> {
        let target = match &self.global.embedded {
            Some(directory) => self.start_embedded(directory)?,
            None => self.target()?,
        };
        self.out.detail(format!("server {}, layout {}", target.shown, layout.name()));
        let store = Store::new(target, layout, operator()?).stop_when(interrupt::requested);
        *self.waiting.borrow_mut() = Some(store.sibling());
        Ok(store)
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
                let failure = Failure::from(error);
                let message = format!("applied, but whether replicas have it is not known: {}", failure.message);
                Failure { message, ..failure }
            }
        };
        Err(Failure { exit: Exit::Unknown, ..failure }.into())
    }

    /// The server of the flag, else of the environment, and how to log in there.
    fn target(&self) -> Result<Target> {
        let (url, source) = match (&self.global.url, variable("SECKILL_URL")) {
            (Some(url), _) => (url.clone(), "the value of `--url`"),
            (None, Err(failure)) => return Err(failure.into()),
            (None, Ok(Some(url))) => (url, "the value of the environment variable `SECKILL_URL`"),
            (None, Ok(None)) => match variable("REDIS_URL")? {
                Some(url) => (url, "the value of the environment variable `REDIS_URL`"),
                None => (DEFAULT_URL.to_owned(), "the default"),
            },
        };
        let mut target = Target::new(&url, source, self.global.timeout())?;
        if let Some(path) = &self.global.password_file {
            target.set_password(password::of_file(path)?);
        } else if !target.has_password() {
            let password = match variable("SECKILL_PASSWORD")? {
                Some(password) => Some(password),
                None => variable("REDISCLI_AUTH")?,
            };
            password.into_iter().for_each(|password| target.set_password(password));
        }
        if target.primary_name().is_some()
            && let Some(password) = variable("SECKILL_SENTINEL_PASSWORD")?
        {
            target.set_sentinel_password(password);
        }
        if let Some(certificates) = self.certificates(&target)? {
            target.set_certificates(&certificates)?;
        }
        Ok(target)
    }

    /// The files of `--cacert`, `--cert` and `--key`, if the server is one with TLS.
    fn certificates(&self, target: &Target) -> Result<Option<Certificates>> {
        let Global { cacert, cert, key, .. } = &self.global;
        let given = [("--cacert", cacert), ("--cert", cert), ("--key", key)];
        let Some((flag, _)) = given.iter().find(|(_, file)| file.is_some()) else { return Ok(None) };
        if !target.has_tls() {
            return Err(Failure::usage(format!("`{flag}` is for TLS, and `{}` is without", target.shown))
                .hint("write rediss:// instead of redis://, or leave it out")
                .into());
        }
        let client = match (cert, key) {
            (Some(cert), Some(key)) => Some((
                certificates::of_file("certificate", "--cert", cert)?,
                certificates::of_file("private key", "--key", key)?,
            )),
            (None, None) => None,
            (cert, _) => {
                let (given, missing) = if cert.is_some() { ("--cert", "--key") } else { ("--key", "--cert") };
                return Err(Failure::usage(format!("`{given}` needs `{missing}`"))
                    .hint("give the client's certificate and its private key, a PEM file each")
                    .into());
            }
        };
        let ca = cacert.as_ref().map(|path| certificates::of_file("CA file", "--cacert", path)).transpose()?;
        Ok(Some(Certificates { ca, client }))
    }

    /// Runs a command that needs no fixture.
    pub fn with(&mut self, command: impl FnOnce(&mut Store, &mut Output) -> Result<Exit>) -> Result<Exit> {
        let mut store = self.store(self.layout(None)?)?;
        command(&mut store, &mut self.out)
    }

    /// Starts a private server or cluster, which stops at exit.
    fn start_embedded(&self, directory: &Path) -> Result<Target> {
        let kept = (!directory.as_os_str().is_empty()).then_some(directory);
        let nodes = self.global.nodes.map(usize::from);
        // A server whose stop is not yet arranged must not be left behind by a Ctrl-C.
        let address = interrupt::uncut(|| {
            let wait =
                Wait { at_most: self.global.timeout(), stop: &interrupt::requested, note: &|note| self.out.note(note) };
            let server = Embedded::start(kept, nodes, &wait)?;
            let address = server.address().clone();
            // It must stop however the command ends, Ctrl-C included.
            interrupt::at_exit(move || drop(server));
            Ok::<_, EmbeddedError>(address)
        })?;
        if kept.is_none() {
            let what = if nodes.is_some() { "cluster" } else { "server" };
            self.out.note(format!(
                "a private {what} was started; its data is discarded at the end (`--embedded=DIR` keeps it)"
            ));
        }
        Ok(match address {
            Address::Socket(socket) => Target::of_socket(&socket, self.global.timeout())?,
            Address::Cluster { url, password } => {
                let mut target = Target::new(&url, "the private cluster", self.global.timeout())?;
                target.set_password(password);
                target
            }
        })
    }
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
