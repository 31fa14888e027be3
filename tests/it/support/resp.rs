//! As much of the Redis protocol as the proxy needs: where a command or a reply ends.

/// The length of the first whole value in `bytes`, RESP2; None if more must be read.
pub fn value_len(bytes: &[u8]) -> Option<usize> {
    let line_len = bytes.windows(2).position(|pair| pair == b"\r\n")? + 2;
    let count = || -> usize {
        let digits = std::str::from_utf8(&bytes[1..line_len - 2]).unwrap_or_default();
        digits.parse().unwrap_or(0) // -1 means nil, which has no content
    };
    match bytes[0] {
        b'$' if bytes[1] != b'-' => {
            let whole = line_len + count() + 2;
            (bytes.len() >= whole).then_some(whole)
        }
        b'*' => {
            let mut at = line_len;
            for _ in 0..count() {
                at += value_len(&bytes[at..])?;
            }
            Some(at)
        }
        _ => Some(line_len),
    }
}

/// Takes the first whole value out of what was read so far.
pub fn take_value(read: &mut Vec<u8>) -> Option<Vec<u8>> {
    let len = value_len(read)?;
    Some(read.drain(..len).collect())
}

/// The name of a command, in capitals: the first of its bulk strings.
pub fn command_name(command: &[u8]) -> String {
    let name = command.split(|&byte| byte == b'\n').nth(2).unwrap_or(command);
    String::from_utf8_lossy(name).trim().to_ascii_uppercase()
}
