//! The calls on state stores. States are cut into chunks here, and put together again.
//!
//! Must not know gRPC. Invariant: a store is given a whole state or none: chunks that leave a gap,
//! overlap, or do not add up to the announced length are an error and nothing is written.

use bytes::Bytes;

use super::catalogue::Catalogue;
use crate::plugin::convert::{self, received};
use crate::plugin::diagnostics::{Diagnostic, Diagnostics};
use crate::plugin::generated::tfplugin6::{self as wire, *};
use crate::plugin::provider::{Call, ConfigureStoreRequest};

/// The chunk size where neither side chose one: what Terraform proposes.
pub(super) const DEFAULT_CHUNK: usize = 8 << 20;
/// The largest chunk: a message may have 256 MiB, and has more than the chunk in it.
const MAX_CHUNK: usize = 128 << 20;
/// The largest state that is put together in memory.
const MAX_STATE: usize = 256 << 20;

pub(super) async fn validate(
    catalogue: &Catalogue,
    call: &Call,
    request: validate_state_store::Request,
) -> Result<validate_state_store::Response, Diagnostics> {
    let entry = catalogue.state_store(&request.type_name)?;
    let config = received(&entry.layout, request.config, "The configuration")?;
    let diagnostics = entry.handler.validate(call, config).await;
    Ok(validate_state_store::Response {
        diagnostics: convert::diagnostics(diagnostics),
    })
}

/// The answer, and the chunk size that holds from now on.
pub(super) async fn configure(
    catalogue: &Catalogue,
    call: &Call,
    request: configure_state_store::Request,
) -> Result<(configure_state_store::Response, usize), Diagnostics> {
    let entry = catalogue.state_store(&request.type_name)?;
    let config = received(&entry.layout, request.config, "The configuration")?;
    let wanted = request
        .capabilities
        .map_or(0, |capabilities| capabilities.chunk_size);
    let response = entry
        .handler
        .configure(
            call,
            ConfigureStoreRequest {
                config,
                chunk_size: wanted,
            },
        )
        .await;
    let chosen = [response.chunk_size, wanted].into_iter().find(|size| *size > 0);
    let chunk = chosen
        .and_then(|size| usize::try_from(size).ok())
        .unwrap_or(DEFAULT_CHUNK)
        .min(MAX_CHUNK);
    let answer = configure_state_store::Response {
        diagnostics: convert::diagnostics(response.diagnostics),
        capabilities: Some(wire::StateStoreServerCapabilities {
            chunk_size: chunk as i64,
        }),
    };
    Ok((answer, chunk))
}

/// A state in chunks; none where there is no state.
pub(super) async fn read(
    catalogue: &Catalogue,
    call: &Call,
    request: read_state_bytes::Request,
    chunk: usize,
) -> Result<Vec<read_state_bytes::Response>, Diagnostics> {
    let entry = catalogue.state_store(&request.type_name)?;
    let state = Bytes::from(entry.handler.read(call, request.state_id).await?);
    let total_length = state.len() as i64;
    let starts = (0..state.len()).step_by(chunk.max(1));
    let chunks = starts.map(|start| {
        let end = state.len().min(start + chunk.max(1));
        read_state_bytes::Response {
            bytes: state.slice(start..end),
            total_length,
            range: Some(wire::StateRange {
                start: start as i64,
                end: end as i64,
            }),
            diagnostics: Vec::new(),
        }
    });
    Ok(chunks.collect())
}

/// Puts the chunks of a state together again.
#[derive(Default)]
pub(super) struct Assembly {
    target: Option<wire::RequestChunkMeta>,
    state: Vec<u8>,
    announced: Option<i64>,
}

impl Assembly {
    pub(super) fn add(&mut self, chunk: write_state_bytes::RequestChunk) -> Result<(), Diagnostics> {
        let wrong = |detail: String| {
            Diagnostics::from(
                Diagnostic::error("The state did not arrive whole").detail(format!(
                    "{detail} Nothing was written; this is a bug in the host or in the provider."
                )),
            )
        };
        if self.target.is_none() {
            let meta = chunk
                .meta
                .ok_or_else(|| wrong("The first part does not say which state it is.".into()))?;
            self.target = Some(meta);
            self.announced = Some(chunk.total_length);
        }
        let start = chunk.range.map_or(self.state.len() as i64, |range| range.start);
        if start != self.state.len() as i64 {
            let have = self.state.len();
            return Err(wrong(format!(
                "A part starts at byte {start}, but {have} bytes have arrived."
            )));
        }
        if self.state.len() + chunk.bytes.len() > MAX_STATE {
            return Err(wrong(format!("It is larger than {MAX_STATE} bytes.")));
        }
        self.state.extend_from_slice(&chunk.bytes);
        Ok(())
    }

    pub(super) async fn write(
        self,
        catalogue: &Catalogue,
        call: &Call,
    ) -> Result<write_state_bytes::Response, Diagnostics> {
        let arrived = self.state.len() as i64;
        let (Some(target), Some(announced)) = (self.target, self.announced) else {
            return Err(Diagnostic::error("No state arrived")
                .detail("The host sent no part of it.")
                .into());
        };
        if arrived != announced {
            return Err(Diagnostic::error("The state did not arrive whole")
                .detail(format!(
                    "{announced} bytes were announced, but {arrived} arrived. Nothing was written."
                ))
                .into());
        }
        let entry = catalogue.state_store(&target.type_name)?;
        let diagnostics = entry.handler.write(call, target.state_id, self.state).await;
        Ok(write_state_bytes::Response {
            diagnostics: convert::diagnostics(diagnostics),
        })
    }
}

pub(super) async fn lock(
    catalogue: &Catalogue,
    call: &Call,
    request: lock_state::Request,
) -> Result<lock_state::Response, Diagnostics> {
    let entry = catalogue.state_store(&request.type_name)?;
    let lock_id = entry
        .handler
        .lock(call, request.state_id, request.operation)
        .await?;
    Ok(lock_state::Response {
        lock_id,
        diagnostics: Vec::new(),
    })
}

pub(super) async fn unlock(
    catalogue: &Catalogue,
    call: &Call,
    request: unlock_state::Request,
) -> Result<unlock_state::Response, Diagnostics> {
    let entry = catalogue.state_store(&request.type_name)?;
    let diagnostics = entry
        .handler
        .unlock(call, request.state_id, request.lock_id)
        .await;
    Ok(unlock_state::Response {
        diagnostics: convert::diagnostics(diagnostics),
    })
}

pub(super) async fn list(
    catalogue: &Catalogue,
    call: &Call,
    request: get_states::Request,
) -> Result<get_states::Response, Diagnostics> {
    let state_id = catalogue
        .state_store(&request.type_name)?
        .handler
        .list(call)
        .await?;
    Ok(get_states::Response {
        state_id,
        diagnostics: Vec::new(),
    })
}

pub(super) async fn delete(
    catalogue: &Catalogue,
    call: &Call,
    request: delete_state::Request,
) -> Result<delete_state::Response, Diagnostics> {
    let entry = catalogue.state_store(&request.type_name)?;
    let diagnostics = entry.handler.delete(call, request.state_id).await;
    Ok(delete_state::Response {
        diagnostics: convert::diagnostics(diagnostics),
    })
}
