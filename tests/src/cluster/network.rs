//! Networks of the members: each member in a separate namespace, and a bridge in another one that
//! connects them with each other and with the test. Rules within a member's namespace drop or slow
//! its packets; those of the machine stay as they are.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Child, Command, Stdio};

/// Faults of a member's link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// All packets are lost.
    Both,
    /// Packets to the member are lost: it receives none.
    Inbound,
    /// Packets from the member are lost: the others receive none.
    Outbound,
    /// Packets to and from this member are lost.
    Peer(i32),
    /// This part of the packets is lost, in each direction.
    Loss {
        /// Lost packets per thousand.
        permille: u16,
    },
    /// The member sends this much in a second. Packets that wait are late, up to
    /// [`Cut::LATE_MS`], and are then lost.
    Slow {
        /// Bandwidth, kilobits per second.
        kilobits: u32,
    },
}

impl Cut {
    /// Longest delay of a packet, in milliseconds, on a link that is [`Cut::Slow`].
    pub const LATE_MS: u32 = 400;
}

/// Number of attempts to find free numbers of a network.
const TRIES: usize = 20;

/// Name of the interface within a member's namespace.
const INNER: &str = "member";

/// Number of the first member within the network.
const FIRST: u8 = 10;

/// Namespaces and links of all members. They end with this value or with this process, after the
/// members.
pub struct Networks {
    subnet: u8,
    members: BTreeMap<i32, Network>,
    guard: Child,
}

/// Namespace and address of one member.
pub(super) struct Network {
    namespace: String,
    address: IpAddr,
}

impl Networks {
    /// Makes a network with these members; an error names a missing capability of this machine.
    pub(super) fn create(members: &[i32]) -> Result<Self, String> {
        let mut outcome = Err(String::new());
        for _ in 0..TRIES {
            let subnet = rand::random_range(0..=u8::MAX);
            outcome = run(&format!("ip netns add levada-test-{subnet}")).map(|()| subnet);
            if outcome.is_ok() {
                break;
            }
        }
        let subnet = outcome?;
        let (hub, outer) = (format!("levada-test-{subnet}"), format!("levada-{subnet}"));
        let address = |number: u8| IpAddr::from(Ipv4Addr::new(198, 18, subnet, number));
        let mut networks = BTreeMap::new();
        for (id, number) in members.iter().zip(FIRST..) {
            let namespace = format!("{hub}-{number}");
            networks.insert(*id, Network { namespace, address: address(number) });
        }
        // The pipe is closed with the last process that has its other end.
        let script = "read -r _; ip link del \"$1\"; shift; for name; do ip netns del \"$name\"; done";
        let mut guard = Command::new("sh");
        guard.args(["-c", script, "guard", &outer, &hub]).stdin(Stdio::piped());
        guard.args(networks.values().map(|network| &network.namespace));
        let guard = guard.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let guard = guard.map_err(|error| format!("sh: {error}"))?;
        let made = Self { subnet, members: networks, guard };
        // The range is that of tests of networks (RFC 2544).
        for line in [
            format!("ip netns exec {hub} ip link add bridge type bridge"),
            format!("ip netns exec {hub} ip link set bridge up"),
            format!("ip link add {outer} type veth peer name test netns {hub}"),
            format!("ip netns exec {hub} ip link set test master bridge up"),
            format!("ip address add {}/24 dev {outer}", made.test()),
            format!("ip link set {outer} up"),
        ] {
            run(&line)?;
        }
        for network in made.members.values() {
            network.connect(&hub)?;
        }
        Ok(made)
    }

    /// Address of the test's tools.
    fn test(&self) -> IpAddr {
        Ipv4Addr::new(198, 18, self.subnet, 1).into()
    }

    /// The network of a member.
    pub(super) fn member(&self, id: i32) -> &Network {
        self.members.get(&id).unwrap_or_else(|| panic!("the network has no member {id}"))
    }

    /// Disturbs the link of a member from now on, until [`Networks::heal`].
    pub fn cut(&self, id: i32, cut: Cut) {
        let member = self.member(id);
        let lines = match cut {
            Cut::Both => vec![drop_from("INPUT", ""), drop_from("OUTPUT", "")],
            Cut::Inbound => vec![drop_from("INPUT", "")],
            Cut::Outbound => vec![drop_from("OUTPUT", "")],
            Cut::Peer(peer) => {
                let peer = self.member(peer).address;
                vec![drop_from("INPUT", &format!(" -s {peer}")), drop_from("OUTPUT", &format!(" -d {peer}"))]
            }
            Cut::Loss { permille } => {
                let part = f64::from(permille) / 1000.0;
                let which = format!(" -m statistic --mode random --probability {part}");
                vec![drop_from("INPUT", &which), drop_from("OUTPUT", &which)]
            }
            Cut::Slow { kilobits } => {
                let queue = format!("rate {kilobits}kbit burst 16kb latency {}ms", Cut::LATE_MS);
                vec![format!("tc qdisc replace dev {INNER} root tbf {queue}")]
            }
        };
        for line in lines {
            member.inside(&line).unwrap_or_else(|error| panic!("{cut:?}: {error}"));
        }
    }

    /// Ends all disturbances of a member's link.
    pub fn heal(&self, id: i32) {
        self.member(id).inside("iptables -F").expect("the rules go as they came");
        // Fails if the link was not slow.
        let _ = self.member(id).inside(&format!("tc qdisc del dev {INNER} root"));
    }
}

/// The command that has packets lost, of those with a property.
fn drop_from(chain: &str, which: &str) -> String {
    let interface = if chain == "INPUT" { "-i" } else { "-o" };
    format!("iptables -A {chain} {interface} {INNER}{which} -j DROP")
}

impl Network {
    fn connect(&self, hub: &str) -> Result<(), String> {
        let Self { namespace, address } = self;
        let port = namespace.rsplit('-').next().unwrap_or_default();
        for line in [
            format!("ip netns add {namespace}"),
            format!("ip -n {namespace} link add {INNER} type veth peer name port{port} netns {hub}"),
            format!("ip -n {hub} link set port{port} master bridge up"),
        ] {
            run(&line)?;
        }
        for line in [
            format!("ip address add {address}/24 dev {INNER}"),
            format!("ip link set {INNER} up"),
            "ip link set lo up".to_owned(),
            // Show that rules can be set.
            "iptables -A INPUT -m statistic --mode random --probability 0.5 -j ACCEPT".to_owned(),
            "iptables -F".to_owned(),
            format!("tc qdisc replace dev {INNER} root tbf rate 1mbit burst 16kb latency 1ms"),
            format!("tc qdisc del dev {INNER} root"),
        ] {
            self.inside(&line)?;
        }
        Ok(())
    }

    /// Address of the member.
    pub(super) fn address(&self) -> IpAddr {
        self.address
    }

    /// Name of the namespace.
    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    fn inside(&self, line: &str) -> Result<(), String> {
        run(&format!("ip netns exec {} {line}", self.namespace))
    }
}

impl Drop for Networks {
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
