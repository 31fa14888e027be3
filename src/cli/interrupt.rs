//! Ctrl-C, and SIGTERM and SIGHUP, which mean the same: stop at a whole order, say what was done, leave nothing behind.

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, OnceLock, PoisonError};

use nix::libc;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

use crate::cli::failure::Exit;

const SIGNALS: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];

static REQUESTED: AtomicBool = AtomicBool::new(false);
static GRACEFUL: AtomicBool = AtomicBool::new(false);
static LISTENING: Once = Once::new();

/// What a command of one call says if a Ctrl-C ends it: an order whose id nobody knows would be placed anew.
static LAST_WORDS: OnceLock<String> = OnceLock::new();
/// Whether its answer is printed, so that they need not be said.
static ANSWERED: AtomicBool = AtomicBool::new(false);

/// What must be done before the process may end at once.
static AT_EXIT: Mutex<Vec<Box<dyn FnOnce() + Send>>> = Mutex::new(Vec::new());

/// Whether the user asked to stop. Long commands look at it between whole orders.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// From now on a file that grows beyond `ulimit -f` is an error of its writer, and does not end the process. A handler, unlike a signal
/// that is ignored, is not passed on to children.
#[allow(unsafe_code, reason = "there is no other way to catch a signal without a thread")]
pub fn survive_file_limit() {
    extern "C" fn ignore(_: libc::c_int) {}
    if !is_ignored(Signal::SIGXFSZ) {
        // SAFETY: the handler does nothing.
        let _ = unsafe { nix::sys::signal::signal(Signal::SIGXFSZ, SigHandler::Handler(ignore)) };
    }
}

/// From now on the first Ctrl-C only asks: the command stops by itself. A second one ends it at once.
pub fn stop_gracefully() {
    listen();
    GRACEFUL.store(true, Ordering::Relaxed);
}

/// From now on a Ctrl-C ends the process at once, with these words. It needs no thread, which would cost more than the order.
#[allow(unsafe_code, reason = "there is no other way to say something when the process ends, but a thread")]
pub fn end_with(words: String) {
    extern "C" fn end(_: libc::c_int) {
        say_last_words();
        // SAFETY: a handler may call it.
        unsafe { libc::_exit(Exit::Interrupted as i32) }
    }
    // The thread that listens says them, and stops a private server.
    if LAST_WORDS.set(words).is_err() || LISTENING.is_completed() {
        return;
    }
    // A second Ctrl-C ends it even if nobody reads the words.
    let flags = SaFlags::SA_RESETHAND | SaFlags::SA_NODEFER;
    let action = SigAction::new(SigHandler::Handler(end), flags, SigSet::empty());
    for signal in SIGNALS.into_iter().filter(|signal| !is_ignored(*signal)) {
        // SAFETY: the handler only writes bytes that never change, and ends the process.
        let _ = unsafe { sigaction(signal, &action) };
    }
}

/// Whether a signal is ignored, as SIGHUP is behind `nohup`: then it stays so.
#[allow(unsafe_code, reason = "nix only replaces what a signal does")]
fn is_ignored(signal: Signal) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without an action to set, it writes the present one, and zeros are an action, too.
    unsafe {
        libc::sigaction(signal as libc::c_int, ptr::null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// The answer is printed: a Ctrl-C from now on has nothing to say.
pub fn answered() {
    ANSWERED.store(true, Ordering::Relaxed);
}

/// A handler of signals may call it: it writes bytes that never change.
fn say_last_words() {
    if let Some(words) = LAST_WORDS.get().filter(|_| !ANSWERED.load(Ordering::Relaxed)) {
        let _ = rustix::io::write(std::io::stderr(), words.as_bytes());
    }
}

/// Does something that must not be cut short; a Ctrl-C meanwhile ends the process right after it.
pub fn uncut<T>(action: impl FnOnce() -> T) -> T {
    listen();
    let before = GRACEFUL.swap(true, Ordering::Relaxed);
    let done = action();
    GRACEFUL.store(before, Ordering::Relaxed);
    if requested() && !before {
        clean_up();
        std::process::exit(Exit::Interrupted as i32);
    }
    done
}

/// What to do when the process ends at once; what was given last is done first.
pub fn at_exit(action: impl FnOnce() + Send + 'static) {
    AT_EXIT.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(action));
}

/// Does what [`at_exit`] was given, once.
pub fn clean_up() {
    let actions = std::mem::take(&mut *AT_EXIT.lock().unwrap_or_else(PoisonError::into_inner));
    for action in actions.into_iter().rev() {
        action();
    }
}

/// Begins to listen, once: from now on a Ctrl-C ends the process with its exit code, after what [`at_exit`] says. A
/// command of one call does without: a thread costs more than an order. The system ends it as well, and an order without an id of its
/// own has [`end_with`].
#[allow(unsafe_code, reason = "ctrlc would also catch what is ignored")]
pub fn listen() {
    LISTENING.call_once(|| {
        let ignored: Vec<Signal> = SIGNALS.into_iter().filter(|signal| is_ignored(*signal)).collect();
        // Without it Ctrl-C ends the process at once, which every command survives: it can be sent again.
        let _ = ctrlc::set_handler(|| {
            let again = REQUESTED.swap(true, Ordering::Relaxed);
            if GRACEFUL.load(Ordering::Relaxed) && !again {
                return;
            }
            say_last_words();
            clean_up();
            std::process::exit(Exit::Interrupted as i32);
        });
        for signal in ignored {
            // SAFETY: it is what was there before.
            let _ = unsafe { nix::sys::signal::signal(signal, SigHandler::SigIgn) };
        }
        // A signal ends whatever system call its thread is in, and a reply that is waited for would count as lost. So the
        // thread that listens gets them all: it alone was there before. Children begin without this: `std` sees to it.
        let signals: SigSet = SIGNALS.into_iter().collect();
        // If it is refused, an order in flight is in doubt, and the same command resumes.
        let _ = signals.thread_block();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_grows_beyond_its_limit_does_not_end_the_process() {
        survive_file_limit();
        nix::sys::signal::raise(Signal::SIGXFSZ).unwrap();
    }
}
