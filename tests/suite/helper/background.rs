//! Background jobs.

use flock::sandbox::helper::HelperError;
use flock::sandbox::{BackgroundJob, JobReply, JobRequest};

use super::*;

async fn ask(client: &HelperClient, request: JobRequest) -> JobReply {
    client.jobs(request).await.unwrap()
}

/// Polls until the job has printed `wanted` since the last poll before.
async fn polls(client: &HelperClient, id: u32, wanted: &str) -> BackgroundJob {
    let end = Instant::now() + LIMIT;
    let mut seen = Vec::new();
    loop {
        let mut reply = ask(client, JobRequest::Poll(id)).await;
        seen.extend(reply.output.head);
        if seen == wanted.as_bytes() {
            return reply.jobs.remove(0);
        }
        assert!(Instant::now() < end, "{:?}, not {wanted:?}", String::from_utf8_lossy(&seen));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn ends(client: &HelperClient, id: u32) -> BackgroundJob {
    let end = Instant::now() + LIMIT;
    loop {
        let job = ask(client, JobRequest::Log(id)).await.jobs.remove(0);
        if job.end.is_some() {
            return job;
        }
        assert!(Instant::now() < end, "job {id} does not end");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_job_is_polled_fed_and_remembered() {
    let helper = Helper::start();
    let client = helper.attach().await;
    let command = "echo ready; while read -r line; do echo \"<$line>\"; [ $line = end ] && exit 5; done";
    let job = client.spawn(&sh(command)).await.unwrap();
    assert_eq!((job.command.as_str(), job.end), (command, None));
    polls(&client, job.id, "ready\n").await;
    ask(&client, JobRequest::Write(job.id, b"one\ntwo\n".to_vec())).await;
    polls(&client, job.id, "<one>\n<two>\n").await;
    ask(&client, JobRequest::Write(job.id, b"end\n".to_vec())).await;
    let ended = ends(&client, job.id).await;
    assert_eq!((ended.id, ended.end), (job.id, Some(CommandExit::Exited(5))));
    polls(&client, job.id, "<end>\n").await;
    let log = ask(&client, JobRequest::Log(job.id)).await;
    assert_eq!(log.output.head, b"ready\n<one>\n<two>\n<end>\n");
    let late = client.jobs(JobRequest::Write(job.id, b"more".to_vec())).await;
    assert!(matches!(late, Err(HelperError::Refused(_))));
    assert_eq!(ask(&client, JobRequest::Kill(job.id)).await.jobs[0].end, Some(CommandExit::Exited(5)));
}

#[tokio::test]
async fn a_killed_job_is_gone_when_the_answer_comes() {
    let helper = Helper::start();
    let client = helper.attach().await;
    let job = client.spawn(&sh("trap '' TERM; setsid sleep 1000 & sleep 1000")).await.unwrap();
    helper.grows_to(3).await;
    let reply = ask(&client, JobRequest::Kill(job.id)).await;
    assert_eq!(reply.jobs[0].end, Some(CommandExit::Cancelled));
    assert_eq!(helper.descendants(), Vec::<i32>::new());
}

#[tokio::test]
async fn a_job_has_no_limit_unless_it_is_given_one() {
    let helper = Helper::start();
    let client = helper.attach().await;
    let endless = client.spawn(&Command { timeout: None, ..sh("sleep 1000") }).await.unwrap();
    let short = Command { timeout: Some(Duration::from_millis(50)), ..sh("sleep 1000") };
    let short = client.spawn(&short).await.unwrap();
    assert_eq!(ends(&client, short.id).await.end, Some(CommandExit::TimedOut));
    assert_eq!(ask(&client, JobRequest::Log(endless.id)).await.jobs[0].end, None);
}

#[tokio::test]
async fn output_between_two_polls_is_bounded_and_counted() {
    let helper = Helper::start();
    let client = helper.attach().await;
    let command =
        Command { keep: 100, ..sh("yes | head -c 1000; read -r line; printf %0200d 7; read -r line") };
    let job = client.spawn(&command).await.unwrap();
    let printed = async |total: u64| {
        let end = Instant::now() + LIMIT;
        while ask(&client, JobRequest::Log(job.id)).await.jobs[0].total != total {
            assert!(Instant::now() < end);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        ask(&client, JobRequest::Poll(job.id)).await.output
    };
    let first = printed(1000).await;
    assert_eq!((first.head.len(), first.tail.len(), first.total), (50, 50, 1000));
    ask(&client, JobRequest::Write(job.id, b"\n".to_vec())).await;
    let second = printed(1200).await;
    assert_eq!((second.head.len(), second.tail.len(), second.total), (0, 50, 200));
    assert!(second.tail.ends_with(b"0007"));
    assert_eq!(ask(&client, JobRequest::Poll(job.id)).await.output, flock::sandbox::Output::default());
}

#[tokio::test]
async fn input_a_job_does_not_read_is_refused_in_the_end() {
    let helper = Helper::start();
    let client = helper.attach().await;
    let job = client.spawn(&sh("sleep 1000")).await.unwrap();
    let mut refused = None;
    for _ in 0..20 {
        let write = JobRequest::Write(job.id, vec![b'x'; 200_000]);
        refused = client.jobs(write).await.err();
        if refused.is_some() {
            break;
        }
    }
    assert!(matches!(refused, Some(HelperError::Refused(_))), "{refused:?}");
    let large = client.jobs(JobRequest::Write(job.id, vec![0; 1 << 20])).await;
    assert!(matches!(large, Err(HelperError::TooLarge(_))));
    assert_eq!(run(&client, "true").await.end, CommandExit::Exited(0));
}

#[tokio::test]
async fn jobs_are_bounded_and_the_oldest_ended_ones_forgotten() {
    let helper = Helper::start();
    let client = helper.attach().await;
    assert!(matches!(client.jobs(JobRequest::Poll(1)).await, Err(HelperError::NoJob(1))));
    let mut ids = Vec::new();
    for _ in 0..32 {
        ids.push(client.spawn(&sh("read -r line")).await.unwrap().id);
    }
    let one_more = client.spawn(&sh("true")).await;
    assert!(matches!(one_more, Err(HelperError::Refused(_))));
    assert_eq!(run(&client, "true").await.end, CommandExit::Exited(0), "a command is no background job");
    let listed: Vec<u32> = ask(&client, JobRequest::List).await.jobs.iter().map(|job| job.id).collect();
    assert_eq!(listed, ids);
    for id in &ids {
        ask(&client, JobRequest::Kill(*id)).await;
    }
    let newest = client.spawn(&sh("true")).await.unwrap().id;
    ends(&client, newest).await;
    assert!(matches!(client.jobs(JobRequest::Log(ids[0])).await, Err(HelperError::NoJob(_))));
    assert_eq!(ask(&client, JobRequest::List).await.jobs.len(), 32);
    assert!(!ids.contains(&newest));
}
