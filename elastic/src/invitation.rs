//! Where to connect, and the secret to say first.

use std::fmt;
use std::io::{Error, ErrorKind, Result};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::agents::Link;

/// How long it may take to reach an address.
const REACH: Duration = Duration::from_secs(10);

/// What somebody who listens tells those who are to come, through MPI.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Invitation {
    addresses: Vec<IpAddr>,
    port: u16,
    token: Token,
}

/// The first line of who comes.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Greeting {
    token: Token,
    /// Its number among those who were invited.
    pub from: u64,
}

/// A word that only those know who were told.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
struct Token([u8; 16]);

impl fmt::Debug for Token {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Token")
    }
}

impl Invitation {
    /// To one who listens at this port of these addresses.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn to(addresses: Vec<IpAddr>, port: u16) -> Result<Self> {
        let mut token = [0; 16];
        rustix::rand::getrandom(&mut token[..], rustix::rand::GetRandomFlags::empty())?;
        Ok(Self { addresses, port, token: Token(token) })
    }

    /// Whether somebody was told the word.
    pub(crate) fn was_for(&self, greeting: &Greeting) -> bool {
        greeting.token == self.token
    }

    /// Goes there by the first address that leads there, and says who comes.
    ///
    /// # Errors
    /// What is the matter with the last address.
    pub(crate) fn follow(&self, from: u64) -> Result<Link> {
        let mut last = Error::new(ErrorKind::AddrNotAvailable, "there is no address to go to");
        for &address in &self.addresses {
            let address = SocketAddr::new(address, self.port);
            match TcpStream::connect_timeout(&address, REACH) {
                Ok(stream) => {
                    let mut link = Link::new(stream)?;
                    link.send(&Greeting { token: self.token.clone(), from })?;
                    return Ok(link);
                }
                Err(error) => last = Error::new(error.kind(), format!("{address}: {error}")),
            }
        }
        Err(last)
    }

    /// One link from each of so many who are to come, by their numbers from 1. Who does not know the word is not let in.
    ///
    /// # Errors
    /// Not all have come in time.
    pub(crate) fn welcome(
        &self,
        listener: &TcpListener,
        guests: usize,
        limit: Duration,
    ) -> Result<Vec<Link>> {
        let deadline = Instant::now() + limit;
        let mut links: Vec<Option<Link>> = (0..guests).map(|_| None).collect();
        listener.set_nonblocking(true)?;
        while links.iter().any(Option::is_none) {
            let (stream, _) = match listener.accept() {
                Ok(came) => came,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(Error::new(ErrorKind::TimedOut, "not everybody has come"));
                    }
                    wait_readable(listener, left)?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            stream.set_nonblocking(false)?;
            // A stranger may say nothing.
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            let mut link = Link::new(stream)?;
            let Ok(Some(greeting)) = link.receive::<Greeting>() else { continue };
            let known = self.was_for(&greeting);
            if let (true, Some(place)) =
                (known, links.get_mut((greeting.from as usize).wrapping_sub(1)))
            {
                link.wait_for_ever()?;
                *place = Some(link);
            }
        }
        Ok(links.into_iter().flatten().collect())
    }
}

/// The addresses by which other hosts may know this one.
pub(crate) fn addresses() -> Result<Vec<IpAddr>> {
    let all = if_addrs::get_if_addrs()?;
    Ok(all.iter().filter(|one| !one.is_loopback()).map(if_addrs::Interface::ip).collect())
}

fn wait_readable(listener: &TcpListener, at_most: Duration) -> Result<()> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let timeout = Timespec {
        tv_sec: i64::try_from(at_most.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(at_most.subsec_nanos()),
    };
    poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&timeout))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn who_follows_an_invitation_is_known_and_others_are_not() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let here = vec![Ipv4Addr::LOCALHOST.into()];
        let invitation = Invitation::to(here.clone(), port).unwrap();
        let text = serde_json::to_string(&invitation).unwrap();
        let told: Invitation = serde_json::from_str(&text).unwrap();
        let _link = told.follow(3).unwrap();
        let mut came = Link::new(listener.accept().unwrap().0).unwrap();
        let greeting: Greeting = came.receive().unwrap().unwrap();
        assert!(invitation.was_for(&greeting) && greeting.from == 3);
        assert!(!Invitation::to(here, port).unwrap().was_for(&greeting));
    }

    #[test]
    fn the_word_is_not_shown() {
        let mut invitation = Invitation::to(Vec::new(), 7).unwrap();
        invitation.token = Token([187; 16]);
        let greeting = Greeting { token: invitation.token.clone(), from: 0 };
        assert!(!format!("{invitation:?} {greeting:?}").contains("187"));
        assert!(invitation.follow(0).is_err());
    }
}
