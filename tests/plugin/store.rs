//! State stores: states in chunks, locks, listing and deleting.

use egress::plugin::types::Type;
use egress::plugin::value::Value;

use crate::generated::tfplugin6::*;
use crate::host::{Session, sent};

const SHELF: &str = "toy_shelf";

async fn configure(session: &mut Session, own: Option<i64>, wanted: i64) -> i64 {
    let ty = Type::object([("chunk", Type::Number)]);
    let config = sent(&Value::object([("chunk", own)]), &ty);
    let request = validate_state_store::Request {
        type_name: SHELF.to_owned(),
        config: config.clone(),
    };
    let valid = session
        .client
        .validate_state_store_config(request)
        .await
        .expect("an answer")
        .into_inner();
    assert_eq!(valid.diagnostics, []);
    let capabilities = Some(StateStoreClientCapabilities { chunk_size: wanted });
    let request = configure_state_store::Request {
        type_name: SHELF.to_owned(),
        config,
        capabilities,
    };
    let response = session
        .client
        .configure_state_store(request)
        .await
        .expect("an answer")
        .into_inner();
    response.capabilities.expect("a chunk size").chunk_size
}

fn chunks(state: &[u8], size: usize) -> Vec<write_state_bytes::RequestChunk> {
    let chunk = |(i, bytes): (usize, &[u8])| write_state_bytes::RequestChunk {
        meta: (i == 0).then(|| RequestChunkMeta {
            type_name: SHELF.to_owned(),
            state_id: "default".to_owned(),
        }),
        bytes: bytes.to_vec().into(),
        total_length: state.len() as i64,
        range: Some(StateRange {
            start: (i * size) as i64,
            end: (i * size + bytes.len()) as i64,
        }),
    };
    state.chunks(size).enumerate().map(chunk).collect()
}

async fn write(session: &mut Session, chunks: Vec<write_state_bytes::RequestChunk>) -> Vec<Diagnostic> {
    let response = session
        .client
        .write_state_bytes(tokio_stream::iter(chunks))
        .await
        .expect("an answer");
    response.into_inner().diagnostics
}

async fn read(session: &mut Session, state_id: &str) -> Vec<read_state_bytes::Response> {
    let request = read_state_bytes::Request {
        type_name: SHELF.to_owned(),
        state_id: state_id.to_owned(),
    };
    let mut stream = session
        .client
        .read_state_bytes(request)
        .await
        .expect("a stream")
        .into_inner();
    let mut parts = Vec::new();
    while let Some(part) = stream.message().await.expect("a part") {
        parts.push(part);
    }
    parts
}

#[tokio::test]
async fn a_state_comes_back_as_it_went() {
    let mut session = Session::start().await;
    assert_eq!(
        configure(&mut session, None, 1000).await,
        1000,
        "the host's wish, where the store has none"
    );
    assert_eq!(configure(&mut session, Some(300), 1000).await, 300);
    let state: Vec<u8> = (0..1000u32).map(|i| (i % 251) as u8).collect();
    assert_eq!(write(&mut session, chunks(&state, 300)).await, []);
    let parts = read(&mut session, "default").await;
    assert_eq!(parts.len(), 4);
    assert!(parts.iter().all(|part| part.total_length == 1000));
    let last = parts[3].range.expect("a range");
    assert_eq!((last.start, last.end), (900, 1000));
    let joined: Vec<u8> = parts.iter().flat_map(|part| part.bytes.to_vec()).collect();
    assert_eq!(joined, state);
    assert_eq!(read(&mut session, "absent").await, []);
    assert_eq!(
        read(&mut session, "forbidden").await[0].diagnostics[0].summary,
        "Hands off"
    );
}

#[tokio::test]
async fn a_state_that_does_not_arrive_whole_is_not_written() {
    let mut session = Session::start().await;
    let state = vec![7; 100];
    let mut gap = chunks(&state, 30);
    gap.remove(1);
    let mut short = chunks(&state, 30);
    short.pop();
    let mut nameless = chunks(&state, 30);
    nameless[0].meta = None;
    for (broken, what) in [
        (gap, "starts at byte 60"),
        (short, "90 arrived"),
        (nameless, "which state"),
        (vec![], "no part"),
    ] {
        let diagnostics = write(&mut session, broken).await;
        assert!(diagnostics[0].detail.contains(what), "{what}: {diagnostics:?}");
    }
    assert_eq!(read(&mut session, "default").await, []);
}

#[tokio::test]
async fn states_are_locked_listed_and_deleted() {
    let mut session = Session::start().await;
    write(&mut session, chunks(b"{}", 10)).await;
    let type_name = SHELF.to_owned();
    let state_id = "default".to_owned();
    let lock = lock_state::Request {
        type_name: type_name.clone(),
        state_id: state_id.clone(),
        operation: "apply".into(),
    };
    let locked = session
        .client
        .lock_state(lock.clone())
        .await
        .expect("an answer")
        .into_inner();
    assert_eq!(locked.lock_id, "lock-of-default");
    let refused = session
        .client
        .lock_state(lock)
        .await
        .expect("an answer")
        .into_inner();
    assert_eq!(
        (refused.lock_id.as_str(), refused.diagnostics[0].detail.as_str()),
        ("", "By apply.")
    );
    let unlock = unlock_state::Request {
        type_name: type_name.clone(),
        state_id: state_id.clone(),
        lock_id: locked.lock_id,
    };
    assert_eq!(
        session
            .client
            .unlock_state(unlock)
            .await
            .expect("an answer")
            .into_inner()
            .diagnostics,
        []
    );
    let states = get_states::Request {
        type_name: type_name.clone(),
    };
    assert_eq!(
        session
            .client
            .get_states(states.clone())
            .await
            .expect("an answer")
            .into_inner()
            .state_id,
        ["default"]
    );
    let delete = delete_state::Request { type_name, state_id };
    assert_eq!(
        session
            .client
            .delete_state(delete)
            .await
            .expect("an answer")
            .into_inner()
            .diagnostics,
        []
    );
    assert!(
        session
            .client
            .get_states(states)
            .await
            .expect("an answer")
            .into_inner()
            .state_id
            .is_empty()
    );
}
