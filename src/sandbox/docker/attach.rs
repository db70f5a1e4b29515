//! Attaches to a container's standard streams, in the form that the helper's client takes.

use bollard::Docker;
use bollard::container::{AttachContainerResults, LogOutput};
use bollard::query_parameters::AttachContainerOptionsBuilder;
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, future};
use tokio_util::io::StreamReader;

use crate::sandbox::helper::HelperStreams;

/// Attaches to a container that runs or is about to be started.
pub async fn attach(client: &Docker, container: &str) -> Result<HelperStreams, bollard::errors::Error> {
    let options =
        AttachContainerOptionsBuilder::default().stream(true).stdin(true).stdout(true).stderr(false).build();
    let AttachContainerResults { output, input } = client.attach_container(container, Some(options)).await?;
    Ok((Box::new(StreamReader::new(standard_output(output))), Box::new(input)))
}

fn standard_output(
    output: impl Stream<Item = Result<LogOutput, bollard::errors::Error>> + Send + Unpin + 'static,
) -> impl Stream<Item = Result<Bytes, std::io::Error>> + Send + Unpin {
    output.filter_map(|piece| {
        future::ready(match piece {
            Ok(LogOutput::StdOut { message }) => Some(Ok(message)),
            Ok(_) => None,
            Err(error) => Some(Err(std::io::Error::other(error))),
        })
    })
}
