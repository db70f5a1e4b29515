//! Commands that end by themselves.

use flock::sandbox::helper::{Environment, HelperError};

use super::*;

#[tokio::test]
async fn output_comes_in_order_with_the_code() {
    let helper = Helper::start();
    let client = helper.attach().await;
    let outcome = run(&client, "echo one; echo two >&2; printf three; exit 7").await;
    assert_eq!((outcome.end, text(&outcome)), (CommandExit::Exited(7), "one\ntwo\nthree"));
    assert_eq!(outcome.output.total, 13);
    assert!(outcome.output.tail.is_empty());
}

#[tokio::test]
async fn a_signal_is_told_from_a_code() {
    let helper = Helper::start();
    let client = helper.attach().await;
    assert_eq!(run(&client, "kill -9 $$").await.end, CommandExit::Signalled(9));
    assert_eq!(run(&client, "exit 137").await.end, CommandExit::Exited(137));
    assert_eq!(run(&client, "no-such-program").await.end, CommandExit::Exited(127));
    // A shell that inherited an ignored SIGPIPE would never end this.
    assert_eq!(run(&client, "yes | head -n 1").await.end, CommandExit::Exited(0));
}

#[tokio::test]
async fn a_command_sees_its_own_environment_and_nothing_else() {
    let helper = Helper::start();
    let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let environment = Environment {
        root: "/".to_owned(),
        variables: vec![variable("PATH", "/usr/bin:/bin"), variable("A", "default")],
    };
    let client = helper.attach().await.with_environment(environment);
    let mut command = sh("tr '\\0' '\\n' < /proc/$$/environ; ls /proc/self/fd | wc -l");
    command.env = vec![variable("A", "own"), variable("B", "two words\n")];
    let outcome = client.run(&command, &CancellationToken::new()).await.unwrap();
    // Standard input, output and error, and the folder that `ls` reads.
    assert_eq!(text(&outcome), "PATH=/usr/bin:/bin\nA=own\nB=two words\n\n4\n");
    let bad = Command { env: vec![variable("A=B", "x")], ..sh("true") };
    assert!(matches!(client.run(&bad, &CancellationToken::new()).await, Err(HelperError::Refused(_))));
}

#[tokio::test]
async fn the_working_folder_is_the_root_or_below_or_anywhere_and_must_be_there() {
    let helper = Helper::start();
    let client = helper.attach().await;
    let root = helper.folder.path().canonicalize().unwrap();
    std::fs::create_dir(root.join("a b")).unwrap();
    let below = root.join("a b").to_str().unwrap().to_owned();
    for (workdir, wanted) in
        [(None, root.to_str().unwrap()), (Some("a b"), below.as_str()), (Some("/usr"), "/usr")]
    {
        let command = Command { workdir: workdir.map(str::to_owned), ..sh("pwd -P") };
        let outcome = client.run(&command, &CancellationToken::new()).await.unwrap();
        assert_eq!(text(&outcome).trim_end(), wanted);
    }
    for missing in ["none", "flock-helper", "a\0b"] {
        let command = Command { workdir: Some(missing.to_owned()), ..sh("true") };
        let error = client.run(&command, &CancellationToken::new()).await.unwrap_err();
        assert!(matches!(error, HelperError::Refused(_)), "{missing}: {error}");
    }
    assert!(client.is_alive());
}

#[tokio::test]
async fn standard_input_is_empty_and_commands_may_be_long() {
    let helper = Helper::start();
    let client = helper.attach().await;
    assert_eq!(run(&client, "cat; echo end").await.output.head, b"end\n");
    let long = format!("echo {} | wc -c", "x".repeat(100_000));
    assert_eq!(text(&run(&client, &long).await).trim(), "100001");
    let longer = sh(&"x".repeat(200_000));
    let error = client.run(&longer, &CancellationToken::new()).await.unwrap_err();
    assert!(matches!(error, HelperError::TooLarge(_)), "{error}");
}

#[tokio::test]
async fn many_commands_at_once_keep_their_outputs_apart() {
    let helper = Helper::start();
    let client = std::sync::Arc::new(helper.attach().await);
    let tasks: Vec<_> = (0..60)
        .map(|number| {
            let client = client.clone();
            tokio::spawn(async move {
                let command = format!("for i in 1 2 3; do echo {number}; done; sleep 0.01; exit {number}");
                (number, run(&client, &command).await)
            })
        })
        .collect();
    for task in tasks {
        let (number, outcome) = task.await.unwrap();
        assert_eq!(outcome.end, CommandExit::Exited(number));
        assert_eq!(text(&outcome), format!("{number}\n").repeat(3));
    }
    helper.grows_to(0).await;
}

#[tokio::test]
#[ignore = "prints a figure, proves nothing"]
async fn median_of_true() {
    let helper = Helper::start();
    let client = helper.attach().await;
    let mut times = Vec::new();
    for _ in 0..500 {
        let start = Instant::now();
        assert_eq!(run(&client, "true").await.end, CommandExit::Exited(0));
        times.push(start.elapsed());
    }
    times.sort();
    eprintln!("true: median {:?}, 95th percentile {:?}", times[250], times[475]);
}
