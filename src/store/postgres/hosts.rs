//! The servers of an address. One of them may stand still, and then it neither answers nor refuses.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// The time after which the next server is asked as well.
const HEAD_START: Duration = Duration::from_secs(1);

/// Returns the settings of the connection to each server, in the order of the address.
pub(super) fn each(config: &Config) -> Vec<Config> {
    let (hosts, ports) = (config.get_hosts(), config.get_ports());
    // The driver itself reports numbers that do not fit.
    if hosts.len() < 2 || !config.get_hostaddrs().is_empty() || ports.len() > hosts.len() {
        return vec![config.clone()];
    }
    let one = |(at, host): (usize, &Host)| {
        let mut one = without_hosts(config);
        match host {
            Host::Tcp(name) => one.host(name),
            Host::Unix(folder) => one.host_path(folder),
        };
        if let Some(port) = ports.get(at).or(ports.first()) {
            one.port(*port);
        }
        one
    };
    hosts.iter().enumerate().map(one).collect()
}

/// Returns a copy without the servers. The driver can add some, and not take them away.
fn without_hosts(config: &Config) -> Config {
    let mut copy = Config::new();
    copy.ssl_mode(config.get_ssl_mode())
        .ssl_negotiation(config.get_ssl_negotiation())
        .channel_binding(config.get_channel_binding())
        .load_balance_hosts(config.get_load_balance_hosts())
        .target_session_attrs(config.get_target_session_attrs())
        .keepalives(config.get_keepalives())
        .keepalives_idle(config.get_keepalives_idle());
    if let Some(user) = config.get_user() {
        copy.user(user);
    }
    if let Some(password) = config.get_password() {
        copy.password(password);
    }
    if let Some(database) = config.get_dbname() {
        copy.dbname(database);
    }
    if let Some(options) = config.get_options() {
        copy.options(options);
    }
    if let Some(name) = config.get_application_name() {
        copy.application_name(name);
    }
    if let Some(limit) = config.get_connect_timeout() {
        copy.connect_timeout(*limit);
    }
    if let Some(limit) = config.get_tcp_user_timeout() {
        copy.tcp_user_timeout(*limit);
    }
    if let Some(interval) = config.get_keepalives_interval() {
        copy.keepalives_interval(interval);
    }
    if let Some(retries) = config.get_keepalives_retries() {
        copy.keepalives_retries(retries);
    }
    copy
}

/// Returns the first success of these attempts. Each begins when the one before it has failed, or has not ended for a while.
///
/// # Errors
///
/// Returns the error of the attempt that was the last to fail.
pub(super) async fn first_of<T, E, A>(first: A, others: Vec<A>) -> Result<T, E>
where
    A: Future<Output = Result<T, E>>,
{
    let mut waiting = others.into_iter();
    let mut attempts = FuturesUnordered::new();
    attempts.push(first);
    loop {
        let ended = if waiting.as_slice().is_empty() {
            attempts.next().await
        } else {
            tokio::time::timeout(HEAD_START, attempts.next()).await.ok().flatten()
        };
        attempts.extend(waiting.next());
        match ended {
            Some(Ok(made)) => return Ok(made),
            Some(Err(error)) if attempts.is_empty() => return Err(error),
            // Others may still succeed.
            Some(Err(_)) | None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::pin::Pin;

    use super::*;

    type Attempt = Pin<Box<dyn Future<Output = Result<u8, u8>>>>;

    fn done(result: Result<u8, u8>) -> Attempt {
        Box::pin(ready(result))
    }

    fn never() -> Attempt {
        Box::pin(pending())
    }

    #[tokio::test]
    async fn a_server_that_stands_still_or_fails_holds_up_no_other() {
        assert_eq!(first_of(never(), vec![done(Ok(2))]).await, Ok(2));
        assert_eq!(first_of(done(Err(1)), vec![done(Ok(2)), never()]).await, Ok(2));
        assert_eq!(first_of(done(Ok(1)), vec![done(Err(2))]).await, Ok(1));
        assert_eq!(first_of(done(Err(1)), vec![done(Err(2)), done(Err(3))]).await, Err(3));
        assert_eq!(first_of(done(Err(1)), Vec::new()).await, Err(1));
    }

    #[test]
    fn each_server_has_all_settings_of_the_address() {
        let parse = |address: &str| address.parse::<Config>().unwrap();
        let rest = "flock?target_session_attrs=read-write&options=-c%20a%3Db&connect_timeout=5";
        let all = parse(&format!("postgres://ann:x@one:1,two:2/{rest}"));
        let single = ["one:1", "two:2"].map(|host| parse(&format!("postgres://ann:x@{host}/{rest}")));
        assert_eq!(each(&all), single);
        assert_eq!(each(&single[0]), single[..1]);
    }
}
