//! Commands in the protocol's own form (RESP), written into a buffer that is reused: redis-rs allocates each.

use redis::Value;

/// What is sent before a call to a node that is importing its slot.
pub(crate) const ASKING: &[u8] = b"*1\r\n$6\r\nASKING\r\n";

/// The reply to a call that was sent behind `ASKING`, if it was. Without ASKING the node sends the call back, and that would
/// say nothing of why: so if that is refused, this is the reply.
pub(crate) fn reply_behind<E>(asks: bool, mut read: impl FnMut() -> Result<Value, E>) -> Result<Value, E> {
    let asked = if asks { read()? } else { Value::Okay };
    let reply = read()?;
    Ok(if matches!(asked, Value::ServerError(_)) { asked } else { reply })
}

/// Begins a command of so many arguments.
pub(crate) fn command(out: &mut Vec<u8>, arguments: usize) {
    out.push(b'*');
    decimal(out, arguments as u64);
    out.extend_from_slice(b"\r\n");
}

/// Appends one argument.
pub(crate) fn argument(out: &mut Vec<u8>, bytes: &[u8]) {
    out.reserve(bytes.len() + 16);
    out.push(b'$');
    decimal(out, bytes.len() as u64);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Appends a number as one argument.
pub(crate) fn number(out: &mut Vec<u8>, number: u64) {
    let mut buffer = [0; 20];
    argument(out, digits(number, &mut buffer));
}

/// Appends a number in decimal digits.
pub(crate) fn decimal(out: &mut Vec<u8>, number: u64) {
    let mut buffer = [0; 20];
    out.extend_from_slice(digits(number, &mut buffer));
}

fn digits(mut number: u64, buffer: &mut [u8; 20]) -> &[u8] {
    let mut at = buffer.len();
    loop {
        at -= 1;
        buffer[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &buffer[at..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_what_redis_rs_writes() {
        let mut out = Vec::new();
        command(&mut out, 4);
        argument(&mut out, b"SET");
        argument(&mut out, b"");
        number(&mut out, 0);
        number(&mut out, u64::MAX);
        assert_eq!(out, redis::cmd("SET").arg("").arg(0).arg(u64::MAX).get_packed_command());
    }
}
