//! The address of a server, and how to talk to it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use super::text::quoted;

/// The schema with flock's tables, if the home names none.
pub(in crate::store) const DEFAULT_SCHEMA: &str = "flock";
/// The longest name that PostgreSQL keeps as it is.
const MAX_NAME_BYTES: usize = 63;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A peer that is silent for this time is gone.
const PEER_TIMEOUT: Duration = Duration::from_secs(20);
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(3);
const KEEPALIVE_RETRIES: u32 = 3;

/// The protection of the connection, from the parameter `sslmode` of the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encryption {
    /// `disable`: never.
    Off,
    /// `allow`, and without the parameter for a server on this machine: only if the server asks for it. What goes through the
    /// machine alone gains nothing, and every answer would come later.
    Spared,
    /// `prefer`: if the server offers it. Nothing is checked.
    Offered,
    /// `require`: always. Nothing is checked, so this is no protection from somebody in between.
    Unchecked,
    /// `verify-full`: always, with a valid certificate for the name of the host.
    Checked,
}

/// The event that a commit waits for, from `synchronous_commit` in the parameter `options` of the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommitWait {
    /// `off`, and without the parameter: ordinary changes wait for no disk, and decisions do.
    Decisions,
    /// `on`: every change waits for the server's disk and for that of a synchronous replica.
    Disk,
    /// `remote_apply`: every change also waits until a synchronous replica shows it.
    Replica,
}

impl CommitWait {
    /// Returns the value of the server's `synchronous_commit` for ordinary changes.
    pub(super) const fn of_changes(self) -> &'static str {
        match self {
            Self::Decisions => "off",
            Self::Disk => "on",
            Self::Replica => "remote_apply",
        }
    }

    /// Returns the statement by which a transaction waits at least for the disk, whatever the address says.
    pub(super) const fn for_decision(self) -> &'static str {
        match self {
            Self::Decisions | Self::Disk => "SET LOCAL synchronous_commit = on",
            Self::Replica => "SET LOCAL synchronous_commit = remote_apply",
        }
    }
}

/// The settings of the connections to one server.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::store) struct Settings {
    /// As it was given, which is without a password.
    address: String,
    config: tokio_postgres::Config,
    pub(super) encryption: Encryption,
    pub(super) commit_wait: CommitWait,
    /// The certificates to be trusted; the machine's own without it.
    root_certificates: Option<PathBuf>,
    pub(super) schema: String,
}

impl Settings {
    /// Reads an address such as `postgres://user@host:5432/database?sslmode=verify-full`.
    ///
    /// # Errors
    ///
    /// Returns a sentence if it is no such address, has an unknown parameter, or contains a password.
    pub(in crate::store) fn parse(address: &str, schema: &str) -> Result<Self, String> {
        if !address.starts_with("postgres://") && !address.starts_with("postgresql://") {
            return Err("the address has to begin with postgres://".to_owned());
        }
        let (base, query) = address.split_once('?').unwrap_or((address, ""));
        let (mut mode, mut root_certificates, mut others) = (None, None, Vec::new());
        let mut commit_wait = CommitWait::Decisions;
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*key {
                "sslmode" => mode = Some(encryption(&value)?),
                "sslrootcert" => root_certificates = Some(PathBuf::from(&*value)),
                "target_session_attrs" if value != "read-write" => {
                    return Err("target_session_attrs has to be read-write".to_owned());
                }
                _ => {
                    // The server gets all options. Those that flock sets itself hold after them.
                    if key == "options" {
                        commit_wait = commit_wait_of(&value)?;
                    }
                    others.push((key, value));
                }
            }
        }
        let rest = form_urlencoded::Serializer::new(String::new()).extend_pairs(others).finish();
        // The parser knows no `+` for a space.
        let plain = format!("{base}?{}", rest.replace('+', "%20"));
        let plain = plain.trim_end_matches('?');
        let mut config = tokio_postgres::Config::from_str(plain).map_err(|error| {
            std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string)
        })?;
        if config.get_password().is_some() {
            return Err("the address contains a password, which has to be a secret".to_owned());
        }
        if config.get_hosts().is_empty() || config.get_dbname().is_none() || config.get_user().is_none() {
            return Err("the address has to name a user, a host and a database".to_owned());
        }
        if schema.is_empty() || schema.len() > MAX_NAME_BYTES || schema.contains('\0') {
            return Err(format!("the name of the schema has to have 1 to {MAX_NAME_BYTES} bytes"));
        }
        let is_here = config.get_hosts().iter().all(is_this_machine);
        let encryption = mode.unwrap_or(if is_here { Encryption::Spared } else { Encryption::Checked });
        if root_certificates.is_some() && encryption != Encryption::Checked {
            return Err("sslrootcert needs sslmode=verify-full, which checks the certificate".to_owned());
        }
        config
            .ssl_mode(match encryption {
                Encryption::Off => SslMode::Disable,
                Encryption::Spared | Encryption::Offered => SslMode::Prefer,
                Encryption::Unchecked | Encryption::Checked => SslMode::Require,
            })
            .application_name("flock")
            // After a fail-over a standby, or the old primary, may be the first of several servers that answers.
            .target_session_attrs(TargetSessionAttrs::ReadWrite)
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_user_timeout(PEER_TIMEOUT)
            .keepalives_idle(KEEPALIVE_IDLE)
            .keepalives_interval(KEEPALIVE_INTERVAL)
            .keepalives_retries(KEEPALIVE_RETRIES);
        let (address, schema) = (address.to_owned(), schema.to_owned());
        Ok(Self { address, config, encryption, commit_wait, root_certificates, schema })
    }

    /// Returns the address, which has no password.
    pub(in crate::store) fn address(&self) -> &str {
        &self.address
    }

    /// Returns the command that drops the schema with everything in it.
    pub(in crate::store) fn drop_command(&self) -> String {
        let drop = format!("DROP SCHEMA {} CASCADE", quoted(&self.schema));
        format!("psql '{}' -c '{drop}'", self.address)
    }

    /// Returns the name of the schema with flock's tables.
    pub(in crate::store) fn schema(&self) -> &str {
        &self.schema
    }

    /// Returns the settings of a connection that signs in with this password.
    pub(super) fn with_password(&self, password: Option<&str>) -> tokio_postgres::Config {
        let mut config = self.config.clone();
        if let Some(password) = password {
            config.password(password);
        }
        config
    }

    /// Returns the time for the socket of one host, so that each host has its turn within `limit`.
    pub(super) fn socket_limit(&self, limit: Duration) -> Duration {
        let hosts = u32::try_from(self.config.get_hosts().len()).unwrap_or(u32::MAX);
        limit.checked_div(hosts).unwrap_or(limit).min(CONNECT_TIMEOUT)
    }

    /// Returns the file with the certificates to be trusted, if one is named.
    pub(super) fn root_certificates(&self) -> Option<&Path> {
        self.root_certificates.as_deref()
    }

    /// Returns the key of the lock that every change of this schema takes.
    ///
    /// Such a lock is of the whole database, and other schemas in it have nothing to do with these changes.
    pub(super) fn lock_key(&self) -> i64 {
        self.key("the store of flock: ")
    }

    /// Returns the key of the lock that the gateway of this schema holds.
    pub(super) fn gateway_key(&self) -> i64 {
        self.key("the gateway of flock: ")
    }

    /// Returns the name of the channel on which processes tell each other about their changes of this schema.
    pub(super) fn channel(&self) -> String {
        let name = format!("flock_{}", self.schema);
        if name.len() <= MAX_NAME_BYTES {
            return name;
        }
        format!("flock_{:016x}", self.key("the notices of flock: "))
    }

    fn key(&self, purpose: &str) -> i64 {
        let digest = Sha256::new().chain_update(purpose).chain_update(&self.schema).finalize();
        let mut key = [0; 8];
        key.copy_from_slice(&digest[..8]);
        i64::from_be_bytes(key)
    }
}

/// Writes where the database is, without a password.
impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hosts, ports) = (self.config.get_hosts(), self.config.get_ports());
        for (at, host) in hosts.iter().enumerate() {
            let port = ports.get(at).or(ports.first()).copied().unwrap_or(5432);
            let separator = if at == 0 { "" } else { "," };
            match host {
                Host::Tcp(name) => write!(f, "{separator}{name}:{port}")?,
                Host::Unix(folder) => write!(f, "{separator}{}:{port}", folder.display())?,
            }
        }
        write!(f, "/{}, schema {}", self.config.get_dbname().unwrap_or_default(), self.schema)
    }
}

/// The password is not even here, and the rest says more than the derived form.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Settings({self})")
    }
}

fn encryption(mode: &str) -> Result<Encryption, String> {
    match mode {
        "disable" => Ok(Encryption::Off),
        "allow" => Ok(Encryption::Spared),
        "prefer" => Ok(Encryption::Offered),
        "require" => Ok(Encryption::Unchecked),
        "verify-full" => Ok(Encryption::Checked),
        _ => Err(format!("sslmode={mode} is unknown: it is disable, allow, prefer, require or verify-full")),
    }
}

/// Finds `synchronous_commit` among the options of a server, which are `-c name=value`, `-cname=value` or `--name=value`.
/// The last one counts.
fn commit_wait_of(options: &str) -> Result<CommitWait, String> {
    let mut found = CommitWait::Decisions;
    let mut words = options.split_ascii_whitespace();
    while let Some(word) = words.next() {
        let setting = match word.strip_prefix("-c") {
            Some("") => words.next().unwrap_or_default(),
            Some(setting) => setting,
            None => word.strip_prefix("--").unwrap_or_default(),
        };
        let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
        if !name.replace('-', "_").eq_ignore_ascii_case("synchronous_commit") {
            continue;
        }
        found = match value.to_ascii_lowercase().as_str() {
            "off" => CommitWait::Decisions,
            "on" => CommitWait::Disk,
            "remote_apply" => CommitWait::Replica,
            _ => return Err("synchronous_commit in the options has to be off, on or remote_apply".to_owned()),
        };
    }
    Ok(found)
}

fn is_this_machine(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        Host::Unix(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(address: &str) -> Result<Settings, String> {
        Settings::parse(address, DEFAULT_SCHEMA)
    }

    #[test]
    fn another_machine_has_to_prove_itself_unless_the_address_says_otherwise() {
        for (address, wanted) in [
            ("postgres://flock@db.example/flock", Encryption::Checked),
            ("postgres://flock@127.0.0.1:5433/flock", Encryption::Spared),
            ("postgres://flock@localhost/flock", Encryption::Spared),
            ("postgres://flock@localhost/flock?sslmode=prefer", Encryption::Offered),
            ("postgres://flock@localhost,db.example/flock", Encryption::Checked),
            ("postgres://flock@a.db,b.db/flock?target_session_attrs=read-write", Encryption::Checked),
            ("postgresql://flock@/flock?host=/var/run/postgresql", Encryption::Spared),
            ("postgres://flock@db.example/flock?sslmode=disable", Encryption::Off),
            ("postgres://flock@db.example/flock?sslmode=require", Encryption::Unchecked),
        ] {
            let settings = parse(address).unwrap();
            assert_eq!(settings.encryption, wanted, "{address}");
            let target = settings.config.get_target_session_attrs();
            assert_eq!(target, TargetSessionAttrs::ReadWrite, "{address}");
        }
        for attributes in ["any", "read-only"] {
            parse(&format!("postgres://f@one,two/f?target_session_attrs={attributes}")).unwrap_err();
        }
        let own = parse("postgres://f@db/f?sslmode=verify-full&sslrootcert=%2Fetc%2Fca.pem").unwrap();
        assert_eq!(own.root_certificates(), Some(Path::new("/etc/ca.pem")));
    }

    #[test]
    fn the_options_of_the_address_say_what_commits_wait_for() {
        for (options, wanted) in [
            ("", CommitWait::Decisions),
            ("?sslmode=disable", CommitWait::Decisions),
            ("?options=-c%20geqo%3Doff", CommitWait::Decisions),
            ("?options=-c%20synchronous_commit%3Don", CommitWait::Disk),
            ("?options=-c+synchronous_commit=on", CommitWait::Disk),
            ("?options=--synchronous-commit%3DON&sslmode=disable", CommitWait::Disk),
            ("?options=-c%20geqo%3Doff%20-csynchronous_commit%3Dremote_apply", CommitWait::Replica),
            ("?options=-c%20synchronous_commit%3Don%20-c%20synchronous_commit%3Doff", CommitWait::Decisions),
        ] {
            let settings = parse(&format!("postgres://flock@localhost/flock{options}")).unwrap();
            assert_eq!(settings.commit_wait, wanted, "{options}");
        }
        let refused = parse("postgres://f@db/f?options=-c%20synchronous_commit%3Dhunter2").unwrap_err();
        assert!(refused.contains("remote_apply") && !refused.contains("hunter2"), "{refused}");
    }

    #[test]
    fn an_address_that_says_too_much_or_too_little_is_refused() {
        for (address, part) in [
            ("mysql://flock@db/flock", "postgres://"),
            ("postgres://flock:hunter2@db/flock", "password"),
            ("postgres://flock@db/flock?password=hunter2", "password"),
            ("postgres://db/flock", "a user"),
            ("postgres://flock@db", "a database"),
            ("postgres://flock@db/flock?sslmode=verify-ca", "sslmode=verify-ca"),
            ("postgres://flock@db/flock?sslmode=require&sslrootcert=/ca.pem", "verify-full"),
            ("postgres://flock@db/flock?colour=blue", "colour"),
        ] {
            let refused = parse(address).unwrap_err();
            assert!(refused.contains(part) && !refused.contains("hunter2"), "{address}: {refused}");
        }
        assert!(Settings::parse("postgres://f@db/f", "").is_err());
        assert!(Settings::parse("postgres://f@db/f", &"x".repeat(64)).is_err());
    }

    #[test]
    fn what_is_shown_names_the_place_and_nothing_secret() {
        let settings = parse("postgres://flock@db.example:6000/team?connect_timeout=3").unwrap();
        assert_eq!(settings.to_string(), "db.example:6000/team, schema flock");
        assert!(!format!("{settings:?}").contains("password"));
        assert_eq!(settings.with_password(Some("hunter2")).get_password(), Some(&b"hunter2"[..]));
    }

    #[test]
    fn each_host_has_its_part_of_a_short_time() {
        let limit = |address, seconds| parse(address).unwrap().socket_limit(Duration::from_secs(seconds));
        assert_eq!(limit("postgres://flock@one.example/team", 20), CONNECT_TIMEOUT);
        assert_eq!(limit("postgres://flock@one.example,two.example/team", 20), CONNECT_TIMEOUT);
        assert_eq!(limit("postgres://flock@one.example,two.example/team", 2), Duration::from_secs(1));
    }

    #[test]
    fn each_schema_has_a_lock_of_its_own() {
        let of = |schema| Settings::parse("postgres://f@db/f", schema).unwrap().lock_key();
        assert_eq!(of("a"), of("a"));
        assert_ne!(of("a"), of("b"));
        let settings = Settings::parse("postgres://f@db/f", "a").unwrap();
        assert_ne!(settings.lock_key(), settings.gateway_key());
        assert_eq!(settings.channel(), "flock_a");
        let long = |last: &str| {
            let schema = format!("{}{last}", "x".repeat(60));
            Settings::parse("postgres://f@db/f", &schema).unwrap().channel()
        };
        assert!(long("a").len() <= MAX_NAME_BYTES && long("a") != long("b"));
    }
}
