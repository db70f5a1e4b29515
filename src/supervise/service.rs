//! The systemd unit that keeps a home's gateway running: its text, its path, and the commands that activate it. Pure.

use std::path::{Path, PathBuf};

use crate::error::Kind;

/// The owner of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServiceScope {
    /// One user; runs from boot on, by means of lingering.
    User,
    /// The whole machine.
    System,
}

/// The facts that a unit file is built from.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    pub scope: ServiceScope,
    /// The program's file, as an absolute path.
    pub program: PathBuf,
    /// The home's folder, as an absolute path.
    pub home: PathBuf,
    /// A suffix that distinguishes this home's service from others: see `Home::suffix`.
    pub suffix: String,
    /// Variables, such as PATH, that the service needs and that a service manager does not set.
    pub env: Vec<(String, String)>,
    /// The user that the service runs as: a login name, or a number if there is none.
    ///
    /// This user owns the home, and lingering is enabled for this user.
    pub user: String,
}

impl Service {
    /// Returns the unit's name.
    #[must_use]
    pub(crate) fn name(&self) -> String {
        format!("flock{}.service", self.suffix)
    }

    /// Returns the path of the unit's file. `config` is the user's configuration folder.
    #[must_use]
    pub(crate) fn path(&self, config: &Path) -> PathBuf {
        match self.scope {
            ServiceScope::User => config.join("systemd/user").join(self.name()),
            ServiceScope::System => Path::new("/etc/systemd/system").join(self.name()),
        }
    }

    /// Returns `true` if `text` is a unit file by flock for this home. The homes of two users can have services with
    /// the same name.
    #[must_use]
    pub(crate) fn is_described_by(&self, text: &str) -> bool {
        let home = quote(&self.home.display().to_string(), DollarSign::Escaped);
        text.contains(&format!(" --home {home} start --foreground\n"))
    }

    /// Returns the commands that load and start the service.
    #[must_use]
    pub(crate) fn enable_commands(&self) -> Vec<Vec<String>> {
        // Without lingering, a user's services end with the user's last login session.
        let linger = (self.scope == ServiceScope::User)
            .then(|| words(&format!("loginctl enable-linger {}", self.user)));
        let start = format!("enable --now {}", self.name());
        linger.into_iter().chain([self.systemctl("daemon-reload"), self.systemctl(&start)]).collect()
    }

    /// Returns the commands that stop and disable the service, and those to run after its file was removed.
    #[must_use]
    pub(crate) fn disable_commands(&self) -> (Vec<Vec<String>>, Vec<Vec<String>>) {
        let stop = format!("disable --now {}", self.name());
        (vec![self.systemctl(&stop)], vec![self.systemctl("daemon-reload")])
    }

    /// Returns a command to the service manager that this service belongs to.
    fn systemctl(&self, command: &str) -> Vec<String> {
        match self.scope {
            ServiceScope::User => words(&format!("systemctl --user {command}")),
            ServiceScope::System => words(&format!("systemctl {command}")),
        }
    }

    /// Returns a command about the service for a person, who may not be root: `restart`, or `edit` for variables that the
    /// service needs and that are not in `env`.
    pub(crate) fn command_for_person(&self, verb: &str) -> String {
        let sudo = if self.scope == ServiceScope::System { "sudo " } else { "" };
        format!("{sudo}{}", self.systemctl(&format!("{verb} {}", self.name())).join(" "))
    }

    /// Returns the content of the unit file.
    #[must_use]
    pub(crate) fn text(&self) -> String {
        // Exit codes for which systemd must not restart: the failure would be the same.
        let kinds = [Kind::Usage, Kind::NotInitialised, Kind::Conflict, Kind::NewerHome, Kind::Damaged];
        let lasting = kinds.map(|kind| kind.exit_code().to_string()).join(" ");
        let env = self.env.iter().map(|(name, value)| {
            format!("Environment={}\n", quote(&format!("{name}={value}"), DollarSign::Plain))
        });
        // A user's manager runs everything as that user. The system's manager would run it as root, which would leave
        // files in the home that its owner can't write.
        let (wanted_by, user) = match self.scope {
            ServiceScope::User => ("default.target", String::new()),
            ServiceScope::System => ("multi-user.target", format!("User={}\n", self.user)),
        };
        format!(
            "# Written by `flock service install`; removed by `flock service remove`.\n\
             [Unit]\n\
             Description=flock, a team of AI agents ({home})\n\
             After=network.target docker.service\n\
             \n\
             [Service]\n\
             Type=exec\n\
             {user}\
             ExecStart={program} --home {quoted_home} start --foreground\n\
             {env}\
             Restart=on-failure\n\
             RestartSec=5\n\
             RestartPreventExitStatus={lasting}\n\
             KillMode=mixed\n\
             TimeoutStopSec=90\n\
             \n\
             [Install]\n\
             WantedBy={wanted_by}\n",
            home = self.home.display().to_string().replace('%', "%%"),
            program = quote(&self.program.display().to_string(), DollarSign::Escaped),
            quoted_home = quote(&self.home.display().to_string(), DollarSign::Escaped),
            env = env.collect::<String>(),
        )
    }
}

fn words(command: &str) -> Vec<String> {
    command.split(' ').map(str::to_owned).collect()
}

/// The meaning of `$` at a place in a unit file: an ordinary character, or the start of a variable.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DollarSign {
    Plain,
    Escaped,
}

/// Quotes a word for a unit file, so that none of its characters has a special meaning.
fn quote(text: &str, dollars: DollarSign) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '%' => out.push_str("%%"),
            '$' if dollars == DollarSign::Escaped => out.push_str("$$"),
            '\n' => out.push_str("\\n"),
            _ => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(scope: ServiceScope) -> Service {
        Service {
            scope,
            program: "/opt/my tools/flock".into(),
            home: "/home/ann/100% $mine".into(),
            suffix: "-0a1b2c3d".to_owned(),
            env: vec![("PATH".to_owned(), "/usr/bin:/b&\"c".to_owned())],
            user: "ann".to_owned(),
        }
    }

    #[test]
    fn a_user_unit_matches_the_snapshot() {
        let service = service(ServiceScope::User);
        insta::assert_snapshot!(service.text(), @r#"
        # Written by `flock service install`; removed by `flock service remove`.
        [Unit]
        Description=flock, a team of AI agents (/home/ann/100%% $mine)
        After=network.target docker.service

        [Service]
        Type=exec
        ExecStart="/opt/my tools/flock" --home "/home/ann/100%% $$mine" start --foreground
        Environment="PATH=/usr/bin:/b&\"c"
        Restart=on-failure
        RestartSec=5
        RestartPreventExitStatus=2 3 5 7 9
        KillMode=mixed
        TimeoutStopSec=90

        [Install]
        WantedBy=default.target
        "#);
        let path = service.path(Path::new("/home/ann/.config"));
        assert_eq!(path, Path::new("/home/ann/.config/systemd/user/flock-0a1b2c3d.service"));
        assert_eq!(service.enable_commands()[0], ["loginctl", "enable-linger", "ann"]);
    }

    #[test]
    fn a_system_unit_differs_in_its_user_its_target_and_its_place() {
        let service = service(ServiceScope::System);
        let text = service.text();
        assert!(text.contains("[Service]\nType=exec\nUser=ann\nExecStart="), "{text}");
        assert!(text.ends_with("WantedBy=multi-user.target\n"), "{text}");
        let path = service.path(Path::new("/root/.config"));
        assert_eq!(path, Path::new("/etc/systemd/system/flock-0a1b2c3d.service"));
        assert!(service.enable_commands().iter().flatten().all(|word| word != "--user"));
    }

    #[test]
    fn a_file_of_another_home_is_not_this_services() {
        let service = service(ServiceScope::System);
        let other = Service { home: "/home/ann/100% $mine2".into(), ..service.clone() };
        assert!(service.is_described_by(&service.text()) && other.is_described_by(&other.text()));
        assert!(!service.is_described_by(&other.text()) && !other.is_described_by(&service.text()));
        assert!(!service.is_described_by("[Service]\nExecStart=/usr/bin/flock\n"));
    }
}
