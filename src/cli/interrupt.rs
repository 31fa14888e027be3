//! Ctrl-C, and SIGTERM and SIGHUP, which mean the same: stop at a whole order, say what was done, leave nothing behind.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, Once, PoisonError};

use nix::sys::signal::{SigSet, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::cli::failure::Exit;
use crate::redis::system;

static REQUESTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
static GRACEFUL: AtomicBool = AtomicBool::new(false);

/// What must be done before the process may end at once.
static AT_EXIT: Mutex<Vec<Box<dyn FnOnce() + Send>>> = Mutex::new(Vec::new());

/// Whether the user asked to stop. Long commands look at it between whole orders.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// From now on the first Ctrl-C only asks: the command stops by itself. A second one ends it at once.
pub fn stop_gracefully() {
    listen();
    GRACEFUL.store(true, Ordering::Relaxed);
}

/// From now on the first Ctrl-C ends the wait for a reply, so that the command says which request id settles its order. A second one
/// ends it at once. It needs no thread, which would cost more than the order.
pub fn end_waits() {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // If it is refused, the system ends the command.
        let _ = flag::register_conditional_shutdown(signal, Exit::Interrupted as i32, Arc::clone(&REQUESTED));
        let _ = flag::register(signal, Arc::clone(&REQUESTED));
    }
    system::end_waits_when(requested);
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
/// own has [`end_waits`].
pub fn listen() {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| {
        // Without it Ctrl-C ends the process at once, which every command survives: it can be sent again.
        let _ = ctrlc::set_handler(|| {
            let again = REQUESTED.swap(true, Ordering::Relaxed);
            if GRACEFUL.load(Ordering::Relaxed) && !again {
                return;
            }
            clean_up();
            std::process::exit(Exit::Interrupted as i32);
        });
        // A signal ends whatever system call its thread is in, and a reply that is waited for would count as lost. So the
        // thread that listens gets them all: it alone was there before. Children begin without this: `std` sees to it.
        let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
        // If it is refused, an order in flight is in doubt, and the same command resumes.
        let _ = signals.thread_block();
    });
}
