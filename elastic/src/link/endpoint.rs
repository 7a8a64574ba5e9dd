//! Endpoints of listeners: the addresses to connect to, and the secret to send first.

use std::fmt;
use std::io::{Error, ErrorKind, Result};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::link::agents::Link;

/// Time limit for connecting to one address.
const REACH: Duration = Duration::from_secs(10);

/// Addresses, port and secret of a listener, sent through MPI to the processes that connect to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Endpoint {
    addresses: Vec<IpAddr>,
    port: u16,
    token: Token,
}

/// First line that a process sends over its connection.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    token: Token,
    /// Number of the process among those the endpoint was sent to.
    pub from: u64,
}

/// The secret of an endpoint.
#[derive(Clone, Eq, Serialize, Deserialize)]
#[serde(transparent)]
struct Token([u8; 16]);

/// Compares in constant time, so that no process can guess a secret byte by byte.
impl PartialEq for Token {
    fn eq(&self, other: &Self) -> bool {
        let bits = |(own, other): (&u8, &u8)| own ^ other;
        let differ = self.0.iter().zip(&other.0).map(bits);
        // Hidden from the compiler, which could otherwise stop at the first byte that differs.
        differ.fold(0, |all, bits| std::hint::black_box(all | bits)) == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Token")
    }
}

impl Endpoint {
    /// Makes the endpoint of a listener at a port of these addresses, with a new secret.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn new(addresses: Vec<IpAddr>, port: u16) -> Result<Self> {
        let mut token = [0; 16];
        rustix::rand::getrandom(&mut token[..], rustix::rand::GetRandomFlags::empty())?;
        Ok(Self { addresses, port, token: Token(token) })
    }

    /// Makes the first line of the process with this number.
    pub(crate) fn hello(&self, from: u64) -> Hello {
        Hello { token: self.token.clone(), from }
    }

    /// Returns true if the secret of a hello is that of the endpoint.
    pub(crate) fn matches(&self, hello: &Hello) -> bool {
        hello.token == self.token
    }

    /// Returns the address that is tried first.
    #[cfg(test)]
    pub(crate) fn first_address(&self) -> Option<SocketAddr> {
        self.addresses.first().map(|&address| SocketAddr::new(address, self.port))
    }

    /// Connects to the first address that accepts, and sends the hello of this process.
    ///
    /// # Errors
    /// The error of the last address.
    pub(crate) fn connect(&self, from: u64) -> Result<Link> {
        let mut last = Error::new(ErrorKind::AddrNotAvailable, "the endpoint has no address");
        for &address in &self.addresses {
            let address = SocketAddr::new(address, self.port);
            match TcpStream::connect_timeout(&address, REACH) {
                Ok(stream) => {
                    let mut link = Link::new(stream)?;
                    link.send(&self.hello(from))?;
                    return Ok(link);
                }
                Err(error) => last = Error::new(error.kind(), format!("{address}: {error}")),
            }
        }
        Err(last)
    }
}

/// Returns the addresses by which other hosts may know this one.
pub(crate) fn addresses() -> Result<Vec<IpAddr>> {
    let all = if_addrs::get_if_addrs()?;
    Ok(all.iter().filter(|one| !one.is_loopback()).map(if_addrs::Interface::ip).collect())
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn hello_with_the_secret_matches_and_others_do_not() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let here = vec![Ipv4Addr::LOCALHOST.into()];
        let endpoint = Endpoint::new(here.clone(), port).unwrap();
        let text = serde_json::to_string(&endpoint).unwrap();
        let told: Endpoint = serde_json::from_str(&text).unwrap();
        let _link = told.connect(3).unwrap();
        let mut came = Link::new(listener.accept().unwrap().0).unwrap();
        let hello: Hello = came.receive().unwrap().unwrap();
        assert!(endpoint.matches(&hello) && hello.from == 3);
        assert!(!Endpoint::new(here, port).unwrap().matches(&hello));
    }

    #[test]
    fn tokens_that_differ_in_any_bit_are_unequal() {
        let token = Token([0x5a; 16]);
        assert!(token == token.clone());
        for bit in 0..128 {
            let mut other = token.clone();
            other.0[bit / 8] ^= 1 << (bit % 8);
            assert!(token != other, "bit {bit}");
        }
    }

    #[test]
    fn the_word_is_not_shown() {
        let mut endpoint = Endpoint::new(Vec::new(), 7).unwrap();
        endpoint.token = Token([187; 16]);
        let hello = Hello { token: endpoint.token.clone(), from: 0 };
        assert!(!format!("{endpoint:?} {hello:?}").contains("187"));
        assert!(endpoint.connect(0).is_err());
    }
}
