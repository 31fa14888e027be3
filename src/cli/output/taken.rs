//! Waits until whoever reads standard output has taken it out of the pipe.

use std::io;
use std::thread::sleep;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
use rustix::io::ioctl_fionread;

/// Whether whoever read a pipe is gone. What is no pipe is always read.
pub(crate) fn reader_left() -> bool {
    let out = io::stdout();
    let is_pipe = fstat(&out).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo);
    let mut fds = [PollFd::new(&out, PollFlags::empty())];
    is_pipe && poll(&mut fds, Some(&Timespec::default())).is_ok() && fds[0].revents().contains(PollFlags::ERR)
}

/// Waits while bytes of ours are in a pipe; what is no pipe has taken what was written.
///
/// # Errors
/// A broken pipe: the reader is gone, and what was left in the pipe with it.
pub(crate) fn taken() -> io::Result<()> {
    let out = io::stdout();
    if FileType::from_raw_mode(fstat(&out)?.st_mode) != FileType::Fifo {
        return Ok(());
    }
    let mut pause = Duration::from_micros(50);
    while ioctl_fionread(&out)? > 0 {
        let mut fds = [PollFd::new(&out, PollFlags::empty())];
        poll(&mut fds, Some(&Timespec::default()))?;
        if fds[0].revents().contains(PollFlags::ERR) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
    Ok(())
}
