//! Names, for `scripts/build` and `scripts/check-names`, which compile this file with rustc alone.
//!
//!   names NAME...        prints the addresses of each name, as this binary resolves them
//!   names serve ADDRESS  answers every DNS query for an IPv4 address on port 53 with that address

use std::net::{Ipv4Addr, ToSocketAddrs, UdpSocket};

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [command, address] = &arguments[..]
        && command == "serve"
    {
        return serve(address.parse().map_err(std::io::Error::other)?);
    }
    for name in &arguments {
        let resolved = (name.as_str(), 1).to_socket_addrs();
        let mut addresses: Vec<String> = resolved.into_iter().flatten().map(|address| address.ip().to_string()).collect();
        addresses.sort();
        addresses.dedup();
        println!("{name} {}", addresses.join(" "));
    }
    Ok(())
}

/// Answers one query after the other.
fn serve(address: Ipv4Addr) -> std::io::Result<()> {
    const HEADER: usize = 12;
    let socket = UdpSocket::bind("127.0.0.1:53")?;
    let mut query = [0; 512];
    loop {
        let (length, client) = socket.recv_from(&mut query)?;
        // The question is a name, which ends with a zero byte, then type and class.
        let Some(end) = query[HEADER..length].iter().position(|byte| *byte == 0).map(|at| HEADER + at + 5) else { continue };
        let is_ipv4 = query[end - 3] == 1;
        let mut reply = query[..end].to_vec();
        // A reply without an error, with one question, an answer or none, and nothing more.
        reply[2..HEADER].copy_from_slice(&[0x81, 0x80, 0, 1, 0, u8::from(is_ipv4), 0, 0, 0, 0]);
        if is_ipv4 {
            // The name of the question; type A, class IN, a minute to live, four bytes.
            reply.extend([0xc0, HEADER as u8, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
            reply.extend(address.octets());
        }
        socket.send_to(&reply, client)?;
    }
}
