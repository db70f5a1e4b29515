use bollard::models::{ContainerStateStatusEnum, ContainerSummaryStateEnum};

use super::*;
use crate::sandbox::testing;

#[tokio::test]
async fn a_rootless_service_without_controllers_does_not_pass_for_one_that_limits() {
    const INFO: &str = r#"{"host": {
        "cgroupControllers": ["cpu"],
        "security": {"rootless": true},
        "ociRuntime": {"name": "crun"}
    }}"#;
    let (engine, _folder) = testing::engine(|_: &str| (200, INFO));
    let claimed = SystemInfo {
        memory_limit: Some(true),
        cpu_cfs_quota: Some(true),
        pids_limit: Some(true),
        security_options: Some(vec!["name=seccomp,profile=default".to_owned()]),
        ..SystemInfo::default()
    };
    let found = corrected(&engine, claimed).await.unwrap();
    assert_eq!(
        (found.memory_limit, found.cpu_cfs_quota, found.pids_limit),
        (Some(false), Some(true), Some(false))
    );
    assert_eq!(found.security_options.unwrap(), ["name=seccomp,profile=default", "name=rootless"]);
}

#[tokio::test]
async fn a_state_that_docker_does_not_have_is_an_end() {
    let one = r#"{"Id": "a", "State": {"Status": "stopped"}}"#;
    let (engine, _folder) = testing::engine(move |_: &str| (200, one));
    let found = inspect(&engine, "a").await.unwrap();
    assert_eq!(found.state.unwrap().status, Some(ContainerStateStatusEnum::EXITED));
    let all = r#"[{"Id": "a", "State": "stopped"}, {"Id": "b", "State": "running"}]"#;
    let (engine, _folder) = testing::engine(move |_: &str| (200, all));
    let found = list(&engine, &HashMap::new()).await.unwrap();
    let states: Vec<_> = found.into_iter().filter_map(|one| one.state).collect();
    assert_eq!(states, [ContainerSummaryStateEnum::EXITED, ContainerSummaryStateEnum::RUNNING]);
}

#[tokio::test]
async fn the_texts_of_its_errors_are_told_apart() {
    for (text, expected, is_state) in [
        (r#"{"cause": "that name is already in use", "message": "it is"}"#, 409, false),
        (r#"{"cause": "image not known", "message": "it is not"}"#, 404, false),
        (r#"{"cause": "other", "message": "can't pause: container state improper"}"#, 500, true),
        ("no JSON", 500, false),
    ] {
        let (engine, _folder) = testing::engine(move |_: &str| (500, text));
        let error =
            engine.call("try", engine::QUICK, call(&engine, Method::GET, "/x", None)).await.unwrap_err();
        assert_eq!(engine::refusal(&error), Some(expected), "{text}");
        assert_eq!(is_wrong_state(&error), is_state, "{text}");
    }
}
