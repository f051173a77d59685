//! Metrics that a broker itself serves at `/metrics`.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::error::LabError;

/// One reading of all samples.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scrape {
    text: String,
}

impl Scrape {
    /// Reads the metrics of a broker. The result is empty without an address.
    pub(crate) fn of(address: Option<SocketAddr>) -> Result<Self, LabError> {
        let Some(address) = address else { return Ok(Self::default()) };
        let text = ask(address).map_err(LabError::step(format!("cannot read http://{address}/metrics")))?;
        Ok(Self { text })
    }

    /// Sum of all samples of a family; none if the broker does not have the family.
    pub(crate) fn sum(&self, family: &str) -> Option<f64> {
        let own = self.text.lines().filter_map(|line| {
            let (name, value) = line.rsplit_once(' ')?;
            let bare = name.split('{').next()?;
            (bare == family).then(|| value.parse::<f64>().ok()).flatten()
        });
        own.fold(None, |sum, value| Some(sum.unwrap_or(0.0) + value))
    }

    /// Growth of a family since the reading `before`.
    pub(crate) fn growth(&self, before: &Self, family: &str) -> Option<f64> {
        Some(self.sum(family)? - before.sum(family)?)
    }
}

fn ask(address: SocketAddr) -> io::Result<String> {
    const LIMIT: Duration = Duration::from_secs(10);
    const LARGEST: u64 = 16 << 20;
    let mut stream = TcpStream::connect_timeout(&address, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    write!(stream, "GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.take(LARGEST).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::Scrape;

    #[test]
    fn families_are_summed() {
        let scrape = |text: &str| Scrape { text: text.to_owned() };
        let after =
            scrape("# HELP a_total x\na_total{path=\"x\"} 3\na_total{path=\"y\"} 4\na_total_more 9\nb 1.5\n");
        assert_eq!(after.sum("a_total"), Some(7.0));
        assert_eq!(after.sum("b"), Some(1.5));
        assert_eq!(after.sum("c"), None);
        assert_eq!(after.growth(&scrape("a_total 2\n"), "a_total"), Some(5.0));
    }
}
