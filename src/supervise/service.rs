//! What service managers are told so that they keep a home's gateway running: the texts of a systemd unit
//! and of a launchd job, where they go, and the commands that make them take effect. Pure.

use std::path::{Path, PathBuf};

use crate::error::Kind;

/// For whom the service runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// For one user, from boot on (linger).
    User,
    /// For the machine.
    System,
}

/// Who keeps it running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manager {
    /// Linux.
    Systemd,
    /// macOS.
    Launchd,
}

/// What a service is made of.
#[derive(Clone, Debug)]
pub struct Service {
    /// For whom.
    pub scope: Scope,
    /// By whom.
    pub manager: Manager,
    /// The program's file, absolute.
    pub program: PathBuf,
    /// The home's folder, absolute.
    pub home: PathBuf,
    /// What tells this home's service from another one's: see `Home::suffix`.
    pub suffix: String,
    /// Variables the service needs and a service manager does not give it, as PATH.
    pub env: Vec<(String, String)>,
    /// The user it runs as: a login, or a number where there is none. Theirs is the home, and for them
    /// services go on when nobody is logged in.
    pub user: String,
}

impl Service {
    /// The service's name, as the manager knows it.
    #[must_use]
    pub fn name(&self) -> String {
        match self.manager {
            Manager::Systemd => format!("flock{}.service", self.suffix),
            Manager::Launchd => format!("dev.flock{}", self.suffix),
        }
    }

    /// Where its file goes. `config` is the user's folder of settings, `user_home` the user's home folder.
    #[must_use]
    pub fn path(&self, config: &Path, user_home: &Path) -> PathBuf {
        match (self.manager, self.scope) {
            (Manager::Systemd, Scope::User) => config.join("systemd/user").join(self.name()),
            (Manager::Systemd, Scope::System) => Path::new("/etc/systemd/system").join(self.name()),
            (Manager::Launchd, Scope::User) => {
                user_home.join("Library/LaunchAgents").join(format!("{}.plist", self.name()))
            }
            (Manager::Launchd, Scope::System) => {
                Path::new("/Library/LaunchDaemons").join(format!("{}.plist", self.name()))
            }
        }
    }

    /// The file's text.
    #[must_use]
    pub fn text(&self) -> String {
        match self.manager {
            Manager::Systemd => self.unit(),
            Manager::Launchd => self.plist(),
        }
    }

    /// Whether a file in this service's place is one of flock's, for this home: homes of two users can have services of
    /// the same name.
    #[must_use]
    pub fn is_told_by(&self, text: &str) -> bool {
        let home = self.home.display().to_string();
        text.contains(&match self.manager {
            Manager::Systemd => format!(" --home {} start --foreground\n", quoted(&home, Dollars::Escaped)),
            Manager::Launchd => {
                format!("<string>--home</string>\n        <string>{}</string>\n", escaped(&home))
            }
        })
    }

    /// The commands that make the manager take up the service and start it.
    #[must_use]
    pub fn enable(&self, path: &Path) -> Vec<Vec<String>> {
        let name = self.name();
        match (self.manager, self.scope) {
            (Manager::Systemd, Scope::User) => vec![
                words("loginctl enable-linger", &[&self.user]),
                words("systemctl --user daemon-reload", &[]),
                words("systemctl --user enable --now", &[&name]),
            ],
            (Manager::Systemd, Scope::System) => {
                vec![words("systemctl daemon-reload", &[]), words("systemctl enable --now", &[&name])]
            }
            (Manager::Launchd, _) => vec![words("launchctl load -w", &[&path.display().to_string()])],
        }
    }

    /// The commands that make the manager stop it and let go of it, before and after its file is removed.
    #[must_use]
    pub fn disable(&self, path: &Path) -> (Vec<Vec<String>>, Vec<Vec<String>>) {
        let name = self.name();
        match (self.manager, self.scope) {
            (Manager::Systemd, Scope::User) => (
                vec![words("systemctl --user disable --now", &[&name])],
                vec![words("systemctl --user daemon-reload", &[])],
            ),
            (Manager::Systemd, Scope::System) => (
                vec![words("systemctl disable --now", &[&name])],
                vec![words("systemctl daemon-reload", &[])],
            ),
            (Manager::Launchd, _) => {
                (vec![words("launchctl unload -w", &[&path.display().to_string()])], Vec::new())
            }
        }
    }

    /// The command that opens a place for variables that the service lacks and that are not in `env`.
    #[must_use]
    pub fn edit(&self, path: &Path) -> String {
        let name = self.name();
        match (self.manager, self.scope) {
            (Manager::Systemd, Scope::User) => format!("systemctl --user edit {name}"),
            (Manager::Systemd, Scope::System) => format!("sudo systemctl edit {name}"),
            (Manager::Launchd, Scope::User) => format!("open -e '{}'", path.display()),
            (Manager::Launchd, Scope::System) => format!("sudo nano '{}'", path.display()),
        }
    }

    fn unit(&self) -> String {
        let kinds = [Kind::Usage, Kind::NotInitialised, Kind::Conflict, Kind::NewerHome];
        let lasting = kinds.map(|kind| kind.exit_code().to_string()).join(" ");
        let env = self.env.iter().map(|(name, value)| {
            format!("Environment={}\n", quoted(&format!("{name}={value}"), Dollars::Plain))
        });
        // A manager of one user runs everything as that one. The system's would run it as root, which would
        // leave files in the home that its owner can't write.
        let (wanted_by, user) = match self.scope {
            Scope::User => ("default.target", String::new()),
            Scope::System => ("multi-user.target", format!("User={}\n", self.user)),
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
            program = quoted(&self.program.display().to_string(), Dollars::Escaped),
            quoted_home = quoted(&self.home.display().to_string(), Dollars::Escaped),
            env = env.collect::<String>(),
        )
    }

    fn plist(&self) -> String {
        let string = |text: &str| format!("<string>{}</string>", escaped(text));
        let home = self.home.display().to_string();
        let arguments: String =
            [&*self.program.display().to_string(), "--home", &home, "start", "--foreground"]
                .iter()
                .map(|argument| format!("        {}\n", string(argument)))
                .collect();
        let env: String = self
            .env
            .iter()
            .map(|(name, value)| format!("        <key>{}</key>{}\n", escaped(name), string(value)))
            .collect();
        let user = match self.scope {
            Scope::User => String::new(),
            Scope::System => format!("    <key>UserName</key>{}\n", string(&self.user)),
        };
        let log = string(&self.home.join("logs/supervisor.log").display().to_string());
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \
             \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
             <plist version=\"1.0\">\n\
             <dict>\n\
             \x20   <key>Label</key>{label}\n\
             {user}\
             \x20   <key>ProgramArguments</key>\n\
             \x20   <array>\n{arguments}\x20   </array>\n\
             \x20   <key>EnvironmentVariables</key>\n\
             \x20   <dict>\n{env}\x20   </dict>\n\
             \x20   <key>RunAtLoad</key><true/>\n\
             \x20   <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>\n\
             \x20   <key>ExitTimeOut</key><integer>90</integer>\n\
             \x20   <key>StandardErrorPath</key>{log}\n\
             </dict>\n\
             </plist>\n",
            label = string(&self.name()),
        )
    }
}

fn words(command: &str, more: &[&str]) -> Vec<String> {
    command.split(' ').chain(more.iter().copied()).map(str::to_owned).collect()
}

/// Whether `$` means a variable where a text goes in a unit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dollars {
    Plain,
    Escaped,
}

/// A word of a systemd unit: quoted, without any meaning of its characters.
fn quoted(text: &str, dollars: Dollars) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '%' => out.push_str("%%"),
            '$' if dollars == Dollars::Escaped => out.push_str("$$"),
            '\n' => out.push_str("\\n"),
            _ => out.push(c),
        }
    }
    out.push('"');
    out
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(manager: Manager, scope: Scope) -> Service {
        Service {
            scope,
            manager,
            program: "/opt/my tools/flock".into(),
            home: "/home/ann/100% $mine".into(),
            suffix: "-0a1b2c3d".to_owned(),
            env: vec![("PATH".to_owned(), "/usr/bin:/b&\"c".to_owned())],
            user: "ann".to_owned(),
        }
    }

    #[test]
    fn a_user_unit() {
        let service = service(Manager::Systemd, Scope::User);
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
        RestartPreventExitStatus=2 3 5 7
        KillMode=mixed
        TimeoutStopSec=90

        [Install]
        WantedBy=default.target
        "#);
        let path = service.path(Path::new("/home/ann/.config"), Path::new("/home/ann"));
        assert_eq!(path, Path::new("/home/ann/.config/systemd/user/flock-0a1b2c3d.service"));
        assert_eq!(service.enable(&path)[0], ["loginctl", "enable-linger", "ann"]);
    }

    #[test]
    fn a_system_unit_differs_in_its_user_its_target_and_its_place() {
        let service = service(Manager::Systemd, Scope::System);
        let text = service.text();
        assert!(text.contains("[Service]\nType=exec\nUser=ann\nExecStart="), "{text}");
        assert!(text.ends_with("WantedBy=multi-user.target\n"), "{text}");
        let path = service.path(Path::new("/root/.config"), Path::new("/root"));
        assert_eq!(path, Path::new("/etc/systemd/system/flock-0a1b2c3d.service"));
        assert!(service.enable(&path).iter().flatten().all(|word| word != "--user"));
    }

    #[test]
    fn a_file_of_another_home_is_not_this_services() {
        for manager in [Manager::Systemd, Manager::Launchd] {
            let service = service(manager, Scope::System);
            let other = Service { home: "/home/ann/100% $mine2".into(), ..service.clone() };
            assert!(service.is_told_by(&service.text()) && other.is_told_by(&other.text()), "{manager:?}");
            assert!(!service.is_told_by(&other.text()) && !other.is_told_by(&service.text()), "{manager:?}");
            assert!(!service.is_told_by("[Service]\nExecStart=/usr/bin/flock\n"));
        }
    }

    #[test]
    fn a_launchd_job_of_the_system_runs_as_the_homes_owner() {
        let text = service(Manager::Launchd, Scope::System).text();
        assert!(text.contains("    <key>UserName</key><string>ann</string>\n"), "{text}");
        assert!(!service(Manager::Launchd, Scope::User).text().contains("UserName"));
    }

    #[test]
    fn a_launchd_job() {
        let service = service(Manager::Launchd, Scope::User);
        insta::assert_snapshot!(service.text(), @r#"
        <?xml version="1.0" encoding="UTF-8"?>
        <!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
        <plist version="1.0">
        <dict>
            <key>Label</key><string>dev.flock-0a1b2c3d</string>
            <key>ProgramArguments</key>
            <array>
                <string>/opt/my tools/flock</string>
                <string>--home</string>
                <string>/home/ann/100% $mine</string>
                <string>start</string>
                <string>--foreground</string>
            </array>
            <key>EnvironmentVariables</key>
            <dict>
                <key>PATH</key><string>/usr/bin:/b&amp;"c</string>
            </dict>
            <key>RunAtLoad</key><true/>
            <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>
            <key>ExitTimeOut</key><integer>90</integer>
            <key>StandardErrorPath</key><string>/home/ann/100% $mine/logs/supervisor.log</string>
        </dict>
        </plist>
        "#);
        let path = service.path(Path::new("/Users/ann/Library/Application Support"), Path::new("/Users/ann"));
        assert_eq!(path, Path::new("/Users/ann/Library/LaunchAgents/dev.flock-0a1b2c3d.plist"));
    }
}
