//! One blocking connection to one broker: it requests the broker's versions, sends each request in
//! the highest common version, and lets tests send arbitrary bytes.

use std::fmt::Debug;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use bytes::Bytes;
use levada_wire::error_code::ErrorCode;
use levada_wire::frame::{self, FrameBuffer, FrameError};
use levada_wire::messages::{ApiVersionsRequest, ApiVersionsResponse, KafkaRequest, RequestResponsePair};
use levada_wire::{DecodeError, EncodeError, StrBytes, decode_response, encode_request};

/// The version of the first ApiVersions request; a broker that does not support it responds in
/// version 0.
const FIRST_API_VERSIONS: i16 = 4;

/// Options of a connection.
#[derive(Clone, Debug)]
pub struct ConnectionOptions {
    /// The client id in requests.
    pub client_id: String,
    /// Time limit for connecting, and for each read and write.
    pub timeout: Duration,
    /// Largest response accepted.
    pub max_frame_bytes: u32,
}

impl Default for ConnectionOptions {
    fn default() -> Self {
        Self {
            client_id: "levada".into(),
            timeout: Duration::from_secs(30),
            max_frame_bytes: frame::MAX_FRAME_BYTES,
        }
    }
}

/// Byte stream of a connection: a socket, or an encrypting layer on one.
pub trait Channel: Read + Write + Send + Debug {}

impl<T: Read + Write + Send + Debug> Channel for T {}

/// One connection to one broker. Every call blocks until done or until the timeout.
#[derive(Debug)]
pub struct Connection {
    address: String,
    client_id: String,
    timeout: Duration,
    channel: Box<dyn Channel>,
    frames: FrameBuffer,
    scratch: Vec<u8>,
    next_correlation_id: i32,
    versions: Vec<OfferedVersions>,
}

/// The versions of one API that a broker offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfferedVersions {
    /// The API's key.
    pub key: i16,
    /// Lowest version offered.
    pub min: i16,
    /// Highest version offered.
    pub max: i16,
}

impl Connection {
    /// Connects to `address` (`host:port`) and requests the broker's versions.
    ///
    /// # Errors
    /// The address does not resolve, no server answers there, or the answer is not Kafka's.
    pub fn connect(address: &str, options: &ConnectionOptions) -> Result<Self, ConnectionError> {
        Self::connect_over(address, options, |_, socket| Ok(Box::new(socket)))
    }

    /// Connects through the channel that `channel` makes of the host's name and the socket, such as
    /// TLS, and requests the broker's versions.
    ///
    /// # Errors
    /// Same as [`connect`](Connection::connect), and errors of `channel`.
    pub fn connect_over(
        address: &str,
        options: &ConnectionOptions,
        channel: impl FnOnce(&str, TcpStream) -> io::Result<Box<dyn Channel>>,
    ) -> Result<Self, ConnectionError> {
        let mut connection = Self::connect_over_unnegotiated(address, options, channel)?;
        connection.negotiate()?;
        Ok(connection)
    }

    /// Connects without sending anything. [`request`](Connection::request) needs versions, so only
    /// [`request_at`](Connection::request_at) and raw frames work until
    /// [`negotiate`](Connection::negotiate).
    ///
    /// # Errors
    /// The address does not resolve or no server answers there.
    pub fn connect_unnegotiated(address: &str, options: &ConnectionOptions) -> Result<Self, ConnectionError> {
        Self::connect_over_unnegotiated(address, options, |_, socket| Ok(Box::new(socket)))
    }

    /// Like [`connect_over`](Connection::connect_over), without sending anything.
    ///
    /// # Errors
    /// No server answers, or `channel` fails.
    pub fn connect_over_unnegotiated(
        address: &str,
        options: &ConnectionOptions,
        channel: impl FnOnce(&str, TcpStream) -> io::Result<Box<dyn Channel>>,
    ) -> Result<Self, ConnectionError> {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let channel = open(address, options.timeout)
            .and_then(|socket| channel(host.trim_start_matches('[').trim_end_matches(']'), socket))
            .map_err(|source| ConnectionError::Connect { address: address.into(), source })?;
        Ok(Self {
            address: address.into(),
            client_id: options.client_id.clone(),
            timeout: options.timeout,
            channel,
            frames: FrameBuffer::new(options.max_frame_bytes),
            scratch: vec![0; 64 * 1024],
            next_correlation_id: 1,
            versions: Vec::new(),
        })
    }

    /// Requests the broker's versions and stores them.
    ///
    /// # Errors
    /// The connection fails, or the broker refuses.
    pub fn negotiate(&mut self) -> Result<ApiVersionsResponse, ConnectionError> {
        let mut request = ApiVersionsRequest::default();
        request.client_software_name = StrBytes::from("levada");
        request.client_software_version = StrBytes::from(env!("CARGO_PKG_VERSION"));
        let mut version = FIRST_API_VERSIONS;
        self.send_request(version, &request)?;
        let mut frame = self.receive()?;
        if frame.get(4..6) == Some(&ErrorCode::UnsupportedVersion.code().to_be_bytes()[..]) {
            version = 0;
            self.send_request(version, &ApiVersionsRequest::default())?;
            frame = self.receive()?;
        }
        let (_, response) = decode_response::<ApiVersionsResponse>(frame, version)?;
        if response.error_code != 0 {
            let address = self.address.clone();
            return Err(ConnectionError::Refused { address, error_code: response.error_code });
        }
        let offered = response.api_keys.iter();
        self.versions = offered
            .map(|api| OfferedVersions { key: api.api_key, min: api.min_version, max: api.max_version })
            .collect();
        Ok(response)
    }

    /// Versions of the broker; empty before [`negotiate`](Connection::negotiate).
    pub fn versions(&self) -> &[OfferedVersions] {
        &self.versions
    }

    /// The highest version of `R` that the broker and Levada support.
    ///
    /// # Errors
    /// There is none.
    pub fn best_version<R: KafkaRequest>(&self) -> Result<i16, ConnectionError> {
        let key = R::API_KEY.value();
        let ours = R::SUPPORTED_VERSIONS;
        let newest = R::API_DESCRIPTOR.latest_stable_version().unwrap_or(ours.max()).value();
        let offered = self.versions.iter().find(|offered| offered.key == key);
        let best = offered.map(|offered| newest.min(offered.max));
        match (best, offered) {
            (Some(best), Some(offered)) if best >= offered.min.max(ours.min().value()) => Ok(best),
            _ => Err(ConnectionError::NoCommonVersion {
                address: self.address.clone(),
                request: R::NAME,
                supported: (ours.min().value(), newest),
                offered: offered.copied(),
            }),
        }
    }

    /// Sends `request` in the best common version and waits for its response.
    ///
    /// # Errors
    /// No common version, a failed connection, or bytes that are not a response.
    pub fn request<R: RequestResponsePair>(&mut self, request: &R) -> Result<R::Response, ConnectionError> {
        self.request_at(self.best_version::<R>()?, request)
    }

    /// Sends `request` in `version`, even if the broker does not offer it, and waits for its
    /// response.
    ///
    /// # Errors
    /// A failed connection, or bytes that are not a response.
    pub fn request_at<R: RequestResponsePair>(
        &mut self,
        version: i16,
        request: &R,
    ) -> Result<R::Response, ConnectionError> {
        let sent = self.send_request(version, request)?;
        let (received, response) = self.receive_response::<R>(version)?;
        if received != sent {
            return Err(self.wrong_correlation(sent, received));
        }
        Ok(response)
    }

    /// The error for a response with another correlation id than that of the request.
    pub fn wrong_correlation(&self, sent: i32, received: i32) -> ConnectionError {
        ConnectionError::WrongCorrelation { address: self.address.clone(), sent, received }
    }

    /// Sends `request` and does not wait: for pipelining, and for requests without response.
    /// Returns the correlation id.
    ///
    /// # Errors
    /// The request is not expressible in `version`, or the connection fails.
    pub fn send_request<R: KafkaRequest>(
        &mut self,
        version: i16,
        request: &R,
    ) -> Result<i32, ConnectionError> {
        let correlation_id = self.next_correlation_id;
        self.next_correlation_id = correlation_id.wrapping_add(1);
        let frame = encode_request(correlation_id, Some(&self.client_id), version, request)?;
        self.send(&frame)?;
        Ok(correlation_id)
    }

    /// Waits for the next response, which must be one to an `R` of `version`. Returns its
    /// correlation id too.
    ///
    /// # Errors
    /// A failed connection, or bytes that are not such a response.
    pub fn receive_response<R: RequestResponsePair>(
        &mut self,
        version: i16,
    ) -> Result<(i32, R::Response), ConnectionError> {
        let frame = self.receive()?;
        Ok(decode_response(frame, version)?)
    }

    /// Sends bytes as they are; the caller has made the frame, its size included.
    ///
    /// # Errors
    /// The connection fails.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), ConnectionError> {
        self.channel.write_all(bytes).and_then(|()| self.channel.flush()).map_err(|source| self.lost(source))
    }

    /// Waits for the next frame and returns it without its size.
    ///
    /// # Errors
    /// The connection fails or ends, or the frame is too large.
    pub fn receive(&mut self) -> Result<Bytes, ConnectionError> {
        loop {
            if let Some(frame) = self.frames.next_frame()? {
                return Ok(frame.freeze());
            }
            let count = match self.channel.read(&mut self.scratch) {
                Ok(0) => return Err(ConnectionError::Closed { address: self.address.clone() }),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.lost(error)),
            };
            self.frames.spare().extend_from_slice(&self.scratch[..count]);
        }
    }

    /// True if a whole frame has been received and not yet returned: the next
    /// [`receive`](Connection::receive) does not block.
    pub fn has_frame(&self) -> bool {
        self.frames.has_frame()
    }

    fn lost(&self, source: io::Error) -> ConnectionError {
        let address = self.address.clone();
        match source.kind() {
            // The kernel's errors of a time limit of a socket.
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                ConnectionError::Silent { address, seconds: self.timeout.as_secs_f32() }
            }
            _ => ConnectionError::Lost { address, source },
        }
    }
}

fn open(address: &str, timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for candidate in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&candidate, timeout) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The reason why a request got no response.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// No broker could be reached at the address.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// Address that cannot be reached.
        address: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The broker was silent for the time limit. It may be suspended, or wait for its disk.
    #[error("{address} did not respond within {seconds} s")]
    Silent {
        /// Address of the broker.
        address: String,
        /// Time limit, s.
        seconds: f32,
    },
    /// The connection broke.
    #[error("connection to {address} lost: {source}")]
    Lost {
        /// Address of the broker, `host:port`.
        address: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The broker closed the connection, as Kafka does with requests it cannot read.
    #[error("{address} closed the connection")]
    Closed {
        /// Address of the broker.
        address: String,
    },
    /// The broker refused to name its versions.
    #[error("{address} refuses ApiVersions with error code {error_code}")]
    Refused {
        /// Address of the broker.
        address: String,
        /// Kafka's error code.
        error_code: i16,
    },
    /// The broker does not offer a version of the request that Levada supports.
    #[error(
        "no common version of {request}: {address} {}, and this program supports {}",
        offer(*.offered),
        range(*.supported)
    )]
    NoCommonVersion {
        /// Address of the broker.
        address: String,
        /// Name of the request.
        request: &'static str,
        /// Lowest and highest version of this program.
        supported: (i16, i16),
        /// The broker's versions; `None` if it does not offer the API at all.
        offered: Option<OfferedVersions>,
    },
    /// The response belongs to another request.
    #[error("the response of {address} has correlation id {received}; expected {sent}")]
    WrongCorrelation {
        /// Address of the broker.
        address: String,
        /// Correlation id sent.
        sent: i32,
        /// Correlation id received.
        received: i32,
    },
    /// The broker sent an impossible length.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The broker sent bytes that are not such a response.
    #[error(transparent)]
    Response(#[from] DecodeError),
    /// The request cannot be expressed in the version.
    #[error(transparent)]
    Request(#[from] EncodeError),
}

/// The broker's versions of an API as text.
fn offer(offered: Option<OfferedVersions>) -> String {
    offered.map_or_else(
        || "does not offer it".to_owned(),
        |offered| format!("offers {}", range((offered.min, offered.max))),
    )
}

fn range((min, max): (i16, i16)) -> String {
    format!("versions {min} to {max}")
}

impl ConnectionError {
    /// True for an error that ends when a broker returns. A wrong certificate or name is permanent.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        const PERMANENT: [io::ErrorKind; 3] =
            [io::ErrorKind::InvalidData, io::ErrorKind::InvalidInput, io::ErrorKind::NotFound];
        match self {
            Self::Connect { source, .. } => !PERMANENT.contains(&source.kind()),
            Self::Lost { .. } | Self::Silent { .. } | Self::Closed { .. } => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
