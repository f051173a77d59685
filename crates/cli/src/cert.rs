//! `levada cert dev`: an authority and certificates for local use, with the settings that go with
//! them.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use jiff::{ToSpan, Zoned};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

use levada_terminal::failure::Failure;

/// Create certificates
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada cert dev
  levada cert dev ./certs --host broker.test --host 10.0.0.5 --client alice --client bob")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Dev(Dev),
}

/// Create an authority and certificates of a broker and of clients, for local use
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada cert dev
  levada cert dev ./certs --host broker.test --host 10.0.0.5 --client alice --client bob")]
struct Dev {
    /// Directory for the files; an existing authority signs the new certificates
    #[arg(default_value = "certs", value_name = "DIR")]
    directory: PathBuf,
    /// Further names and addresses of the broker, in addition to localhost
    #[arg(long = "host", value_name = "HOST")]
    hosts: Vec<String>,
    /// Names of the clients
    #[arg(long = "client", value_name = "NAME", default_value = "client")]
    clients: Vec<String>,
}

/// Time that the certificates are good for.
const DAYS: i32 = 825;

pub(crate) fn run(args: Args, out: &mut dyn Write) -> Result<(), Failure> {
    let Verb::Dev(dev) = args.verb;
    dev.run(out)
}

impl Dev {
    fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        if let Some(wrong) = self.clients.iter().find(|name| name.contains(['/', '\0']) || name.is_empty()) {
            return Err(Failure::Usage(format!("{wrong:?} cannot be a client's name: it names a file")));
        }
        if let Some(taken) = self.clients.iter().find(|name| ["ca", "broker"].contains(&name.as_str())) {
            return Err(Failure::Usage(format!(
                "{taken:?} cannot be a client's name: {taken}.pem belongs to the authority or the broker"
            )));
        }
        let directory = &self.directory;
        fs::create_dir_all(directory).map_err(|error| failed(directory, &error))?;
        let authority = authority(directory)?;
        let mut hosts = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        hosts.extend(self.hosts.iter().filter(|host| !hosts.contains(host)).cloned().collect::<Vec<_>>());
        issue(&authority, (directory, "broker"), hosts, ExtendedKeyUsagePurpose::ServerAuth)?;
        for client in &self.clients {
            issue(&authority, (directory, client), Vec::new(), ExtendedKeyUsagePurpose::ClientAuth)?;
            write(&directory.join(format!("{client}.properties")), &client_properties(directory, client))?;
        }
        let path = directory.join("broker.properties");
        write(&path, &broker_properties(directory))?;
        tell!("files for local use are in {}; next:", directory.display());
        writeln!(out, "levada serve --config {}", path.display())?;
        Ok(())
    }
}

/// The authority of the directory: the existing one, otherwise a new one.
fn authority(directory: &Path) -> Result<CertifiedIssuer<'static, KeyPair>, Failure> {
    let path = directory.join("ca.key");
    let key = match fs::read_to_string(&path) {
        Ok(pem) => KeyPair::from_pem(&pem).map_err(|error| failed(&path, &error))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let key = KeyPair::generate().map_err(|error| failed(&path, &error))?;
            write(&path, &key.serialize_pem())?;
            key
        }
        Err(error) => return Err(failed(&path, &error)),
    };
    let mut params = dated(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, "Levada development authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority = CertifiedIssuer::self_signed(params, key).map_err(|error| failed(&path, &error))?;
    write(&directory.join("ca.pem"), &authority.pem())?;
    Ok(authority)
}

/// Writes `NAME.pem`: a certificate, the authority's, and the key, in one file for Kafka's clients.
fn issue(
    authority: &CertifiedIssuer<'static, KeyPair>,
    (directory, name): (&Path, &str),
    hosts: Vec<String>,
    usage: ExtendedKeyUsagePurpose,
) -> Result<(), Failure> {
    let path = directory.join(format!("{name}.pem"));
    let mut params = dated(hosts)?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    params.use_authority_key_identifier_extension = true;
    let wrong = |error: rcgen::Error| failed(&path, &error);
    let key = KeyPair::generate().map_err(wrong)?;
    let certificate = params.signed_by(&key, authority).map_err(wrong)?;
    write(&path, &[key.serialize_pem(), certificate.pem(), authority.pem()].concat())
}

/// Certificate parameters, valid since yesterday because clocks differ.
fn dated(hosts: Vec<String>) -> Result<CertificateParams, Failure> {
    let mut params = CertificateParams::new(hosts.clone())
        .map_err(|error| Failure::Usage(format!("{} cannot be hosts: {error}", hosts.join(", "))))?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    let day = |days: i32| -> Result<_, Failure> {
        let wrong =
            |error: &dyn std::fmt::Display| Failure::new(format!("the clock is out of range: {error}"));
        let date = Zoned::now().checked_add(days.days()).map_err(|error| wrong(&error))?;
        let month = u8::try_from(date.month()).map_err(|error| wrong(&error))?;
        let day = u8::try_from(date.day()).map_err(|error| wrong(&error))?;
        Ok(rcgen::date_time_ymd(date.year().into(), month, day))
    };
    (params.not_before, params.not_after) = (day(-1)?, day(DAYS)?);
    Ok(params)
}

fn broker_properties(directory: &Path) -> String {
    let at = |name: &str| absolute(directory, name);
    format!(
        "# For local use; made by `levada cert dev`.\n\
         listeners=SSL://127.0.0.1:9093\n\
         ssl.keystore.location={}\n\
         ssl.truststore.location={}\n\
         ssl.client.auth=required\n\
         ssl.principal.mapping.rules=RULE:^CN=([^,]*).*$/$1/, DEFAULT\n",
        at("broker.pem"),
        at("ca.pem")
    )
}

fn client_properties(directory: &Path, client: &str) -> String {
    let at = |name: &str| absolute(directory, name);
    format!(
        "# For Kafka's Java tools: --command-config, --producer.config, --consumer.config.\n\
         security.protocol=SSL\n\
         ssl.keystore.type=PEM\n\
         ssl.keystore.location={}\n\
         ssl.truststore.type=PEM\n\
         ssl.truststore.location={}\n",
        at(&format!("{client}.pem")),
        at("ca.pem")
    )
}

fn absolute(directory: &Path, name: &str) -> String {
    let path = directory.join(name);
    std::path::absolute(&path).unwrap_or(path).display().to_string()
}

/// Writes a file that only its owner reads.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let open = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    let write = |mut file: fs::File| {
        // An existing file keeps its mode when it is opened.
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
        file.write_all(text.as_bytes())
    };
    open.and_then(write).map_err(|error| failed(path, &error))
}

fn failed(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_private_and_the_authority_stays() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("certs");
        let dev = Dev {
            directory: directory.clone(),
            hosts: vec!["b.test".to_owned()],
            clients: vec!["alice".to_owned()],
        };
        let mut out = Vec::new();
        dev.run(&mut out).unwrap();
        assert!(String::from_utf8(out).unwrap().ends_with("broker.properties\n"));
        let key = fs::read_to_string(directory.join("ca.key")).unwrap();
        // A file that was there already, for all to read.
        fs::set_permissions(directory.join("broker.pem"), fs::Permissions::from_mode(0o644)).unwrap();
        dev.run(&mut Vec::new()).unwrap();
        assert_eq!(fs::read_to_string(directory.join("ca.key")).unwrap(), key);
        for name in ["ca.key", "broker.pem", "alice.pem"] {
            let mode = fs::metadata(directory.join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{name}");
        }
        let pem = fs::read_to_string(directory.join("alice.pem")).unwrap();
        assert_eq!(pem.matches("BEGIN CERTIFICATE").count(), 2);
        assert!(pem.contains("BEGIN PRIVATE KEY"));
    }

    #[test]
    fn cert_refuses_unsafe_client_names() {
        let home = tempfile::tempdir().unwrap();
        for name in ["../x", "", "ca", "broker"] {
            let dev =
                Dev { directory: home.path().to_owned(), hosts: Vec::new(), clients: vec![name.to_owned()] };
            assert!(matches!(dev.run(&mut Vec::new()), Err(Failure::Usage(_))), "{name}");
        }
        assert!(!home.path().join("ca.pem").exists());
    }
}
