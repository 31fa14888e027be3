//! `-o prometheus`: where the text goes, and what it says when the server does not answer.

use std::path::PathBuf;

use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::output::format::prometheus::{Exposition, families};
use crate::cli::output::{Format, Output};
use crate::cli::shared::session::own_clock;
use crate::store::Store;

#[derive(Debug, Clone, Default, clap::Args)]
pub struct MetricsArgs {
    /// Write the metrics of -o prometheus to FILE
    ///
    /// It is written beside its place and renamed, for the textfile collector of node_exporter. If the server cannot be
    /// reached, it says `seckill_up 0`.
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
}

families! {
    UP: Gauge "seckill_up", "Whether the server answered the command.";
    READ_AT: Gauge "seckill_read_timestamp_seconds", "When the command ended, in Unix time.";
}

impl MetricsArgs {
    /// Whether metrics are wanted.
    ///
    /// # Errors
    /// A file is named, but no metrics are wanted.
    pub fn are_wanted(&self, format: Format) -> Result<bool> {
        let is_prometheus = format == Format::Prometheus;
        if self.to.is_some() && !is_prometheus {
            return Err(Failure::usage(format!("`--to` needs `-o prometheus`, and the output is {}", format.name()))
                .hint("add `-o prometheus`, or send standard output to the file"));
        }
        Ok(is_prometheus)
    }

    /// Whether they go to a file.
    pub fn has_file(&self) -> bool {
        self.to.is_some()
    }

    /// Prints what `read` finds. If the server cannot be asked, the text says that, and the error remains one.
    ///
    /// # Errors
    /// Those of `read`, and a file that cannot be written.
    pub fn write(
        &self,
        command: &str,
        store: &mut Store,
        out: &mut Output,
        read: impl FnOnce(&mut Store, &mut Output, &mut Exposition) -> Result<Exit>,
    ) -> Result<Exit> {
        // What cannot be written is said before anything is read.
        let file = self.to.as_ref().map(|path| out.create("--to", path)).transpose()?;
        let common = || vec![("server", store.servers.target().label()), ("layout", store.layout().name().to_owned())];
        let (mut text, mut found) = (Exposition::new(common()), Exposition::new(common()));
        let ended = read(store, out, &mut found);
        // Of a server that answered, there may be nothing to audit.
        let has_answered = match &ended {
            Ok(_) => Some(true),
            Err(failure) if failure.exit == Exit::Refused => Some(true),
            Err(failure) if failure.store().is_some() => Some(false),
            Err(_) => None,
        };
        if let Some(has_answered) = has_answered {
            let labels = [("command", command)];
            text.family(UP).add(&labels, Some(u8::from(has_answered)));
            let now = own_clock().get();
            text.family(READ_AT).add(&labels, Some(format!("{}.{:03}", now / 1000, now % 1000)));
            if ended.is_ok() {
                text.append(&found);
            }
            match file {
                Some(mut file) => {
                    file.append(text.text().as_bytes())?;
                    // The collector is another user.
                    file.commit_readable()?;
                }
                None => out.text(text.text()),
            }
        }
        ended
    }
}
