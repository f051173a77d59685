//! A network of one member's own: a namespace that a veth pair connects with the other members and
//! with the test. Rules within the namespace drop packets; those of the machine stay as they are.

use std::net::{IpAddr, Ipv4Addr};
use std::process::{Child, Command, Stdio};

/// Packets that are lost between the member and all other nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// All packets.
    Both,
    /// Packets to the member: it receives none.
    Inbound,
    /// Packets from the member: the others receive none.
    Outbound,
    /// This part of the packets, in each direction.
    Loss {
        /// Lost packets of a thousand.
        permille: u16,
    },
}

/// Attempts to find free numbers of a network.
const TRIES: usize = 20;

/// Name of the interface within the namespace.
const INNER: &str = "member";

/// A namespace with its link. It ends with this value or with this process, after the member.
pub struct Network {
    namespace: String,
    subnet: u8,
    guard: Child,
}

impl Network {
    /// Makes a network; an error names a missing capability of this machine.
    pub(super) fn create() -> Result<Self, String> {
        let mut outcome = Err(String::new());
        for _ in 0..TRIES {
            let subnet = rand::random_range(0..=u8::MAX);
            let namespace = format!("levada-test-{subnet}");
            outcome = run(&format!("ip netns add {namespace}")).map(|()| (namespace, subnet));
            if outcome.is_ok() {
                break;
            }
        }
        let (namespace, subnet) = outcome?;
        let outer = format!("levada-{subnet}");
        // The pipe is closed with the last process that has its other end.
        let script = "read -r _; ip link del \"$1\"; ip netns del \"$2\"";
        let mut guard = Command::new("sh");
        guard.args(["-c", script, "guard", &outer, &namespace]).stdin(Stdio::piped());
        let guard = guard.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let guard = guard.map_err(|error| format!("sh: {error}"))?;
        let network = Self { namespace, subnet, guard };
        let (inside, others) = (network.member(), network.others());
        for line in [
            format!("ip link add {outer} type veth peer name {INNER} netns {}", network.namespace),
            format!("ip address add {others}/24 dev {outer}"),
            format!("ip link set {outer} up"),
        ] {
            run(&line)?;
        }
        for line in [
            format!("ip address add {inside}/24 dev {INNER}"),
            format!("ip link set {INNER} up"),
            "ip link set lo up".to_owned(),
            // Shows that rules can be set.
            "iptables -A INPUT -m statistic --mode random --probability 0.5 -j ACCEPT".to_owned(),
            "iptables -F".to_owned(),
        ] {
            network.inside(&line)?;
        }
        Ok(network)
    }

    /// Address of the member. The range is that of tests of networks (RFC 2544).
    pub(super) fn member(&self) -> IpAddr {
        Ipv4Addr::new(198, 18, self.subnet, 2).into()
    }

    /// Address of all others.
    pub(super) fn others(&self) -> IpAddr {
        Ipv4Addr::new(198, 18, self.subnet, 1).into()
    }

    /// Name of the namespace.
    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Loses packets from now on, until [`Network::heal`].
    pub fn cut(&self, cut: Cut) {
        let (chains, which) = match cut {
            Cut::Both => (&["INPUT", "OUTPUT"][..], String::new()),
            Cut::Inbound => (&["INPUT"][..], String::new()),
            Cut::Outbound => (&["OUTPUT"][..], String::new()),
            Cut::Loss { permille } => {
                let part = f64::from(permille) / 1000.0;
                (&["INPUT", "OUTPUT"][..], format!(" -m statistic --mode random --probability {part}"))
            }
        };
        for chain in chains {
            let interface = if *chain == "INPUT" { "-i" } else { "-o" };
            let rule = format!("iptables -A {chain} {interface} {INNER}{which} -j DROP");
            self.inside(&rule).unwrap_or_else(|error| panic!("{cut:?}: {error}"));
        }
    }

    /// Loses no more packets.
    pub fn heal(&self) {
        self.inside("iptables -F").expect("the rules go as they came");
    }

    fn inside(&self, line: &str) -> Result<(), String> {
        run(&format!("ip netns exec {} {line}", self.namespace))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        // The call fails only if the guard has been waited for, which no other code does.
        let _ = self.guard.wait();
    }
}

/// Runs a command; an error has the reason of a failure.
fn run(line: &str) -> Result<(), String> {
    let mut words = line.split(' ');
    let mut command = Command::new(words.next().unwrap_or_default());
    let said = command.args(words).stdin(Stdio::null()).output();
    let said = said.map_err(|error| format!("{line}: {error}"))?;
    let reason = String::from_utf8_lossy(&said.stderr);
    if said.status.success() { Ok(()) } else { Err(format!("{line}: {}: {}", said.status, reason.trim())) }
}
