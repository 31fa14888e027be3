//! Whether a change of a protected context is meant: its name says so, typed or by `--confirm`.

use crate::cli::Mutating;
use crate::cli::failure::Failure;
use crate::cli::output::Output;

/// What the command line says about it.
#[derive(Debug, Clone, Copy)]
pub struct Consent<'a> {
    pub dry_run: bool,
    /// The name that `--confirm` gives.
    pub confirm: Option<&'a str>,
}

impl<'a> Consent<'a> {
    pub fn of(mutating: &'a Mutating) -> Self {
        Self { dry_run: mutating.dry_run, confirm: mutating.confirm.as_deref() }
    }

    /// Checks the name, or asks for it. `context` is the one in use; `protected_by` are the protected contexts of its server,
    /// which `shown` names.
    ///
    /// # Errors
    /// The name is another one, or nobody is there to ask. Nothing was changed.
    pub fn given(
        self,
        context: Option<&str>,
        protected_by: &[String],
        shown: &str,
        out: &Output,
    ) -> Result<(), Failure> {
        let protection = protected_by.first().map(String::as_str);
        let Some(name) = self.confirm else {
            return match protection {
                Some(protection) if !self.dry_run => out.terminal().confirm_name(protection, shown),
                _ => Ok(()),
            };
        };
        match protection.or(context) {
            Some(context) if context == name || protected_by.iter().any(|protection| protection == name) => Ok(()),
            Some(context) => Err(Failure::usage(format!("`--confirm {name}`, but the context is `{context}`"))
                .hint("nothing was changed; `--context NAME` chooses another")),
            None => Err(Failure::usage(format!("`--confirm {name}`, but no context is in use: this is {shown}"))
                .hint("nothing was changed; `--context NAME` chooses one")),
        }
    }
}
