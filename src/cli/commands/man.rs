//! `seckill man`: the help of a command as a page for `man`.

use std::path::{Path, PathBuf};

use clap::Command;
use clap_mangen::Man;
use roff::{Roff, bold, roman};

use crate::cli::args::Global;
use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::output::Output;
use crate::cli::{command_line, help};
use crate::error::cause;

/// Print manual pages
///
/// Without COMMAND, the page of seckill itself, with the options of every command. `make install` installs all pages.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "
seckill man > seckill.1
seckill man ledger trim > seckill-ledger-trim.1
# All pages
seckill man --to ~/.local/share/man/man1
")]
pub struct ManArgs {
    /// Command to print the page of, such as `ledger trim`
    #[arg(value_name = "COMMAND", conflicts_with = "to")]
    command: Vec<String>,
    /// Write all pages to a directory, a file each
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
}

/// Prints a page, or writes all of them.
pub fn run(args: ManArgs, _: &Global, out: &mut Output) -> Result<Exit> {
    let root = command_line();
    if let Some(directory) = &args.to {
        let mut count = 0;
        std::fs::create_dir_all(directory).map_err(|error| {
            Failure::failed(format!("cannot make the directory `{}`: {}", directory.display(), cause(&error)))
        })?;
        write_all(&root, "", directory, &mut count, out)?;
        out.note(format!("{count} pages written to `{}`", directory.display()));
        return Ok(Exit::Done);
    }
    let mut command = &root;
    for name in &args.command {
        command = command.find_subcommand(name).ok_or_else(|| {
            Failure::usage(format!("there is no command `{}`", args.command.join(" ").escape_debug()))
                .hint("`seckill --help` lists them")
        })?;
    }
    out.text(&page(command, &args.command.join(" ")));
    Ok(Exit::Done)
}

fn write_all(command: &Command, path: &str, directory: &Path, count: &mut usize, out: &Output) -> Result<()> {
    let target = directory.join(format!("{}.1", title(path)));
    let mut file = out.create("--to", &target)?;
    file.append(page(command, path).as_bytes())?;
    file.commit()?;
    *count += 1;
    for below in command.get_subcommands() {
        write_all(below, format!("{path} {}", below.get_name()).trim(), directory, count, out)?;
    }
    Ok(())
}

/// `seckill-ledger-trim`
fn title(path: &str) -> String {
    format!("seckill {path}").trim().replace(' ', "-")
}

/// The page of a command; `path` is what follows `seckill`.
fn page(command: &Command, path: &str) -> String {
    let whole = format!("seckill {path}").trim().to_owned();
    let named = command.clone().display_name(title(path)).bin_name(&whole);
    let usage = named.clone().render_usage().to_string().replace("Usage: ", "");
    let man = Man::new(named.disable_help_subcommand(true))
        .title(title(path).to_uppercase())
        .section("1")
        .source(concat!("seckill ", env!("CARGO_PKG_VERSION")))
        .manual("seckill");
    let mut text = Vec::new();
    // Writing to memory cannot fail.
    let _ = man.render_title(&mut text);
    let _ = man.render_name_section(&mut text);
    let mut page = Roff::new();
    page.control("SH", ["SYNOPSIS"]);
    for (index, line) in usage.lines().enumerate() {
        if index > 0 {
            page.control("br", []);
        }
        page.text([bold(line.trim())]);
    }
    text.extend_from_slice(page.render().as_bytes());
    let _ = man.render_description_section(&mut text);
    if command.get_arguments().next().is_some() {
        let _ = man.render_options_section(&mut text);
    }
    let mut page = Roff::new();
    let below: Vec<&Command> = command.get_subcommands().collect();
    if !below.is_empty() {
        page.control("SH", ["COMMANDS"]);
        for command in below {
            let path = format!("{path} {}", command.get_name());
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            page.control("TP", []).text([bold(format!("{}(1)", title(path.trim())))]).text([roman(about)]);
        }
    }
    if path.is_empty() {
        let sections = [("LAYOUTS", help::layouts()), ("ENVIRONMENT", help::ENVIRONMENT.to_owned())];
        for (heading, lines) in sections.into_iter().chain([("EXIT STATUS", help::EXIT_CODES.to_owned())]) {
            verbatim(&mut page, heading, &lines);
        }
    }
    verbatim(&mut page, "EXAMPLES", &help::examples(command));
    if !path.is_empty() {
        page.control("SH", ["SEE ALSO"]);
        page.text([bold("seckill"), roman("(1) has the options that every command takes, and the exit statuses.")]);
    }
    text.extend_from_slice(page.render().as_bytes());
    String::from_utf8_lossy(&text).into_owned()
}

/// A section whose lines stay as they are.
fn verbatim(page: &mut Roff, heading: &str, lines: &str) {
    page.control("SH", [heading]).control("nf", []);
    for line in lines.trim_matches('\n').lines() {
        page.text([roman(line)]);
    }
    page.control("fi", []);
}
